package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ports are the addresses of a proxy, as its log tells them.
type ports struct{ Message, Listen, Admin string }

// announced is a log that waits for the line with the ports and drops the others.
type announced chan ports

// Write implements io.Writer; zerolog writes a line at a time.
func (a announced) Write(line []byte) (int, error) {
	var said ports
	if json.Unmarshal(line, &said) == nil && said.Message == "proxy is listening" {
		a <- said
	}
	return len(line), nil
}

// serveProxy runs `spectap proxy` in this process until the test ends and
// returns the URLs of its two ports.
func serveProxy(t testing.TB, upstream string, args ...string) (data, admin string) {
	t.Helper()
	args = append([]string{"proxy", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log_format", "json"}, args...)
	listening := make(announced, 1)
	p := program{stdout: io.Discard, stderr: listening, env: map[string]string{}, argv: append([]string{"spectap"}, args...)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- p.run(ctx, args) }()
	select {
	case code := <-ended:
		cancel()
		t.Fatalf("spectap proxy: got exit code %d before it listened", code)
	case at := <-listening:
		data, admin = "http://"+at.Listen, "http://"+at.Admin
	}
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("spectap proxy: got exit code %d, want 0", code)
		}
	})
	return data, admin
}

// get returns an answer's status and body.
func get(t testing.TB, method, url string) (status int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// exposition is a text of Prometheus that was read.
type exposition map[string]*dto.MetricFamily

func readMetrics(t testing.TB, text string) exposition {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// sum adds the values of all series of a name that have the labels ("name=value").
func (e exposition) sum(name string, labels ...string) (sum int) {
	for _, m := range e[name].GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		all := true
		for _, label := range labels {
			all = all && have[label]
		}
		if all {
			sum += int(m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()))
		}
	}
	return sum
}

// pooled are the chunks of a point's acceptance_rate.json, and their tokens.
func pooled(t *testing.T, dir, point string) (chunks, tokens int) {
	t.Helper()
	var runs []struct {
		Histogram map[string]int `json:"Acceptance_Length_Histogram"`
	}
	readJSON(t, filepath.Join(dir, point, "acceptance_rate.json"), &runs)
	for length, n := range runs[0].Histogram {
		tokensEach, err := strconv.Atoi(length)
		if err != nil {
			t.Fatal(err)
		}
		chunks, tokens = chunks+n, tokens+n*tokensEach
	}
	return chunks, tokens
}

// A sweep through a proxy: once its last answer is there, the counters of
// /metrics hold the pooled steps of acceptance_rate.json, in both views, and the
// engine's own /metrics is where it was.
func TestMetricsEqualAcceptanceRate(t *testing.T) {
	const questions, turns = 23, 2 * 23
	engineConfig := fastEngine()
	engineConfig.Draftless, engineConfig.EOS = 0.4, 0.02
	engine, _ := serveEngine(t, engineConfig)
	data, admin := serveProxy(t, engine, "--measure", "tokens")
	asked := writeQuestions(t, questions)
	server, client := t.TempDir(), t.TempDir()
	args := []string{"sweep", "--url", data, "--mtbench", asked, "--output_length", "64"}
	mustSpectap(t, 0, append(args, "--temperature", "0", "1", "--concurrency", "1", "8", "--acceptance", "server", "--save_dir", server)...)
	mustSpectap(t, 0, append(args, "--temperature", "0.5", "--concurrency", "4", "--save_dir", client)...)

	_, _, text := get(t, http.MethodGet, admin+"/metrics")
	got := readMetrics(t, text)
	equal := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	for _, point := range []string{"t0_c1", "t0_c8", "t1_c1", "t1_c8"} {
		label := "point=" + point
		chunks, tokens := pooled(t, server, point)
		chunks, tokens = chunks-turns, tokens-turns // a chunk of 1 for each prefill
		steps, accepted := got.sum("spectap_verify_steps_total", label), got.sum("spectap_accepted_tokens_total", label)
		equal(point+" verify steps", steps, chunks)
		equal(point+" tokens of verify steps", steps+accepted, tokens)
		equal(point+" accepted at all positions", got.sum("spectap_accepted_tokens_per_position_total", label), accepted)
		equal(point+" requests", got.sum("spectap_requests_total", label, "path=/v1/chat/completions", "status=2xx", "outcome=ok"), turns)
		equal(point+" first tokens", got.sum("gen_ai_server_time_to_first_token_seconds", label), turns)
		if accepted == 0 || steps == 0 {
			t.Errorf("%s: got %d accepted tokens in %d verify steps, want some", point, accepted, steps)
		}
	}
	chunks, tokens := pooled(t, client, "t0.5_c4")
	equal("client steps", got.sum("spectap_client_steps_total", "point=t0.5_c4"), chunks)
	equal("tokens of client steps", got.sum("spectap_client_step_tokens_total", "point=t0.5_c4"), tokens)
	equal("exact turns", got.sum("spectap_client_view_requests_total", "point=t0.5_c4", "source=exact"), turns)
	if steps := got.sum("spectap_verify_steps_total", "point=t0.5_c4"); steps >= chunks-turns {
		t.Errorf("got %d verify steps in %d client steps, want steps without drafts between them", steps, chunks)
	}
	equal("in flight", got.sum("spectap_requests_in_flight"), 0)

	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: got %v and %s", err, out)
		}
	}
	for _, method := range []string{http.MethodHead, http.MethodGet} { // AIPerf starts with HEAD
		status, header, body := get(t, method, data+"/metrics")
		wantStatus, wantHeader, wantBody := get(t, method, engine+"/metrics")
		header.Del("Date")
		wantHeader.Del("Date")
		if status != wantStatus || body != wantBody || fmt.Sprint(header) != fmt.Sprint(wantHeader) {
			t.Errorf("%s /metrics of the data port: got %d %v %.200q, the engine says %d %v %.200q", method, status, header, body, wantStatus, wantHeader, wantBody)
		}
		if method == http.MethodGet && !strings.Contains(body, "vllm:spec_decode_num_drafts_total") {
			t.Errorf("got no metrics of the engine: %.200q", body)
		}
	}
}

// A server without statistics: the client's view is counted from the events alone.
func TestMetricsWithoutBlocks(t *testing.T) {
	engineConfig := fastEngine()
	engineConfig.Draftless, engineConfig.EOS, engineConfig.NoSpecStats = 0.4, 0.02, true
	engine, _ := serveEngine(t, engineConfig)
	data, admin := serveProxy(t, engine)
	dir := t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", data, "--mtbench", writeQuestions(t, 11), "--concurrency", "8", "--output_length", "48", "--no_spec_stats", "--save_dir", dir)
	_, _, text := get(t, http.MethodGet, admin+"/metrics")
	got := readMetrics(t, text)
	chunks, tokens := pooled(t, dir, "t0_c8")
	if steps, in := got.sum("spectap_client_steps_total", "point=t0_c8"), got.sum("spectap_client_step_tokens_total", "point=t0_c8"); steps != chunks || in != tokens {
		t.Errorf("got %d client steps of %d tokens, want %d of %d", steps, in, chunks, tokens)
	}
	if n := got.sum("spectap_client_view_requests_total", "point=t0_c8", "source=events"); n != 22 {
		t.Errorf("got %d turns from events, want 22", n)
	}
	if n := got.sum("spectap_unmeasured_requests_total", "point=t0_c8", "reason=not_reported"); n != 22 {
		t.Errorf("got %d turns without a block, want 22", n)
	}
	if n := got.sum("spectap_verify_steps_total"); n != 0 {
		t.Errorf("got %d verify steps of a server that reports none", n)
	}
}
