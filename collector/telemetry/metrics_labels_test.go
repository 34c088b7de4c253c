package telemetry

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"spectap/collector"
)

// Only an answer of 2xx admits a model or point, and only while there is room.
func TestLabelsFold(t *testing.T) {
	m := testMetrics(t, func(c *Config) { c.Models = 2 })
	send := func(model, point string, status int) {
		observe(m, streamed(func(r *collector.Record) {
			r.Model, r.Labels.Point, r.Status = model, point, status
			if status != 200 {
				r.ErrorKind = collector.ErrHTTPStatus
			}
		}))
	}
	send("a", "t0_c1", 404)
	send("a", "t0_c1", 200)
	send("a", "t0_c1", 500)
	send("b", "", 200)
	send("c", "t1_c1", 200)
	send("c", "t1_c1", 404)
	send("b", "t1_c1", 200)
	got := read(t, scrape(t, m, ""))
	f := func(want float64, labels ...string) {
		t.Helper()
		if n := got.sum("spectap_requests_total", labels...); n != want {
			t.Errorf("%q: got %v requests, want %v", labels, n, want)
		}
	}
	f(1, "model=other", "point=other", "status=4xx")
	f(1, "model=a", "point=t0_c1", "status=2xx")
	f(1, "model=a", "point=t0_c1", "status=5xx")
	f(2, "model=b")
	f(1, "model=other", "point=t1_c1", "status=2xx")
	f(1, "model=other", "point=t1_c1", "status=4xx")
	f(1, "model=b", "point=t1_c1")
	f(7)
	if n := got.sum("spectap_folded_requests_total", "label=model"); n != 1 {
		t.Errorf("got %v folded models, want 1: the client's 404 is no loss", n)
	}
}

// Whatever clients send and engines answer, the number of series is bounded, and
// nothing that was counted is lost.
func TestLabelCaps(t *testing.T) {
	const requests = 10000
	m := testMetrics(t)
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string { // any bytes
		b := make([]byte, random.IntN(n))
		for i := range b {
			b[i] = byte(random.UintN(256))
		}
		return string(b)
	}
	for i := range requests {
		observe(m, streamed(func(r *collector.Record) {
			r.Model = fmt.Sprintf("model-%d-%s", i, text(300))
			r.Labels.Point = fmt.Sprintf("t0_c%d", i)
			r.Path, r.Engine, r.SpecMissing = "/"+text(20), text(5), text(5)
			r.Route = []string{collector.RouteChat, collector.RouteOther}[i%2]
			r.Status = 200 + i%2*random.IntN(400)
			if i%3 == 0 {
				r.ErrorKind = text(10)
			}
			if i%5 == 0 {
				r.Spec = nil
			} else if i%5 == 1 { // a draft longer than there are labels
				r.Spec = &collector.Spec{Accepted: make([]int, 2000)}
				r.Spec.Accepted[1999] = 1
				r.Usage.CompletionTokens = 3000
			}
		}))
	}
	got := read(t, scrape(t, m, ""))
	if n := got.sum("spectap_requests_total"); n != requests {
		t.Errorf("got %v requests, want %d", n, requests)
	}
	if n := got.sum("spectap_verify_steps_total"); n != requests/5*3*2+requests/5 {
		t.Errorf("got %v verify steps, want %d", n, requests/5*3*2+requests/5)
	}
	values := map[string]map[string]bool{}
	for name, family := range got {
		if strings.HasPrefix(name, "go_") {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, l := range one.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
				if !utf8.ValidString(l.GetValue()) || len(l.GetValue()) > 3*maxLabel {
					t.Errorf("%s: got label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
	for label, most := range map[string]int{"model": 33, "gen_ai_request_model": 33, "point": maxPoints + 1, "path": len(routes) + 5, "status": 6, "outcome": 14, "engine": 6,
		"reason": 10, "source": 7, "position": maxPosition + 1, "error_type": 70} {
		if n := len(values[label]); n == 0 || n > most {
			t.Errorf("got %d values of label %s, want 1 to %d", n, label, most)
		}
	}
	if n := len(values["model"]); n != 33 {
		t.Errorf("got %d models, want 32 and other", n)
	}
	folded := got.sum("spectap_folded_requests_total", "label=model")
	if folded == 0 {
		t.Error("got no folded requests")
	}
}

// Where combinations are full, what comes later goes to other and is not lost.
func TestCombinationsFold(t *testing.T) {
	m := testMetrics(t)
	for model := range 32 {
		for point := range maxPoints {
			observe(m, streamed(func(r *collector.Record) {
				r.Model, r.Labels.Point = fmt.Sprint(model), fmt.Sprint(point)
			}))
		}
	}
	got := read(t, scrape(t, m, ""))
	for name, each := range map[string]float64{"spectap_verify_steps_total": 2, "spectap_requests_total": 1, "gen_ai_server_time_to_first_token_seconds": 1} {
		if n := len(got.series(name)); n > maxGroups+1 {
			t.Errorf("got %d series of %s, want at most %d", n, name, maxGroups+1)
		}
		if n := got.sum(name); n != 32*maxPoints*each {
			t.Errorf("got %v of %s, want %v", n, name, 32*maxPoints*each)
		}
	}
	if n := got.sum("spectap_verify_steps_total", "model=other", "point=other"); n != 2*(32*maxPoints-maxGroups) {
		t.Errorf("got %v folded verify steps, want %d", n, 2*(32*maxPoints-maxGroups))
	}
	if n := got.sum("spectap_folded_requests_total", "label=combination"); n != 32*maxPoints-maxGroups {
		t.Errorf("got %v folded requests, want %d", n, 32*maxPoints-maxGroups)
	}
}

// Requests that end at the same time, new labels among them, and scrapes in
// between: every one is counted once.
func TestConcurrentObserve(t *testing.T) {
	const workers, each = 16, 300
	m := testMetrics(t, func(c *Config) { c.State = func() State { return State{InFlight: 1} } })
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for i := range each {
				observe(m, streamed(func(r *collector.Record) {
					r.Model, r.Labels.Point = fmt.Sprint(i%5), fmt.Sprint((w+i)%7)
				}))
				if i%100 == w {
					scrape(t, m, "")
				}
			}
		})
	}
	running.Wait()
	got := read(t, scrape(t, m, ""))
	for name, want := range map[string]float64{"spectap_requests_total": 1, "spectap_verify_steps_total": 2, "spectap_client_step_tokens_total": 6,
		"gen_ai_server_time_to_first_token_seconds": 1, "spectap_residence_max_seconds": 1} {
		if n := got.sum(name); n != want*workers*each {
			t.Errorf("got %v of %s, want %v", n, name, want*workers*each)
		}
	}
}

// A label is UTF-8 of bounded length whatever the text.
func TestClean(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("Qwen/Qwen3-8B", "Qwen/Qwen3-8B")
	f("a\xffb", "a\uFFFDb")
	f(strings.Repeat("x", 500), strings.Repeat("x", maxLabel))
	f(strings.Repeat("x", maxLabel-1)+"é", strings.Repeat("x", maxLabel-1)) // cut between its two bytes
	f(strings.Repeat("\xff", 500), "\uFFFD")
}
