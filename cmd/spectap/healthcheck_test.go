package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// healthcheck asks the admin port that the proxy was told to listen on, by flag
// or variable, and its exit code is the answer.
func TestHealthcheck(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("engine is loading\n"))
			return
		}
		_, _ = w.Write([]byte("ok " + r.URL.Path + "\n"))
	})
	tcp := httptest.NewServer(handler)
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "admin")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix := httptest.NewUnstartedServer(handler)
	_ = unix.Listener.Close()
	unix.Listener = ln
	unix.Start()
	defer unix.Close()
	_, port, _ := net.SplitHostPort(tcp.Listener.Addr().String())

	f := func(code int, want, variable string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		p := program{stdout: &out, stderr: &errs, env: map[string]string{"SPECTAP_ADMIN": variable, "HTTP_PROXY": "http://127.0.0.1:1"}}
		if got := p.run(context.Background(), append([]string{"healthcheck"}, args...)); got != code {
			t.Errorf("%q %v: got exit code %d, want %d", variable, args, got, code)
		}
		if text := out.String() + errs.String(); !strings.Contains(text, want) {
			t.Errorf("%q %v: got %q, want %q in it", variable, args, text, want)
		}
	}
	f(0, "ok /livez", ":"+port)
	f(0, "ok /livez", "0.0.0.0:"+port)
	f(0, "ok /livez", "unix:"+socket)
	f(0, "ok /livez", "127.0.0.1:1", "--admin", "127.0.0.1:"+port)
	f(1, "/readyz answers 503: engine is loading", ":"+port, "--ready")
	f(1, `the proxy's admin port "unix:`+socket+`x" (SPECTAP_ADMIN) does not answer`, "unix:"+socket+"x")
	f(2, "the admin port is off", "off")
	f(2, "want host:port", "9464")
}
