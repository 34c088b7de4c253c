//go:build unix

package proxy

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"spectap/collector"
)

// useAllDescriptors lowers the limit of open files; fill leaves no descriptor free, until restore.
func useAllDescriptors(t *testing.T) (fill, restore func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lowest, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	used := []*os.File{lowest}
	low := limit
	low.Cur = uint64(lowest.Fd()) + 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	fill = func() {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				return
			}
			used = append(used, f)
		}
	}
	done := false
	restore = func() {
		if done {
			return
		}
		done = true
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		for _, f := range used {
			_ = f.Close()
		}
	}
	t.Cleanup(restore)
	return fill, restore
}

// Without a free descriptor the client is told what to raise, and the next
// request, with one, goes to the engine. It is one that never answers, as it
// would need descriptors of this process, too.
func TestNoDescriptor(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	cfg := testConfig(t, "http://"+ln.Addr().String())
	cfg.HeadTimeout = 20 * time.Millisecond
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	ask := func(wantKind string) (int, string, string) {
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		if rec := p.recs.next(t); rec.Status != resp.StatusCode || rec.Status == 503 && rec.ErrorKind != wantKind {
			t.Errorf("got a Record of status %d, kind %q; want %d, %q", rec.Status, rec.ErrorKind, resp.StatusCode, wantKind)
		}
		return resp.StatusCode, body(t, resp), resp.Header.Get("Retry-After")
	}
	if status, text, _ := ask(""); status != 504 {
		t.Fatalf("got %d %q, want 504", status, text)
	}
	fill, restore := useAllDescriptors(t)
	status, text, again := 504, "", ""
	for n := 0; n < 100 && status == 504; n++ { // what closes late in this process frees one again
		fill()
		status, text, again = ask(collector.ErrUpstreamRefused)
	}
	restore()
	if status != 503 || again == "" {
		t.Errorf("got %d, Retry-After %q; want 503 to try again", status, again)
	}
	contains(t, text, "ulimit -n")
	if status, text, _ := ask(""); status != 504 {
		t.Errorf("got %d %q with descriptors, want 504", status, text)
	}
}
