package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spectap/collector"
)

// patience bounds waits for what must happen; no test asserts a time.
const patience = 40 * time.Second

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
	capture string   // SPECTAP_CAPTURE
	dead    bool     // nobody listens at the engine's address
	alone   bool     // no collector of telemetry is set
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

// collect takes what is exported over OTLP and returns where to.
func (o *observed) collect(t *testing.T) (url string) {
	otlp := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		to := map[string]*shared{"/v1/traces": &o.spans, "/v1/metrics": &o.pushed}[r.URL.Path]
		if to == nil || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Authorization") != "c4n4ryOTLP" {
			t.Errorf("an export to %s: %v", r.URL, r.Header)
			return
		}
		_, _ = io.Copy(to, r.Body)
	}))
	t.Cleanup(otlp.Close)
	return otlp.URL
}

// start runs the proxy as a process, with all of its telemetry going to this one.
func (o *observed) start(t *testing.T, dir, records, engine string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "proxy", "--records", records)
	cmd.Stdout, cmd.Stderr = &o.stdout, &o.stderr
	cmd.Env = append([]string{runMain + "=1", "SPECTAP_UPSTREAM=" + engine,
		"SPECTAP_LISTEN=unix:" + filepath.Join(dir, "data"), "SPECTAP_ADMIN=unix:" + filepath.Join(dir, "admin"),
		"SPECTAP_LOG_LEVEL=debug", "SPECTAP_LOG_FORMAT=" + o.format,
		"SPECTAP_MAX_BODY_BYTES=65536", "SPECTAP_CAPTURE=" + o.capture, "SPECTAP_HEAD_TIMEOUT=3s", "SPECTAP_STALL_TIMEOUT=3s",
	}, append(o.telemetry(o.collect(t)), o.env...)...)
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

// telemetry are the standard variables of an export to a collector.
func (o *observed) telemetry(collector string) []string {
	if o.alone {
		return nil
	}
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=c4n4ryOTLP", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_METRIC_EXPORT_INTERVAL=500", "OTEL_BSP_SCHEDULE_DELAY=100",
		"SPECTAP_TRACE_CHUNKS=8",
	}
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
