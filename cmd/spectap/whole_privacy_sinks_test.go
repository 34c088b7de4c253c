package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spectap/collector"
)

// patience bounds waits for what must happen; no test asserts a time.
const patience = 60 * time.Second

// runMain makes the test binary spectap itself, so that a test sees all that a
// process writes, also what no logger writes.
const runMain = "SPECTAP_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main() // exits
	}
	os.Exit(m.Run())
}

// shared is a buffer of several goroutines.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// observed is a spectap process, everything that it writes, and what passes through it.
type observed struct {
	format  string   // of its log
	env     []string // more settings
	capture bool     // SPECTAP_CAPTURE is on
	dead    bool     // nobody listens at the engine's address
	list    []exchange

	admin                         *http.Client
	stdout, stderr, spans, pushed shared
	toEngine                      shared // control: what the engine got
	answers                       [][]byte
}

// run plays all exchanges at once and looks for their canaries afterwards.
func (o *observed) run(t *testing.T, records string) {
	engine := &answering{got: map[int]chan struct{}{}}
	if o.dead {
		o.list = slices.DeleteFunc(o.list, func(e exchange) bool {
			return e.leave != "" || e.shown != "" || e.answer == "" || !strings.Contains(e.request, canary)
		})
		for i := range o.list {
			o.list[i].kind = collector.ErrUpstreamRefused
		}
	}
	engine.list = o.list
	dir := filepath.Dir(records)
	socket := filepath.Join(dir, "data")
	process := o.start(t, dir, records, o.serve(t, engine))
	page := &shared{}
	pageEnded := o.watchPage(t, page)

	o.answers = make([][]byte, len(o.list))
	var wg sync.WaitGroup
	for i := range o.list {
		wg.Go(func() { o.answers[i] = engine.play(t, i, socket) })
	}
	wg.Wait()
	sinks := o.settle(t)
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := process.Wait(); err != nil && process.ProcessState.ExitCode() != 143 {
		t.Errorf("the proxy ended with %v", err)
	}
	<-pageEnded
	text, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	sinks["records"], sinks["page"] = string(text), sinks["page"]+page.String()
	sinks["stdout"], sinks["log"], sinks["spans"], sinks["pushed"] = o.stdout.String(), o.stderr.String(), o.spans.String(), o.pushed.String()
	o.proveSeen(t, sinks)
	o.proveEffective(t)
	o.lookForCanaries(t, sinks)
}

// serve runs the engine and returns its URL.
func (o *observed) serve(t *testing.T, engine *answering) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if o.dead {
		ln.Close()
		return url
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { engine.serve(teed{c, &o.toEngine}) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return url
}

// teed is a connection whose reads are written down.
type teed struct {
	net.Conn
	to io.Writer
}

func (c teed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	_, _ = c.to.Write(p[:n])
	return n, err
}

// start runs the proxy as a process, with all of its telemetry going to this one.
func (o *observed) start(t *testing.T, dir, records, engine string) *exec.Cmd {
	otlp := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		to := map[string]*shared{"/v1/traces": &o.spans, "/v1/metrics": &o.pushed}[r.URL.Path]
		if to == nil || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Authorization") != "c4n4ryOTLP" {
			t.Errorf("an export to %s: %v", r.URL, r.Header)
			return
		}
		_, _ = io.Copy(to, r.Body)
	}))
	t.Cleanup(otlp.Close)
	cmd := exec.Command(os.Args[0], "proxy", "--records", records)
	cmd.Stdout, cmd.Stderr = &o.stdout, &o.stderr
	cmd.Env = append([]string{runMain + "=1", "SPECTAP_UPSTREAM=" + engine,
		"SPECTAP_LISTEN=unix:" + filepath.Join(dir, "data"), "SPECTAP_ADMIN=unix:" + filepath.Join(dir, "admin"),
		"SPECTAP_LOG_LEVEL=debug", "SPECTAP_LOG_FORMAT=" + o.format,
		"SPECTAP_MAX_BODY_BYTES=65536", "SPECTAP_HEAD_TIMEOUT=3s", "SPECTAP_STALL_TIMEOUT=3s",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + otlp.URL, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=c4n4ryOTLP", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_METRIC_EXPORT_INTERVAL=500", "OTEL_BSP_SCHEDULE_DELAY=100",
		"SPECTAP_TRACE_CHUNKS=8",
	}, o.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	o.admin = &http.Client{Transport: unixTransport(filepath.Join(dir, "admin")), Timeout: patience}
	t.Cleanup(o.admin.CloseIdleConnections)
	for end := time.Now().Add(patience); o.try("/livez") != "ok\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the proxy did not start: %s", o.stderr.String())
		}
	}
	return cmd
}

// try asks the admin port; "" where nobody answers.
func (o *observed) try(path string, headers ...string) string {
	req, err := http.NewRequest(http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return ""
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := o.admin.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

// watchPage keeps the live page's stream open until the proxy ends it.
func (o *observed) watchPage(t *testing.T, to io.Writer) (ended chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: o.admin.Transport}
	resp, err := client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the live page's stream: %v, %v", resp, err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		_, _ = io.Copy(to, resp.Body)
	}()
	return ended
}

// flights counts the exchanges that were read as requests, and those that have a Record.
func (o *observed) flights() (all, recorded, refused int) {
	for _, e := range o.list {
		switch {
		case e.refused:
			refused++
		case e.leave != leaveInside:
			all++
		}
		if e.route != "" {
			recorded++
		}
	}
	return all, recorded, refused
}

// settle waits until the proxy has ended every request and the page shows them,
// and returns what the admin port says then.
func (o *observed) settle(t *testing.T) map[string]string {
	all, recorded, refused := o.flights()
	sinks := map[string]string{}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		sinks["status"] = o.try("/status")
		var st struct {
			Requests int `json:"requests_total"`
			InFlight int `json:"in_flight"`
			Refused  int `json:"refused_total"`
			Panics   int `json:"panics_total"`
		}
		if err := json.Unmarshal([]byte(sinks["status"]), &st); err != nil {
			t.Fatalf("/status: %v in %q", err, sinks["status"])
		}
		if st.Requests == all && st.InFlight == 0 && st.Refused >= refused {
			break
		}
		if time.Now().After(end) || st.Panics > 0 {
			t.Fatalf("got %+v, want %d requests and %d refused", st, all, refused)
		}
	}
	sinks["metrics"] = o.try("/metrics") + o.try("/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
	for _, path := range []string{"/readyz", "/nothing/here"} {
		sinks["admin"] += o.try(path)
	}
	sinks["page"] = o.try("/")
	o.waitForPage(t, recorded)
	return sinks
}

// waitForPage reads a new stream of the page until it has shown n requests.
func (o *observed) waitForPage(t *testing.T, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := o.admin.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the page did not show %d requests: %v", n, err)
		}
		var page struct{ Total struct{ Requests int } }
		data, isData := strings.CutPrefix(line, "data: ")
		if isData && json.Unmarshal([]byte(data), &page) == nil && page.Total.Requests == n {
			return
		}
	}
}

// proveSeen makes sure that each sink has got every exchange, so that nothing is
// found in it only because nothing was in it.
func (o *observed) proveSeen(t *testing.T, sinks map[string]string) {
	recs := recordsOf(t, sinks["records"])
	kinds := map[string]int{}
	for i, e := range o.list {
		rec := recs[fmt.Sprint(i)]
		if (rec != nil) != (e.route != "") {
			t.Errorf("%s: got a record %v, want one %v", e.name, rec != nil, e.route != "")
			continue
		}
		if rec != nil {
			if rec.Route != e.route || rec.ErrorKind != e.kind {
				t.Errorf("%s: got route %q, kind %q (%s); want %q, %q", e.name, rec.Route, rec.ErrorKind, rec.Error, e.route, e.kind)
			}
			if rec.ErrorKind != "" && !strings.Contains(sinks["log"], rec.ID) {
				t.Errorf("%s: the log does not tell the failure", e.name)
			}
			kinds[rec.ErrorKind]++
		}
		trace, _ := hex.DecodeString(traceOf(i))
		if has := strings.Contains(sinks["spans"], string(trace)); has != (!e.refused && e.leave != leaveInside) {
			t.Errorf("%s: got spans %v", e.name, has)
		}
	}
	for kind, n := range kinds {
		if got := countOf(sinks["metrics"], kind); got < n {
			t.Errorf("/metrics has %d requests with outcome %q, want %d", got, kind, n)
		}
	}
	all, _, refused := o.flights()
	if n := strings.Count(sinks["log"], "request refused"); n < refused {
		t.Errorf("the log tells of %d refused requests, want %d", n, refused)
	}
	if !strings.Contains(sinks["pushed"], "spectap.requests") {
		t.Error("no metrics were pushed")
	}
	if all == 0 || sinks["page"] == "" || sinks["admin"] == "" {
		t.Error("a sink is empty")
	}
}

// recordsOf are the records of a file by their X-Request-Id.
func recordsOf(t *testing.T, text string) map[string]*collector.Record {
	recs := map[string]*collector.Record{}
	for line := range strings.Lines(text) {
		var rec collector.Record
		if strings.Contains(line, collector.SchemaRun) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		recs[rec.RequestID] = &rec
	}
	return recs
}

// countOf sums the requests of an outcome in the first of two texts of /metrics.
func countOf(metrics, kind string) (n int) {
	if kind == "" {
		kind = "ok"
	}
	metrics, _, _ = strings.Cut(metrics, "# EOF")
	for _, found := range regexp.MustCompile(`(?m)^spectap_requests_total\{[^\n]*outcome="`+kind+`"[^\n]*\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		one := 0
		_, _ = fmt.Sscan(found[1], &one)
		n += one
	}
	return n
}

// proveEffective makes sure that each canary was where it could have leaked from.
func (o *observed) proveEffective(t *testing.T) {
	toEngine, ours := strings.ToLower(o.toEngine.String()), 0
	for i, e := range o.list {
		own := strings.Contains(string(o.answers[i]), `"type":"spectap_`)
		if own {
			ours++
		}
		reached := strings.Contains(toEngine, canaryOf(i))
		passed := !own && strings.Contains(string(o.answers[i]), canaryOf(i))
		stopped := e.refused || e.leave == leaveInside || own || e.stays
		if !reached && !passed && !stopped {
			t.Errorf("%s: neither the engine nor the client has got the canary, and nothing was refused: %q", e.name, o.answers[i])
		}
		if strings.Contains(e.answer, canary) && !passed && !own && e.leave == "" && !e.stays {
			t.Errorf("%s: the client has not got the canary: %q", e.name, o.answers[i])
		}
	}
	if ours < 10 {
		t.Errorf("got %d answers of the proxy itself, want 10 or more", ours)
	}
}

// lookForCanaries fails for each canary in a sink that may not show it, and for
// each that is missing where it is to be shown.
func (o *observed) lookForCanaries(t *testing.T, sinks map[string]string) {
	for sink, text := range sinks {
		text := strings.ToLower(text)
		if at := strings.Index(text, "c4n4ryotlp"); at >= 0 {
			t.Errorf("%s shows the header of the exports: %q", sink, around(text, at))
		}
		for i, e := range o.list {
			shown := slices.Contains(strings.Fields(e.shown), sink) || o.capture && e.captured && sink == "records"
			at := strings.Index(text, canaryOf(i))
			switch {
			case shown && at < 0:
				t.Errorf("%s: %s does not show it, and should", e.name, sink)
			case !shown && at >= 0 && !o.headerSpan(e, sink) && !slices.Contains(strings.Fields(e.shown), sink+"?"):
				t.Errorf("%s: LEAK: %s shows it: %q", e.name, sink, around(text, at))
			}
		}
	}
	for i, e := range o.list {
		if answer := string(o.answers[i]); strings.Contains(answer, `"type":"spectap_`) && strings.Contains(answer, canaryOf(i)) {
			t.Errorf("%s: LEAK: the proxy's own answer shows it: %q", e.name, answer)
		}
	}
}

// headerSpan says that a captured header is on a span, which it may be.
func (o *observed) headerSpan(e exchange, sink string) bool {
	return o.capture && e.captured && sink == "spans" && strings.Contains(e.request, "X-Anything")
}

func around(text string, at int) string { return text[max(0, at-120):min(len(text), at+60)] }
