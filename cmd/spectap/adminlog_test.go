package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// A panic at the admin port tells its stack, and not its value.
func TestAdminLog(t *testing.T) {
	var log shared
	server := adminServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("c4n4ry") }), zerolog.New(&log))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(ln) }()
	if resp, err := http.Get("http://" + ln.Addr().String()); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		t.Errorf("got an answer of %d", resp.StatusCode)
	}
	server.Close()
	<-ended
	if got := log.String(); strings.Contains(got, "c4n4ry") || !strings.Contains(got, "TestAdminLog") {
		t.Errorf("got %q, want the stack alone", got)
	}
}
