package fakevllm

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// oldListener's connections say that all came long ago.
type oldListener struct{ net.Listener }

func (l oldListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return oldConn{c}, err
}

type oldConn struct{ net.Conn }

func (oldConn) Arrived() time.Time { return time.Unix(42, 7) }

// The log tells the arrival that the connection knows.
func TestArrival(t *testing.T) {
	reader, log := io.Pipe()
	e, err := New(Config{Truth: log})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(oldListener{ln}) }()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		resp, err := http.Post("http://"+ln.Addr().String()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":2}`))
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}()
	var got Truth
	if err := json.NewDecoder(reader).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(42, 7).UnixNano(); got.ArriveUnixNs != want {
		t.Errorf("got arrive_unix_ns %d, want %d", got.ArriveUnixNs, want)
	}
	<-answered
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	<-served
}
