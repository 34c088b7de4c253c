package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// What a client and an engine see of each other through the proxy is what they
// see directly, but for the rows of testdata/differences.txt: status line,
// fields with their spelling and order, body, framing, and the connection's end.
// A row that nothing needs fails, too.
func TestTransparent(t *testing.T) {
	rows := readAllowances(t)
	st := openTheatre(t)
	all := slices.Concat(routeScenes(t), requestScenes(), uploadScenes(), answerScenes(), streamScenes(), endScenes())
	played := 0
	modes := []string{"observe", "usage", "tokens", "traced"}
	for _, mode := range modes {
		cfg, setup := testConfig(t, upstreamOf(st.scripted)), func(*Server) {}
		if cfg.Measure = mode; mode == "traced" {
			cfg.Measure, setup = "observe", func(s *Server) { s.Observer = traced{} }
		}
		pooled := startProxy(t, cfg, setup).addr
		fresh := startProxy(t, cfg, func(s *Server) { s.pool.limit = 0 }).addr
		for _, sc := range all {
			if mode == "traced" && !strings.HasPrefix(sc.name, "field ") {
				played++
				continue
			}
			if sc.only != "" && sc.only != mode {
				played++
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", mode, sc.name), func(t *testing.T) {
				played++
				const soon = 100 * time.Millisecond // where it is known to be late
				where, limits := sc.name+" in "+mode, waits{patience, soon}
				if allowedBy(rows, where, partIsLate) != nil {
					limits.part = soon
				}
				direct := st.play(t, st.ln.Addr().String(), &sc, waits{patience, patience})
				addr := pooled
				if sc.fresh {
					addr = fresh
				}
				through := st.play(t, addr, &sc, limits)
				for _, d := range compareViews(direct, through) {
					if r := allowedBy(rows, where, d); r != nil {
						r.used = true
					} else {
						t.Errorf("differs, and no row of testdata/differences.txt allows it:\n%s", d)
					}
				}
				if t.Failed() {
					t.Logf("directly:\n%s\nthrough the proxy:\n%s", direct, through)
				}
			})
		}
	}
	if played < len(modes)*len(all) {
		return // some were left out by -run
	}
	for _, r := range rows {
		if !r.used {
			t.Errorf("the row %q | %q of testdata/differences.txt allows what never occurs", r.side, r.pattern)
		}
	}
}

// traced is an observer that does to a request what tracing does.
type traced struct{}

func (traced) Begin(_ *collector.Record, h collector.Headers) func(*collector.Record) {
	h.Set("traceparent", "00-11111111111111111111111111111111-2222222222222222-01")
	h.Set("tracestate", "")
	return func(*collector.Record) {}
}

func (v *view) String() string {
	var b strings.Builder
	for _, side := range [][]*message{v.requests, v.answers} {
		for _, m := range side {
			fmt.Fprintf(&b, "\t%q %.300q %s %d bytes, chunks %d, trailers %q, interim %q, cut %q\n",
				m.start, m.fields, m.framing, len(m.body), len(m.chunks), m.trailers, m.interim, m.cut)
		}
	}
	return b.String() + "\t" + v.end
}
