package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// standInVariable makes this test binary an AIPerf: its value says how it behaves.
const standInVariable = "SPECTAP_TEST_AIPERF"

// standIn writes a program that stands for AIPerf 0.13: it takes the same flags,
// sends the same requests and writes the same files. behaviour is one of
//
//	""          as AIPerf does
//	version V   it says that it is V
//	noexport    it sends its requests, writes nothing and exits with 0
//	threshold   it gives up at its first failed request, as --failed-request-threshold does
//	nostart     it says why it cannot start, and exits with 1
//	allfail     each of its requests fails
//	drop        it never asks the last conversation
//	twice       it asks the first turn of the first conversation again
//	edits       it changes the text of later turns
//	stranger    it also asks what is in no question file
//	lies        it counts a failed request that nobody else saw
func standIn(t *testing.T, behaviour string) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "aiperf")
	// The race detector waits a second at exit otherwise.
	script := fmt.Sprintf("#!/bin/sh\nGORACE=atexit_sleep_ms=0 %s='%s' exec '%s' -test.run='^TestStandInAIPerf$' -- \"$@\"\n", standInVariable, "as "+behaviour, binary)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStandInAIPerf is the program that standIn makes, not a test.
func TestStandInAIPerf(t *testing.T) {
	behaviour, ok := strings.CutPrefix(os.Getenv(standInVariable), "as ")
	if !ok {
		t.Skip("runs as another program only")
	}
	args := os.Args[slices.Index(os.Args, "--")+1:]
	if args[0] == "--version" {
		version, ok := strings.CutPrefix(behaviour, "version ")
		if !ok {
			version = "0.13.0"
		}
		fmt.Println(version)
		os.Exit(0)
	}
	s, err := newStandIn(behaviour, args)
	if err == nil {
		err = s.run()
	}
	if err != nil {
		fmt.Println("03:13:12.944 ERROR    " + err.Error() + " (base_component_service.py:522)")
		os.Exit(1)
	}
	os.Exit(0)
}

// standInRun is one run of the stand-in.
type standInRun struct {
	behaviour string
	flags     map[string]string
	extra     string // members of --extra-inputs, without braces
	headers   map[string]string
	sessions  []standInSession

	mu        sync.Mutex
	rows      []map[string]any
	failed    map[string]int
	cancelled bool
	stop      context.CancelFunc
}

type standInSession struct {
	ID    string `json:"session_id"`
	Turns []struct{ Role, Text string }
}

// switches are the flags of aiperf profile without a value; a flag that is
// neither here nor below is refused, as AIPerf refuses it.
var (
	standInSwitches = []string{"--streaming", "--no-gpu-telemetry", "--no-server-metrics"}
	standInFlags    = []string{"--model", "--tokenizer", "--url", "--endpoint-type", "--concurrency", "--input-file", "--custom-dataset-type",
		"--num-conversations", "--dataset-sampling-strategy", "--random-seed", "--extra-inputs", "--header", "--export-level", "--ui", "--output-artifact-dir"}
)

func newStandIn(behaviour string, args []string) (*standInRun, error) {
	s := &standInRun{behaviour: behaviour, flags: map[string]string{}, failed: map[string]int{}}
	if args[0] != "profile" {
		return nil, fmt.Errorf("unknown command %q", args[0])
	}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		switch name := args[0]; {
		case s.flags[name] != "":
			return nil, fmt.Errorf("%s is given twice", name)
		case slices.Contains(standInSwitches, name):
			s.flags[name] = "true"
		case slices.Contains(standInFlags, name) && len(args) > 1:
			s.flags[name] = args[1]
			args = args[1:]
		default:
			return nil, fmt.Errorf("unknown flag %q", name)
		}
	}
	return s, s.read()
}

// read checks what AIPerf checks before its first request.
func (s *standInRun) read() error {
	for _, name := range append(standInSwitches, standInFlags...) {
		if s.flags[name] == "" {
			return fmt.Errorf("the driver leaves out %s", name)
		}
	}
	if s.behaviour == "nostart" {
		return fmt.Errorf("Failed to load tokenizer '%s'", s.flags["--tokenizer"])
	}
	if os.Getenv("HF_HUB_OFFLINE")+os.Getenv("TRANSFORMERS_OFFLINE")+os.Getenv("SPECTAP_API_KEY") != "" {
		return fmt.Errorf("a variable that must not come here is set")
	}
	s.extra = strings.TrimSuffix(strings.TrimPrefix(s.flags["--extra-inputs"], "{"), "}")
	if err := json.Unmarshal([]byte(s.flags["--header"]), &s.headers); err != nil {
		return fmt.Errorf("--header is no JSON object, and a list would be cut at commas: %w", err)
	}
	text, err := os.ReadFile(s.flags["--input-file"])
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var session standInSession
		if err := json.Unmarshal(line, &session); err != nil {
			return err
		}
		s.sessions = append(s.sessions, session)
	}
	if n, _ := strconv.Atoi(s.flags["--num-conversations"]); n != len(s.sessions) {
		return fmt.Errorf("got %d sessions and --num-conversations %d", len(s.sessions), n)
	}
	return nil
}

// run asks all sessions, and writes the exports at the end or at a SIGINT.
func (s *standInRun) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	ctx, s.stop = context.WithCancel(ctx)
	defer stop()
	slots, _ := strconv.Atoi(s.flags["--concurrency"])
	permits := make(chan struct{}, slots)
	sessions := s.sessions
	if s.behaviour == "drop" {
		sessions = sessions[:len(sessions)-1]
	}
	var all sync.WaitGroup
	for i := range sessions {
		permits <- struct{}{}
		all.Go(func() {
			defer func() { <-permits }()
			s.converse(ctx, sessions[i])
		})
	}
	all.Wait()
	s.cancelled = ctx.Err() != nil
	if s.behaviour == "noexport" {
		return nil
	}
	return s.export()
}

type standInMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// converse asks the turns of a session; a failed turn does not end it.
func (s *standInRun) converse(ctx context.Context, session standInSession) {
	correlation := standInUUID()
	var history []standInMessage
	turn := 0
	for _, t := range session.Turns {
		if t.Role == "system" {
			history = append(history, standInMessage{"system", t.Text})
			continue
		}
		if s.behaviour == "edits" && turn > 0 {
			t.Text += " Please."
		}
		history = append(history, standInMessage{"user", t.Text})
		if ctx.Err() != nil {
			return
		}
		reply := s.ask(ctx, session, correlation, turn, history)
		if s.behaviour == "stranger" && turn == 0 {
			s.ask(ctx, session, standInUUID(), 0, []standInMessage{{"user", "Are you there?"}})
			s.rows = s.rows[:len(s.rows)-1] // its own files do not know of it
		}
		if s.behaviour == "twice" && turn == 0 && session.ID == s.sessions[0].ID {
			s.ask(ctx, session, correlation, turn, history)
		}
		if reply != "" {
			history = append(history, standInMessage{"assistant", reply})
		}
		turn++
	}
}

func standInUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ask sends one request as AIPerf does and keeps its row. It returns the reply,
// of a broken answer the part that came.
func (s *standInRun) ask(ctx context.Context, session standInSession, correlation string, turn int, history []standInMessage) string {
	var messages bytes.Buffer
	e := json.NewEncoder(&messages)
	e.SetEscapeHTML(false)
	_ = e.Encode(history)
	body := fmt.Sprintf(`{"messages":%s,"model":%q,"stream":true,%s}`, bytes.TrimSpace(messages.Bytes()), s.flags["--model"], s.extra)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.flags["--url"]+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	id := standInUUID()
	for name, value := range s.headers {
		req.Header.Set(name, value)
	}
	if s.behaviour == "allfail" {
		req.Header.Set("X-Fake-Fault", "status500")
	}
	req.Header.Set("User-Agent", "aiperf/0.13.0")
	req.Header.Set("X-Request-ID", id)
	req.Header.Set("X-Correlation-ID", correlation)
	req.Header.Set("X-Session-Affinity", correlation)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	a := standInAnswer{start: start}
	a.read(req)
	if ctx.Err() != nil {
		return "" // a cancelled request has no row
	}
	s.keep(a, map[string]any{
		"session_num": 0, "x_request_id": id, "x_correlation_id": correlation, "conversation_id": session.ID, "turn_index": turn,
		"request_start_ns": start.UnixNano(), "request_end_ns": time.Now().UnixNano(), "benchmark_phase": "profiling", "was_cancelled": false,
	})
	return a.text
}
