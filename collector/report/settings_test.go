package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// mixed is a point of a folder that several sweeps filled; its events come so many
// times slower, and configuration is of its run line.
func (f fixture) mixed(name string, gpus int, slower float64, configuration string, change func(*collector.Run)) {
	f.t.Helper()
	s := shape{name: name, concurrency: 4, conversations: 3, categories: []string{"a"}, model: "m"}
	p := s.point()
	p.Run.GPUs, p.Run.Configuration = gpus, []byte(configuration)
	for _, r := range p.Records {
		r.Start = epoch // all at once, so that throughput is made by the events
		for j := range r.Chunks {
			r.Chunks[j].At = time.Duration(slower * float64(r.Chunks[j].At))
		}
	}
	if change != nil {
		change(&p.Run)
	}
	for _, r := range p.Records {
		r.Labels.Run = p.Run.ID
	}
	f.records(filepath.Join(f.dir, name), p)
}

// Every point has its own settings: the page lists those that differ, warns of what
// cannot be compared, and its tiles compare points alone that were measured alike.
func TestSettingsOfEachPoint(t *testing.T) {
	first := `{"output_length": 256, "top_p": 1.0, "top_k": 0, "argv": ["spectap", "first"], "url": "http://a"}`
	f := newFixture(t)
	f.mixed("t0_c1", 4, 2, first, nil)
	f.mixed("t0_c8", 4, 1, first, nil)
	f.mixed("t0_q5", 1, 0.1, "", func(r *collector.Run) { r.ID = "run-2" }) // the fastest, of another sweep
	f.mixed("t0_q9", 1, 0.1, "", func(r *collector.Run) { r.ID = "run-0" })
	f.file(collector.FileBook, `{"run": "run-2", "argv": ["spectap", "second"], "server": {"url": "http://b"}, "spectap_version": "v2",
		"plan": {"points": ["t0_q5"], "output_length_tokens": 4096, "top_p": 1, "top_k": 0},
		"earlier_runs": [{"run": "run-1", "plan": {"output_length_tokens": 7}}, {"run": "run-0", "plan": {"output_length_tokens": 256, "top_p": 0.9, "top_k": 0}}]}`)
	page := f.page()
	sound(t, page)
	contains(t, page, "GPUs 4 (t0_c1, t0_c8); 1 (t0_q5, t0_q9)",
		"Output limit 256 tokens (t0_c1, t0_c8, t0_q9); 4,096 tokens (t0_q5)",
		"Command spectap first (t0_c1, t0_c8); spectap second (t0_q5)", "Server http://a (t0_c1, t0_c8); http://b (t0_q5)",
		"Points differ in GPUs: 4 (t0_c1, t0_c8), 1 (t0_q5, t0_q9): their figures per GPU are not comparable.",
		"Points differ in Output limit: 256 tokens (t0_c1, t0_c8, t0_q9), 4,096 tokens (t0_q5): their throughput, times and acceptance are not comparable.",
		"Points differ in Sampling: top_p 1, top_k 0 (t0_c1, t0_c8, t0_q5), top_p 0.9, top_k 0 (t0_q9): their acceptance is not comparable.",
		"tok/s per GPU at t0_c8, of 2 points with GPUs 4, Output limit 256 tokens, Sampling top_p 1, top_k 0 ",
		"tok/s at t0_c8, of 2 points with GPUs 4")
	if shown := text(page); strings.Contains(shown, "EOS") && strings.Contains(shown, eosHeeded) || strings.Contains(shown, "Speculation "+speculating) {
		t.Error("the page says what goes without saying")
	}
}

// The same of data sets and of a baseline.
func TestSettingsThatKeepPointsApart(t *testing.T) {
	check := func(name string, change func(*collector.Run), want ...string) {
		t.Helper()
		f := newFixture(t)
		f.mixed("t0_c1", 1, 2, "", nil)
		f.mixed("t0_c4", 1, 2, "", nil)
		f.mixed("t0_c8", 1, 1, "", change)
		page := f.page()
		t.Log(name)
		sound(t, page)
		contains(t, page, want...)
		if strings.Contains(text(page), "tok/s per GPU at t0_c8") {
			t.Error("a tile compares it")
		}
	}
	check("data set", func(r *collector.Run) { r.Dataset = "specbench" },
		"Points differ in Data set: mtbench (t0_c1, t0_c4), specbench (t0_c8): their figures are not comparable.", "of 2 points with Data set mtbench", "Data set mtbench (t0_c1, t0_c4); specbench (t0_c8)")
	check("model", func(r *collector.Run) { r.Model = "n" }, "Points differ in Model: m (t0_c1, t0_c4), n (t0_c8)", "of 2 points with Model m")
	check("EOS", func(r *collector.Run) { r.IgnoreEOS = true }, "Points differ in EOS", "of 2 points with EOS ends a reply")
	check("baseline", func(r *collector.Run) { r.Baseline = true }, "Speculation on (t0_c1, t0_c4); off (baseline) (t0_c8)", "of 2 points with Speculation on")
}

// Points that were measured alike have no such warning, and no group is named; what
// a folder of another program does not say is no difference.
func TestSettingsThatAreAlike(t *testing.T) {
	f := newFixture(t)
	for i, temperature := range []float64{0, 1} {
		f.mixed(fmt.Sprintf("t%d_c4", i), 1, 1, `{"output_length": 64}`, func(r *collector.Run) { r.Temperature = temperature })
	}
	dir := filepath.Join(f.dir, "t1_c8")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f.file("t1_c8/configuration.json", `{"temperature": 1.0, "concurrency": 8, "output_length": 64, "tp_size": 1}`)
	f.file("t1_c8/timing.json", `[{"Output TPS": "9", "Output TPS/gpu": "9"}]`)
	page := f.page()
	sound(t, page)
	contains(t, page, "Output limit 64 tokens", "GPUs 1", "3 of 3")
	apart := regexp.MustCompile(`Points differ.{60}|points with (Model|Speculation|Data set|GPUs|Output limit|Sampling|EOS)`)
	if got := apart.FindString(text(page)); got != "" {
		t.Errorf("points that are alike are told apart: %q", got)
	}
}
