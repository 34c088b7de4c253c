package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector"
)

// An engine behind TLS or a unix socket is relayed as one on TCP, ends included.
func TestRelayUpstreams(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, switched+"\r\n")
		text, err := io.ReadAll(rw)
		if err != nil {
			t.Errorf("the engine read %q and then %v, want the client's end", text, err)
		}
		_, _ = conn.Write(text)
		_ = conn.Close()
	})
	f := func(upstream string, setup func(*Server)) {
		t.Helper()
		recs := make(chan *collector.Record, 1)
		p := startProxy(t, testConfig(t, upstream), func(s *Server) {
			ended(recs)(s)
			if setup != nil {
				setup(s)
			}
		})
		c := upgraded(t, p.addr)
		want := strings.Repeat("words", 30000)
		go func() { _, _ = io.WriteString(c, want); leave(c, "half") }()
		if text, err := io.ReadAll(c.br); string(text) != want || err != nil {
			t.Errorf("%s: got %d bytes, %v; want %d", upstream, len(text), err, len(want))
		}
		if rec := <-recs; rec.ErrorKind != "" || rec.ResponseBytes != len(want) {
			t.Errorf("%s: got kind %q, %d bytes", upstream, rec.ErrorKind, rec.ResponseBytes)
		}
		back(t, p)
	}
	path := "unix:" + filepath.Join(t.TempDir(), "up.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	unix := httptest.NewUnstartedServer(handler)
	unix.Listener = ln
	unix.Start()
	defer unix.Close()
	f(path, nil)
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	f(secure.URL, func(s *Server) {
		s.pool.dialer.tls = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		s.pool.dialer.tls.ServerName = "example.com"
	})
}
