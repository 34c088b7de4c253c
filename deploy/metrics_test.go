package deploy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// mayBeEmpty are the queries (panel title, query name) that the scene does not
// feed, and why.
var mayBeEmpty = map[string]string{
	"Input tokens by model B": "the simulated engine has no prefix cache",
}

// questions of two turns are asked at each point of the sweep.
const questions = 24

// scene is a sweep that a real Prometheus saw.
type scene struct {
	prom     *prometheus
	admin    string
	dir      string // of the sweep's files
	from, to time.Time
}

// playScene sweeps through a proxy that Prometheus scrapes, with some requests
// beside the sweep that fail or carry no statistics.
func playScene(t *testing.T) scene {
	t.Helper()
	engine := startEngine(t, "--step", "4ms", "--prefill", "20ms")
	// Spans and pushes fail, so that what is lost can be seen.
	environ := append(otlp(refused(t)), "OTEL_EXPORTER_OTLP_TIMEOUT=500", "OTEL_BSP_SCHEDULE_DELAY=500", "OTEL_METRIC_EXPORT_INTERVAL=1000")
	proxy := startProxy(t, environ, engine)
	s := scene{prom: startPrometheus(t, proxy.Admin), admin: proxy.Admin, from: time.Now()}
	others := make(chan error, 1)
	stop := make(chan struct{})
	go func() { others <- trouble(proxy.URL, stop) }()
	s.dir = runSweep(t, nil, "--url", proxy.URL, "--mtbench", writeQuestions(t, questions), "--temperature", "0", "1",
		"--concurrency", "2", "8", "--output_length", "128")
	close(stop)
	if err := <-others; err != nil {
		t.Fatal(err)
	}
	poll(t, "the scrape of the last request", func() bool { return s.prom.caughtUp(proxy.Admin) })
	s.to = time.Now()
	return s
}

// troublePoint labels the requests beside the sweep.
const troublePoint = "trouble"

// trouble sends, until it is stopped, a request that the engine refuses, one
// whose answer carries no statistics, and one whose stream breaks before its first token.
func trouble(url string, stop <-chan struct{}) error {
	for {
		for fault, body := range map[string]string{
			"":        `{"model":"no-such-model","messages":[{"role":"user","content":"x"}]}`,
			"nostats": `{"model":"fake-model","messages":[{"role":"user","content":"x"}],"max_tokens":8}`,
			"cut@0":   `{"model":"fake-model","messages":[{"role":"user","content":"x"}],"stream":true}`,
		} {
			if err := ask(url, body, fault); err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		case <-time.After(scrapeInterval / 4):
		}
	}
}

// ask sends one request and reads its answer to the end, however it ends.
func ask(url, body, fault string) error {
	request, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Baggage", "spectap.point="+troublePoint)
	request.Header.Set("X-Fake-Fault", fault)
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("cannot ask the proxy: %w", err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.Body.Close()
}

// caughtUp says whether the last scrape has as many requests as the admin port.
func (p *prometheus) caughtUp(admin string) bool {
	text, err := fetch(admin + "/metrics")
	if err != nil {
		return false
	}
	want := 0.0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "spectap_requests_total{") {
			var n float64
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			want += n
		}
	}
	sum, err := p.at(time.Now(), "sum(spectap_requests_total)")
	return err == nil && len(sum) == 1 && sum[0].Value.Value == want
}

// Every query of the dashboard shows something of a sweep, and the acceptance
// lengths are the sweep's own.
func TestDashboardShowsSweep(t *testing.T) {
	t.Parallel()
	s := playScene(t)
	d := readDashboard(t)
	t.Run("promtool", func(t *testing.T) { lintMetrics(t, s.admin) })
	t.Run("losses", func(t *testing.T) {
		for _, query := range []string{`spectap_spans_total{result="failed"}`, `spectap_metric_exports_total{result="failed"}`} {
			if got := s.prom.one(t, s.to, query); got < 1 {
				t.Errorf("%s: got %v, want some: there is no collector", query, got)
			}
		}
	})
	t.Run("variables", func(t *testing.T) { evaluateVariables(t, s, d) })
	t.Run("all", func(t *testing.T) {
		evaluatePanels(t, s, d, map[string][]string{"model": nil, "engine": nil, "point": nil})
	})
	t.Run("one of each", func(t *testing.T) {
		evaluatePanels(t, s, d, map[string][]string{"model": {"fake-model"}, "engine": {"vllm"}, "point": {"t0_c2", troublePoint}})
	})
	for _, point := range []string{"t0_c2", "t0_c8", "t1_c2", "t1_c8"} {
		t.Run(point, func(t *testing.T) { comparePoint(t, s, d, point) })
	}
}

// lintMetrics holds the admin port's text against promtool, which prints nothing
// where it finds nothing.
func lintMetrics(t *testing.T, admin string) {
	path := tool(t, "promtool")
	text, err := fetch(admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	lint := exec.Command(path, "check", "metrics")
	lint.Stdin = bytes.NewReader(text)
	if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func evaluateVariables(t *testing.T, s scene, d dashboard) {
	want := map[string]string{"model": "fake-model", "engine": "vllm", "point": "t1_c8"}
	g := grafana{chosen: map[string][]string{"model": nil, "engine": nil, "point": nil}}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Errorf("variable %q: got query %q, want label_values(metric, label)", v.Name, v.Definition)
			continue
		}
		values, err := s.prom.values(parts[2], g.expand(parts[1]))
		if err != nil || !strings.Contains(strings.Join(values, " ")+" ", want[v.Name]+" ") {
			t.Errorf("variable %q: got %q, %v; want %q among them", v.Name, values, err, want[v.Name])
		}
	}
}

func evaluatePanels(t *testing.T, s scene, d dashboard, chosen map[string][]string) {
	g := grafana{chosen: chosen, step: 2 * time.Second, span: s.to.Sub(s.from)}
	for _, p := range d.all() {
		for _, q := range p.Targets {
			name := p.Title + " " + q.RefID
			found, err := g.evaluate(s, q)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, g.expand(q.Expr))
				continue
			}
			why, ok := mayBeEmpty[name]
			if !ok && finite(found) == 0 {
				t.Errorf("%s: got %d series without one number\n%s", name, len(found), g.expand(q.Expr))
			}
			if ok && len(found) > 0 && len(chosen["model"]) == 0 {
				t.Errorf("%s: got %d series, and yet it is said that %s", name, len(found), why)
			}
		}
	}
}

// evaluate asks for a query as its panel does: at the end of the range, or all along it.
func (g grafana) evaluate(s scene, q target) ([]series, error) {
	if q.Instant {
		return s.prom.at(s.to, g.expand(q.Expr))
	}
	return s.prom.between(s.from, s.to, g.step, g.expand(q.Expr))
}

// finite counts the samples that are numbers.
func finite(list []series) int {
	n := 0
	for _, each := range list {
		if each.Value != nil && each.Value.finite() {
			n++
		}
		for _, v := range each.Samples {
			if v.finite() {
				n++
			}
		}
	}
	return n
}
