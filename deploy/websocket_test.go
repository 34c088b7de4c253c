package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/websocket"
)

// A WebSocket library's server and client speak through the proxy as they do
// directly: subprotocol, a header of the client, text and binary messages of any
// size from either side, several at once, and the end.
func TestWebSocket(t *testing.T) {
	engine := httptest.NewServer(websocket.Server{
		Handshake: func(config *websocket.Config, req *http.Request) error {
			if req.Header.Get("Authorization") != "Bearer key" {
				return errors.New("no key")
			}
			config.Protocol = []string{"realtime"}
			return nil
		},
		Handler: func(ws *websocket.Conn) {
			_ = websocket.Message.Send(ws, "session.created")
			for {
				var message []byte
				if websocket.Message.Receive(ws, &message) != nil {
					return
				}
				if bytes.Equal(message, []byte("bye")) {
					_ = websocket.Message.Send(ws, "bye")
					return // and closes
				}
				_ = websocket.Message.Send(ws, message)
			}
		},
	})
	defer engine.Close()
	proxy := startProxy(t, nil, engine.URL, "--engine", "vllm", "--drain_timeout", "1s")
	for _, server := range []string{engine.URL, proxy.URL} {
		if _, err := dialSocket(server, "wrong"); !errors.Is(err, websocket.ErrBadStatus) {
			t.Errorf("got %v without a key, want %v", err, websocket.ErrBadStatus)
		}
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				if err := talk(server, n); err != nil {
					t.Errorf("%s: %v", server, err)
				}
			})
		}
		all.Wait()
	}
	open, err := dialSocket(proxy.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	proxy.stop(t) // cuts what its drain time leaves over
	if code := proxy.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the proxy ended with code %d, want 0", code)
	}
	_, _ = io.Copy(io.Discard, open) // it ends
}

func dialSocket(server, key string) (*websocket.Conn, error) {
	config, err := websocket.NewConfig("ws"+strings.TrimPrefix(server, "http")+"/v1/realtime?model=m", server)
	if err != nil {
		return nil, err
	}
	config.Protocol = []string{"other", "realtime"}
	config.Header.Set("Authorization", "Bearer "+key)
	ws, err := config.DialContext(context.Background())
	var failed *websocket.DialError
	if errors.As(err, &failed) {
		return nil, failed.Err
	}
	return ws, err
}

// talk sends messages of many sizes and compares what comes back.
func talk(server string, n int) error {
	ws, err := dialSocket(server, "key")
	if err != nil {
		return err
	}
	defer ws.Close()
	var hello string
	if err := websocket.Message.Receive(ws, &hello); err != nil || hello != "session.created" {
		return fmt.Errorf("got %q, %v; want the server's first message", hello, err)
	}
	for size := 1; size < 1<<18; size *= 5 {
		sent := bytes.Repeat([]byte{byte(n)}, size)
		var got []byte
		if err := websocket.Message.Send(ws, sent); err != nil {
			return err
		}
		if err := websocket.Message.Receive(ws, &got); err != nil || !bytes.Equal(got, sent) {
			return fmt.Errorf("got %d bytes, %v; want %d", len(got), err, size)
		}
	}
	var last string
	if err := websocket.Message.Send(ws, "bye"); err != nil {
		return err
	}
	if err := websocket.Message.Receive(ws, &last); err != nil || last != "bye" {
		return fmt.Errorf("got %q, %v; want the last message", last, err)
	}
	if err := websocket.Message.Receive(ws, &last); err != io.EOF {
		return fmt.Errorf("got %v behind the last message, want the end", err)
	}
	return nil
}
