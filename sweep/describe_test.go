package sweep

import (
	"strings"
	"testing"
)

// A dry run says what requests are judged by, what a baseline measures, and which
// points would be kept.
func TestDescribe(t *testing.T) {
	c := newCampaign(t)
	f := func(cfg Config, want ...string) {
		t.Helper()
		p, err := NewPlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := p.Describe(&b); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("the plan has no %q:\n%s", w, b.String())
			}
		}
	}
	cfg := c.cfg
	cfg.SLO, cfg.SLOShare, cfg.Baseline = []string{"ttft=200ms", "tpot=20ms"}, 0.9, true
	f(cfg, "SLO          ttft=200ms,tpot=20ms for 90.0 % of the requests\n", "measure      tokens, times alone (a baseline), 1 GPUs\n", "6 requests a point, 12 in all\n")
	c.must(func(cfg *Config) { cfg.Concurrency = []string{"1"} }, "t0_c1")
	f(c.cfg, "acceptance client", "t0_c1 (complete: kept)\n", "t0_c2\n", "6 requests a point, 6 in all\n")
}
