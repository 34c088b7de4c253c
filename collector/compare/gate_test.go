package compare

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector/estimate"
)

func TestParseCondition(t *testing.T) {
	f := func(text string, want Condition) {
		t.Helper()
		want.Text = strings.TrimSpace(text)
		got, err := ParseCondition(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	f("AL < -0.05", Condition{Quantity: "AL", Scope: ScopeOverall, Below: true, Bound: -0.05})
	f("al<-2%", Condition{Quantity: "AL", Scope: ScopeOverall, Below: true, Bound: -0.02, Relative: true})
	f(" AL[math_reasoning] < -0.1 ", Condition{Quantity: "AL", Scope: ScopeCategory, Key: "math_reasoning", Below: true, Bound: -0.1})
	f("AL.turn[2] <= -.1", Condition{Quantity: "AL", Scope: ScopeTurn, Key: "2", Below: true, Bound: -0.1})
	f("acceptance[1] < -0.02", Condition{Quantity: "acceptance", Scope: ScopePosition, Key: "1", Below: true, Bound: -0.02})
	f("conditional[03] > 1e-1", Condition{Quantity: "conditional", Scope: ScopePosition, Key: "3", Bound: 0.1})
	f("ttft > 20ms", Condition{Quantity: "ttft", Scope: ScopeOverall, Bound: 0.02})
	f("TPOT > 500 us", Condition{Quantity: "tpot", Scope: ScopeOverall, Bound: 0.0005})
	f("ttft >= 1.5s", Condition{Quantity: "ttft", Scope: ScopeOverall, Bound: 1.5})
	f("tpot > +10 %", Condition{Quantity: "tpot", Scope: ScopeOverall, Bound: 0.1, Relative: true})
	f("tps < -5%", Condition{Quantity: "tps", Scope: ScopeOverall, Below: true, Bound: -0.05, Relative: true})
	f("tps_user < -10", Condition{Quantity: "tps_user", Scope: ScopeOverall, Below: true, Bound: -10})
}

func TestParseConditionRefuses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := ParseCondition(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--fail-if") {
			t.Errorf("%q: got %v, want an error that says %q", text, err, want)
		}
	}
	f("", "want QUANTITY < BOUND")
	f("AL", "want QUANTITY < BOUND")
	f("AL = 1", "want QUANTITY < BOUND")
	f("AL < ", "want QUANTITY < BOUND")
	f("tps < -200%", "the gate never fails")
	f("tps < -100%", "the gate never fails")
	f("tps > -150%", "the gate always fails")
	f("acceptance[1] < -1", "between -1 and 1")
	f("conditional[2] > 2", "between -1 and 1")
	f("AL < -0.05 or so", "want QUANTITY < BOUND")
	f("speed < 1", `no quantity "speed"`)
	f("AL < 5ms", `"ms" is no unit of AL`)
	f("ttft > 20", "has a unit")
	f("ttft > 20m", "has a unit")
	f("tpot[2] > 20ms", "of all requests")
	f("acceptance < -0.02", "no whole number from 1")
	f("acceptance[0] < -0.02", "no whole number from 1")
	f("acceptance[-1] < -0.02", "no whole number from 1")
	f("ttft.turn[1] > 20ms", "only AL has turns")
	f("AL.turn < 1", "no whole number from 1")
	f("AL[] < 1", "category in [] is empty")
	f("AL < NaN", "want QUANTITY < BOUND")
	f("AL < 0x10", "want QUANTITY < BOUND")
	f("AL < 1e999", "is no number")
}

func FuzzParseCondition(f *testing.F) {
	for _, seed := range []string{"AL < -0.05", "ttft > 10%", "acceptance[1] < -0.02", "AL.turn[2]>1", "tpot > 5 us", "AL[a b] < -1e-3%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "cannot read --fail-if ") {
				t.Errorf("%q: the error does not name the flag: %v", text, err)
			}
			return
		}
		if units[c.Quantity] == "" || math.IsNaN(c.Bound) || math.IsInf(c.Bound, 0) || (c.Scope == ScopeOverall) != (c.Key == "") {
			t.Errorf("%q: got %+v", text, c)
		}
		again, err := ParseCondition(c.Text)
		if err != nil || again != c {
			t.Errorf("%q: read again it is %+v, %v", text, again, err)
		}
	})
}

// A condition has three answers, and both directions are mirror images.
func TestJudge(t *testing.T) {
	f := func(condition string, value, low, high float64, want string) {
		t.Helper()
		c, err := ParseCondition(condition)
		if err != nil {
			t.Fatal(err)
		}
		e := Estimate{Value: &value, Interval: estimate.Interval{Low: low, High: high, Known: true}}
		p := &PointComparison{Figures: []Figure{{Quantity: c.Quantity, Scope: c.Scope, Key: c.Key, Difference: e, Ratio: e}}}
		if got := c.judge("B", p); got.Answer != want {
			t.Errorf("%s, interval %v to %v: got %+v, want %s", condition, low, high, got, want)
		}
	}
	f("AL < -0.05", 0, -0.04, 0.04, Pass)
	f("AL < -0.05", 0, -0.05, 0.05, Pass)         // the bound itself is allowed
	f("AL < -0.05", 0, -0.06, 0.05, Inconclusive) // the bound is inside
	f("AL < -0.05", -0.1, -0.15, -0.05, Inconclusive)
	f("AL < -0.05", -0.1, -0.15, -0.06, Fail)
	f("ttft > 10%", 1, 0.95, 1.05, Pass)
	f("ttft > 10%", 1.1, 1.05, 1.2, Inconclusive)
	f("ttft > 10%", 1.2, 1.11, 1.3, Fail)
	f("ttft > 10ms", 0.02, 0.011, 0.03, Fail)
	f("tps < -5%", 0.9, 0.85, 0.94, Fail)
	f("tps < -5%", 0.96, 0.955, 0.97, Pass)
}

func TestGate(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, tps: 900, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "b"))
	f := func(want string, a, b string, texts ...string) {
		t.Helper()
		var opts Options
		for _, text := range texts {
			c, err := ParseCondition(text)
			if err != nil {
				t.Fatal(err)
			}
			opts.FailIf = append(opts.FailIf, c)
		}
		if r := compared(t, opts, a, b); r.Gate.Answer != want {
			text, _ := json.Marshal(r.Gate)
			t.Errorf("%q: got %s, want %s", texts, text, want)
		}
	}
	f(Pass, a, b, "AL < -0.05")
	f(Fail, b, a, "AL < -0.05")
	f(Inconclusive, a, b, "tps < -5%") // one run each
	f(Inconclusive, a, b, "AL < -0.05", "tps < -5%")
	f(Fail, b, a, "AL < -0.05", "tps < -5%") // a failure outweighs what cannot be told
}

// A point that B lacks was not measured: that is no pass.
func TestGateMissingPoint(t *testing.T) {
	dir := t.TempDir()
	benchRun{als: alsA, config: configA}.write(t, filepath.Join(dir, "a", "x"))
	benchRun{als: alsA, config: strings.Replace(configA, `"concurrency": 8`, `"concurrency": 32`, 1)}.write(t, filepath.Join(dir, "a", "y"))
	b := benchRun{als: alsB, config: configA}.write(t, filepath.Join(dir, "b"))
	c, _ := ParseCondition("AL < -0.05")
	r := compared(t, Options{FailIf: []Condition{c}}, filepath.Join(dir, "a"), b)
	if r.Gate.Answer != Inconclusive || len(r.Gate.Judgements) != 2 || r.Gate.Judgements[1].Point != "t0_c32" {
		t.Errorf("got %+v, want inconclusive for t0_c32", r.Gate)
	}
	r = compared(t, Options{FailIf: []Condition{c}, Points: []string{"t0_c8"}}, filepath.Join(dir, "a"), b)
	if r.Gate.Answer != Pass {
		t.Errorf("got %+v, want pass: the point was left out on purpose", r.Gate)
	}
	failed := filepath.Join(dir, "failed")
	if err := os.MkdirAll(filepath.Join(failed, "t0_c8.failed"), 0o777); err != nil {
		t.Fatal(err)
	}
	nothing, err := Open(failed)
	if !errors.Is(err, ErrNoPoint) {
		t.Fatalf("got %v, want that there is no point", err)
	}
	r, err = Compare([]Input{open(t, filepath.Join(dir, "a")), nothing}, Options{FailIf: []Condition{c}})
	if err != nil || r.Gate.Answer != Inconclusive || len(r.Gate.Judgements) != 2 {
		t.Errorf("got %+v, %v, want inconclusive at both points: all points of B failed", r.Gate, err)
	}
	if !strings.Contains(r.Text(), "failed: no point that can be compared") {
		t.Errorf("got\n%s", r.Text())
	}
	unknown, _ := ParseCondition("AL[coding] < -0.05")
	_, err = Compare([]Input{open(t, filepath.Join(dir, "a")), open(t, b)}, Options{FailIf: []Condition{unknown}})
	if err == nil || !strings.Contains(err.Error(), "AL[roleplay]") {
		t.Errorf("got %v, want an error that lists the categories", err)
	}
}

// A run that failed or cannot be read keeps a gate from passing, not from failing.
func TestGateMissingRun(t *testing.T) {
	c, _ := ParseCondition("AL < -0.05")
	sides := func(t *testing.T) (a, b string) {
		dir := t.TempDir()
		a, b = filepath.Join(dir, "a"), filepath.Join(dir, "b")
		for _, run := range []string{"t0_c8", "t0_c8_r2"} {
			benchRun{als: alsA, config: configA}.write(t, filepath.Join(a, run))
			benchRun{als: alsB, config: configA}.write(t, filepath.Join(b, run))
		}
		return a, b
	}
	f := func(want, reason, folder, file string, opts Options) {
		t.Helper()
		a, b := sides(t)
		for _, in := range []string{a, b} {
			if err := os.MkdirAll(filepath.Join(in, folder), 0o777); err != nil {
				t.Fatal(err)
			}
			if file != "" {
				put(t, filepath.Join(in, folder, file), "not JSON")
			}
			opts.FailIf = []Condition{c}
			g := compared(t, opts, a, b).Gate
			if g.Answer != want || (g.Judgements[len(g.Judgements)-1].Reason != "") != (reason != "") || !strings.Contains(g.Judgements[len(g.Judgements)-1].Reason, reason) {
				t.Errorf("%s: got %+v, want %s because of %q", folder, g, want, reason)
			}
			if g := compared(t, opts, b, a).Gate; g.Answer != Fail {
				t.Errorf("%s: got %+v, want a failure whatever is missing", folder, g)
			}
		}
	}
	f(Inconclusive, "failed: it failed", "t0_c8_r3.failed", "", Options{})
	f(Inconclusive, "failed: it is running, or was killed", ".t0_c8_r3.partial", "", Options{})
	f(Inconclusive, "t0_c8_r3 of ", "t0_c8_r3", "acceptance_rate.json", Options{})
	f(Inconclusive, "cannot be read", "t0_c64", "acceptance_rate.json", Options{})
	f(Pass, "", "t0_c64", "acceptance_rate.json", Options{Points: []string{"t0_c8"}})
	f(Pass, "", "t0_c8_r2.failed", "", Options{}) // it was measured again
	f(Pass, "", "t0_c64.failed", "", Options{})   // A has no such point
}

// A run of a sweep that lost its records, or its folder, is missing too: what else
// is in its folder is not taken for a run of another tool.
func TestGateLostRun(t *testing.T) {
	c, _ := ParseCondition("AL < -0.05")
	f := func(want, reason string, lose func(dir string), points ...string) {
		t.Helper()
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		for _, in := range []string{a, b} {
			for _, run := range []string{"t0_c8", "t0_c8_r2"} {
				benchRun{als: alsA, config: configA}.write(t, filepath.Join(in, run))
			}
			put(t, filepath.Join(in, "sweep.json"), `{"points": [{"state": "complete", "folder": "t0_c8"}, {"state": "complete", "folder": "t0_c8_r2"}, {"state": "failed", "folder": "t0_c64.failed"}]}`)
		}
		lose(b)
		g := compared(t, Options{FailIf: []Condition{c}, Points: points}, a, b).Gate
		if last := g.Judgements[len(g.Judgements)-1]; g.Answer != want || (last.Reason != "") != (reason != "") || !strings.Contains(last.Reason, reason) {
			t.Errorf("got %+v, want %s because of %q", g, want, reason)
		}
	}
	f(Pass, "", func(string) {})
	for _, ours := range []string{"speculation.json", "performance.json"} {
		f(Inconclusive, "t0_c8_r2 of B cannot be read: records.jsonl is not there", func(dir string) {
			put(t, filepath.Join(dir, "t0_c8_r2", ours), "{}")
		})
		f(Inconclusive, "t0_c8_r2 of B cannot be read: records.jsonl is not there", func(dir string) {
			empty(t, filepath.Join(dir, "t0_c8_r2"))
			put(t, filepath.Join(dir, "t0_c8_r2", ours), "{}")
		})
	}
	f(Inconclusive, "t0_c8_r2 of B cannot be read: sweep.json has it as complete, and its folder holds nothing", func(dir string) {
		empty(t, filepath.Join(dir, "t0_c8_r2"))
	})
	f(Inconclusive, "t0_c8_r2 of B cannot be read: sweep.json has it as complete", func(dir string) {
		if err := os.RemoveAll(filepath.Join(dir, "t0_c8_r2")); err != nil {
			t.Fatal(err)
		}
	})
	more := func(dir string) {
		put(t, filepath.Join(dir, "sweep.json"), `{"points": [{"state": "complete", "folder": "t0_c64"}]}`)
	}
	f(Inconclusive, "t0_c64 of B cannot be read: sweep.json has it as complete, and its folder is not there", more)
	f(Pass, "", more, "t0_c8")
}

// empty leaves a folder without its files.
func empty(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
}

// A condition on acceptance where one side does not speculate is told so.
func TestGateOfBaseline(t *testing.T) {
	r := Result{
		Inputs:      []InputInfo{{Label: "A", Points: []PointInfo{{Baseline: true}}}, {Label: "B", Points: []PointInfo{{}}}},
		Comparisons: []Comparison{{A: "A", B: "B", Points: []PointComparison{{Figures: []Figure{{Quantity: QuantityTPS}}}}}},
	}
	for _, text := range []string{"AL < -0.05", "AL[math] < 0", "acceptance[1] < 0"} {
		c, _ := ParseCondition(text)
		if err := r.gate(Options{FailIf: []Condition{c}}); err == nil || !strings.Contains(err.Error(), "A is a baseline without speculation, which has no "+c.name()) {
			t.Errorf("%s: got %v, want that A is a baseline", text, err)
		}
	}
}
