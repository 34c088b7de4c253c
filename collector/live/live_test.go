package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spectap/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests set.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return start.Add(time.Duration(c.offset.Load())) }
func (c *clock) forward(d time.Duration) { c.offset.Add(int64(d)) }

// served is a page on a server whose hub ticks when the test says so.
type served struct {
	*Page
	*httptest.Server
	clock *clock
	state atomic.Pointer[State]
	ticks chan time.Time
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{clock: &clock{}, ticks: make(chan time.Time)}
	s.state.Store(&State{Engine: "vllm", Measure: "usage", Version: "v1", Upstream: "http://engine:8001", Listen: "[::]:8000"})
	s.Page = New(Config{Now: s.clock.now, State: func() State { return *s.state.Load() }})
	s.hub.tick = func(time.Duration) (<-chan time.Time, func()) { return s.ticks, func() {} }
	s.Server = httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Page.Close()
		s.Server.Close()
	})
	return s
}

// events is a browser's end of a stream.
type events struct {
	body io.ReadCloser
	in   *bufio.Reader
}

func (s *served) open(t *testing.T) *events {
	t.Helper()
	resp, err := http.Get(s.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("got status %d, type %q; want 200, text/event-stream", resp.StatusCode, got)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &events{resp.Body, bufio.NewReader(resp.Body)}
}

// next returns the next event by the rules of the HTML standard (9.2.6): its
// name, and its data, which an event needs.
func (e *events) next() (name, data string, err error) {
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != "":
			return name, data, nil
		case line == "":
			name = ""
		case field == "event":
			name = value
		case field == "data":
			data += value
		}
	}
}

// snapshot returns the next snapshot.
func (e *events) snapshot(t *testing.T) map[string]any {
	t.Helper()
	name, data, err := e.next()
	if err != nil || name != "" {
		t.Fatalf("got event %q, error %v; want a snapshot", name, err)
	}
	var s map[string]any
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatalf("cannot read the snapshot: %v", err)
	}
	return s
}

func requests(s map[string]any) float64 {
	return s["total"].(map[string]any)["requests"].(float64)
}

func TestStream(t *testing.T) {
	s := serve(t)
	s.Emit(streamed(100*time.Millisecond, 10*time.Millisecond, 21, 1, 0, 3))
	one := s.open(t)
	got := one.snapshot(t)
	if requests(got) != 1 || got["state"].(map[string]any)["engine"] != "vllm" || got["minute"].(map[string]any)["acceptance_length"] != 2.5 {
		t.Errorf("the first snapshot does not show what was there: %v", got)
	}
	if chart := got["chart"].(map[string]any)["acceptance_length"].([]any); len(chart) != chartSteps || chart[0] != nil {
		t.Errorf("got a chart of %d points, the first %v; want %d and null", len(chart), chart[0], chartSteps)
	}
	two := s.open(t)
	if got := two.snapshot(t); requests(got) != 1 {
		t.Errorf("a second page does not get the last snapshot: %v", got)
	}
	s.Emit(failed(collector.ErrHTTPStatus, collector.MissingError))
	s.ticks <- time.Time{}
	for i, e := range []*events{one, two} {
		if got := e.snapshot(t); requests(got) != 2 {
			t.Errorf("page %d: got %v requests, want 2", i, requests(got))
		}
	}
	s.state.Store(&State{InFlight: 7, Draining: true})
	s.ticks <- time.Time{}
	if got := one.snapshot(t)["state"].(map[string]any); got["in_flight"] != 7.0 || got["draining"] != true {
		t.Errorf("got state %v, want 7 in flight, draining", got)
	}
}

// Where nothing changes, nothing is sent but a sign of life at every fifth tick.
func TestNothingChanged(t *testing.T) {
	s := serve(t)
	e := s.open(t)
	e.snapshot(t)
	for range aliveTicks {
		s.ticks <- time.Time{}
	}
	if name, data, err := e.next(); name != "alive" || data != "1" || err != nil {
		t.Errorf("got event %q, data %q, error %v; want alive", name, data, err)
	}
	s.clock.forward(24 * time.Hour)
	for range aliveTicks { // an idle day changes rates from none to zero, once
		s.ticks <- time.Time{}
	}
	if got := e.snapshot(t); requests(got) != 0 {
		t.Errorf("got %v", got)
	}
	for range aliveTicks {
		s.ticks <- time.Time{}
	}
	if name, _, err := e.next(); name != "alive" || err != nil {
		t.Errorf("got event %q, error %v; want alive", name, err)
	}
}

// A client that opens a page and never reads delays no other one, nor Close.
func TestPageThatNeverReads(t *testing.T) {
	s := serve(t)
	stuck, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	fmt.Fprintf(stuck, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
	e := s.open(t)
	e.snapshot(t)
	for i := range 300 {
		s.Emit(streamed(time.Millisecond, time.Millisecond, i+2, i, i))
		s.ticks <- time.Time{}
		if got := requests(e.snapshot(t)); got != float64(i+1) {
			t.Fatalf("tick %d: got %v requests", i, got)
		}
	}
}

func TestCloseEndsStreams(t *testing.T) {
	s := serve(t)
	var pages []*events
	for range 5 {
		e := s.open(t)
		e.snapshot(t)
		pages = append(pages, e)
	}
	if err := s.Page.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range pages {
		if _, _, err := e.next(); err != io.EOF {
			t.Errorf("got error %v, want the end of the stream", err)
		}
	}
	if err := s.Page.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	resp, err := http.Get(s.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d after Close, want 503", resp.StatusCode)
	}
}

func TestPageLimit(t *testing.T) {
	s := serve(t)
	var streams []*stream
	for range maxStreams {
		streams = append(streams, s.hub.open())
	}
	resp, err := http.Get(s.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got status %d, Retry-After %q; want 503 with one", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	s.hub.leave(streams[0])
	s.open(t).snapshot(t)
}

// A browser that leaves is forgotten.
func TestPageLeaves(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s.hub.mu.Lock()
	stop := s.hub.stop
	s.hub.mu.Unlock()
	cancel()
	resp.Body.Close()
	<-stop // closed when the last page leaves
}

func TestRoutes(t *testing.T) {
	s := serve(t)
	f := func(method, path string, want int) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%s %s: got status %d, want %d", method, path, resp.StatusCode, want)
		}
		if method == http.MethodHead && len(body) != 0 {
			t.Errorf("HEAD %s has a body", path)
		}
		return resp
	}
	got, head := f("GET", "/", 200), f("HEAD", "/", 200)
	if got.ContentLength != head.ContentLength || got.ContentLength != int64(len(pageText)) {
		t.Errorf("got lengths %d and %d, want %d", got.ContentLength, head.ContentLength, len(pageText))
	}
	if got := f("HEAD", "/live", 200).Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("HEAD /live: got type %q", got)
	}
	f("GET", "/favicon.ico", 404)
	f("GET", "/index.html", 404)
	f("GET", "/live/x", 404)
	f("POST", "/", 405)
	f("POST", "/live", 405)
}

// The policy lets the page's own style and script run, and nothing from elsewhere.
func TestPolicy(t *testing.T) {
	s := serve(t)
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	for _, tag := range []string{"style", "script"} {
		parts := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllSubmatch(text, -1)
		if len(parts) != 1 {
			t.Fatalf("got %d elements %s, want 1", len(parts), tag)
		}
		if want := tag + "-src 'sha256-" + hashOf(string(parts[0][1])) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q allows too much", policy)
	}
	for _, never := range []string{" style=", " onclick=", " onload=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://cdn", "https://", "@import", "/*style*/", "/*script*/"} {
		if strings.Contains(string(text), never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllSubmatch(text, -1) {
		if !strings.HasPrefix(string(link[1]), "data:") {
			t.Errorf("the page loads %q", link[1])
		}
	}
}

// Nothing that a client wrote can end an event, or the page's own JSON.
func TestHostileTexts(t *testing.T) {
	s := serve(t)
	rec := streamed(time.Millisecond, time.Millisecond, 3, 1)
	rec.Model = "</script><script>alert(1)</script>\n\ndata: {}\n\n\u2028\x00\xff"
	rec.Labels.Point = "\r\nevent: alive\r\n"
	rec.Prompt, rec.Reply, rec.Error, rec.Path, rec.RequestID = "CANARY", "CANARY", "CANARY", "/CANARY", "CANARY"
	s.Emit(rec)
	e := s.open(t)
	name, data, err := e.next()
	if name != "" || err != nil || strings.Contains(data, "CANARY") || strings.Contains(data, "<script") {
		t.Errorf("got event %q, error %v, data %s", name, err, data)
	}
	var got snapshot
	if err := json.Unmarshal([]byte(data), &struct {
		Recent *[]rowFigures `json:"recent"`
	}{&got.Recent}); err != nil {
		t.Fatal(err)
	}
	if want := "</script><script>alert(1)</script>\ufffd\ufffddata: {}\ufffd\ufffd\ufffd\ufffd\ufffd"; got.Recent[0].Model != want {
		t.Errorf("got model %q, want %q", got.Recent[0].Model, want)
	}
}

// Emit from many goroutines loses nothing, and a page may be open meanwhile.
func TestEmitFromManyGoroutines(t *testing.T) {
	s := serve(t)
	e := s.open(t)
	e.snapshot(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 500 {
				s.Emit(streamed(time.Millisecond, time.Millisecond, 2, 1, 1))
			}
		})
	}
	s.ticks <- time.Time{}
	all.Wait()
	s.ticks <- time.Time{}
	for got := 0.0; got != 16*500; {
		got = requests(e.snapshot(t))
	}
}
