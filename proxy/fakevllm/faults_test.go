package fakevllm_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

const streamed = `{"messages":[{"role":"user","content":"Hi there"}],"temperature":0,"max_tokens":30,"stream":true,"stream_options":{"include_usage":true}}`

// broken sends one streamed request with a fault and returns raw bytes, the answer
// and the truth. Every answer of the same engine seed is the same but for id and created.
func broken(t *testing.T, fault string) ([]byte, answer, fakevllm.Truth, error) {
	t.Helper()
	log := make(lines, 1)
	e, addr := start(t, fakevllm.Config{Truth: log})
	raw, err := send(t, addr, post("/v1/chat/completions", streamed, "X-Fake-Fault: "+fault, "X-Request-Id: f"))
	<-log
	a := answer{}
	if bytes.Contains(raw, []byte("\r\n\r\n")) {
		a = cut(t, raw)
	}
	return raw, a, e.Truth()[0], err
}

// lines is a truth log that a test can wait for.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestFaults(t *testing.T) {
	good := answer{}
	f := func(fault string, check func(raw []byte, a answer, err error) bool) {
		t.Helper()
		raw, a, tr, err := broken(t, fault)
		if !check(raw, a, err) {
			t.Errorf("%s: err %v, %d events, whole %v, raw %q", fault, err, len(a.events()), a.whole, raw)
		}
		if name, _, _ := strings.Cut(fault, "@"); tr.Fault != name {
			t.Errorf("%s: truth says %q", fault, tr.Fault)
		}
	}
	f("", func(_ []byte, a answer, err error) bool {
		good = a
		return err == nil && a.whole && len(a.events()) > 6 && bytes.Contains(a.body, []byte(`"metrics"`))
	})
	n := len(good.events())
	f("nostats", func(_ []byte, a answer, _ error) bool {
		return a.whole && len(a.events()) == n && !bytes.Contains(a.body, []byte(`"metrics"`)) && bytes.Contains(a.body, []byte(`"usage"`))
	})
	for _, code := range []string{"400", "429", "500", "503"} {
		f("status"+code, func(raw []byte, a answer, _ error) bool {
			return strings.HasPrefix(a.status, "HTTP/1.1 "+code) && bytes.Contains(a.body, []byte(`"code":`+code))
		})
	}
	f("error@4", func(_ []byte, a answer, _ error) bool {
		ev := a.events()
		return a.whole && len(ev) == 6 && strings.HasPrefix(ev[4], `{"error": {`) && ev[5] == "[DONE]"
	})
	f("cut@4", func(raw []byte, a answer, err error) bool {
		return err == nil && !a.whole && len(a.events()) == 4 && bytes.HasSuffix(raw, []byte("\n\n\r\n"))
	})
	f("nodone", func(_ []byte, a answer, _ error) bool {
		return a.whole && len(a.events()) == n-1 && !bytes.Contains(a.body, []byte("[DONE]"))
	})
	f("comments", func(_ []byte, a answer, _ error) bool {
		return a.whole && len(a.events()) == n && bytes.HasPrefix(a.body, []byte(": keep-alive\n\ndata: ")) && bytes.Count(a.body, []byte(": keep-alive\n\n")) >= n-1
	})
	f("split", func(_ []byte, a answer, _ error) bool {
		return a.whole && bytes.Equal(a.body, sameID(good, a)) && len(a.chunks) == 3*(n-1)+1
	})
	f("merge", func(_ []byte, a answer, _ error) bool {
		return a.whole && bytes.Equal(a.body, sameID(good, a)) && len(a.chunks) == (n-1)/3+1
	})
}

// sameID is good's body with the created time of a.
func sameID(good, a answer) []byte {
	created := func(b []byte) []byte {
		i := bytes.Index(b, []byte(`"created":`))
		return b[i : i+20]
	}
	return bytes.ReplaceAll(good.body, created(good.body), created(a.body))
}

// TestStall: n events, then nothing, until the client leaves; then the truth is written.
func TestStall(t *testing.T) {
	log := make(lines, 1)
	e, addr := start(t, fakevllm.Config{Truth: log})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(post("/v1/chat/completions", streamed, "X-Fake-Fault: stall@4")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
	raw, err := io.ReadAll(c)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || len(cut(t, raw).events()) != 4 {
		t.Errorf("err %v after %q", err, raw)
	}
	_ = c.Close()
	<-log
	if all := e.Truth(); len(all) != 1 || all[0].Fault != "stall" || all[0].Finish != "" || all[0].Completion == 0 {
		t.Errorf("truth %+v", all)
	}
}

// TestFaultEvery: a configured fault falls on every m-th request; an unknown one is refused.
func TestFaultEvery(t *testing.T) {
	e, addr := start(t, fakevllm.Config{Fault: "nodone@0/3"})
	for i := range 6 {
		if _, err := send(t, addr, ask(i, "")); err != nil {
			t.Fatal(err)
		}
		if got := e.Truth()[i].Fault == "nodone"; got != (i%3 == 2) {
			t.Errorf("request %d: fault %v", i, got)
		}
	}
	if _, err := fakevllm.New(fakevllm.Config{Fault: "melt@3"}); err == nil {
		t.Error("an unknown fault is accepted")
	}
}

// TestClientGone: a client that leaves is noticed, and its truth says so.
func TestClientGone(t *testing.T) {
	log := make(lines, 1)
	e, addr := start(t, fakevllm.Config{Truth: log, Step: 2 * time.Millisecond})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(streamed, `"max_tokens":30`, `"max_tokens":20000`, 1)
	if _, err := c.Write(post("/v1/chat/completions", body)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	<-log
	if all := e.Truth(); len(all) != 1 || all[0].Fault != "client_gone" || all[0].Finish != "" {
		t.Errorf("truth %+v", all)
	}
}

// TestKeepAlive: one connection serves request after request, and says so when it must not.
func TestKeepAlive(t *testing.T) {
	e, addr := start(t, fakevllm.Config{})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, raw := range [][]byte{ask(1, ""), ask(2, ""), post("/v1/completions", `{"prompt":"x"}`, "Connection: close")} {
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := io.ReadAll(c)
	if err != nil || bytes.Count(raw, []byte("HTTP/1.1 200 OK")) != 3 || len(e.Truth()) != 3 {
		t.Errorf("err %v, %d truths, raw %q", err, len(e.Truth()), raw)
	}
}

// TestCloseCutsOpenConnections: one that
// never sent anything, one that idles, one in a long stream. Close waits for none.
func TestCloseCutsOpenConnections(t *testing.T) {
	log := make(lines, 1)
	e, addr := start(t, fakevllm.Config{Truth: log, Step: time.Hour})
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, raw := range [][]byte{[]byte("GET /version HTTP/1.1\r\nHost: x\r\n\r\n"), post("/v1/chat/completions", streamed)} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	<-log
	if all := e.Truth(); all[0].Fault != "closed" || all[0].Finish != "" {
		t.Errorf("truth %+v", all[0])
	}
}

// BenchmarkStream is one streamed request of 256 tokens with no sleep in it.
func BenchmarkStream(b *testing.B) {
	_, addr := start(b, fakevllm.Config{})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	raw := post("/v1/chat/completions", strings.Replace(streamed, `"max_tokens":30`, `"max_tokens":256`, 1))
	buf := make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(raw); err != nil {
			b.Fatal(err)
		}
		for end := []byte(nil); !bytes.HasSuffix(end, []byte("\r\n0\r\n\r\n")); {
			n, err := c.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			end = append(end[max(0, len(end)-8):], buf[:n]...)
		}
	}
}
