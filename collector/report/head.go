package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// firstRun is the run line of the first point that has one.
func (s *Source) firstRun() collector.Run {
	for _, p := range s.points {
		if p.run.Metric != "" {
			return p.run
		}
	}
	return collector.Run{}
}

// distinct lists what the points say, each once, in their order.
func (s *Source) distinct(of func(*point) string) []string {
	var list []string
	for _, p := range s.points {
		if v := of(p); v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (s *Source) model() string {
	models := s.distinct(func(p *point) string { return p.run.Model })
	if s.book != nil && s.book.Server.Model != "" && len(models) == 0 {
		models = []string{s.book.Server.Model}
	}
	if len(models) > 3 {
		models = append(models[:3:3], fmt.Sprintf("%d more", len(models)-3))
	}
	return list(models)
}

func (s *Source) dataset() string {
	sets := s.distinct(func(p *point) string { return p.run.Dataset })
	if len(sets) == 0 && s.book != nil && s.book.Plan.Dataset != "" {
		sets = []string{s.book.Plan.Dataset}
	}
	return list(sets)
}

func (s *Source) title() string {
	return short(cmp.Or(s.model(), "unknown model"), 120)
}

func (s *Source) subtitle() string {
	parts := []string{cmp.Or(datasetName(s.dataset()), "no data set named")}
	if s.folder != "" {
		parts = append(parts, "folder "+short(s.folder, 80))
	}
	return strings.Join(parts, " · ")
}

// datasetName is a data set's name as people write it.
func datasetName(name string) string {
	switch name {
	case "mtbench":
		return "MT-Bench"
	case "specbench":
		return "Spec-Bench"
	case "speed":
		return "SPEED-Bench"
	}
	return short(name, 80)
}

// headFacts are the facts beside the title.
func (s *Source) headFacts() []fact {
	run := s.firstRun()
	var facts []fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, short(value, 120)})
		}
	}
	engine := strings.TrimSpace(run.Engine + " " + run.EngineVersion)
	if engine == "" && s.book != nil {
		engine = strings.TrimSpace(s.book.Server.Engine + " " + s.book.Server.Version)
	}
	add("Server", engine)
	if s.book != nil {
		add("Started", started(s.book.Started))
	}
	add("GPUs", strings.Join(s.distinct(func(p *point) string { return positive(p.run.GPUs) }), " or "))
	if run.Shard != nil && run.Shard.Of > 1 {
		add("Shard", run.Shard.Name())
	}
	return facts
}

// started is a time of sweep.json to the minute.
func started(stamp string) string {
	day, clock, ok := strings.Cut(stamp, "T")
	if !ok || len(clock) < 5 {
		return stamp
	}
	return day + " " + clock[:5] + " UTC"
}

// tiles are the figures that are read first.
func (s *Source) tiles() []tile {
	complete := s.complete()
	all := len(s.points) + len(s.notRun)
	state := tile{Name: "Points complete", Value: fmt.Sprintf("%d of %d", len(complete), all)}
	if n := len(s.points) - len(complete); n > 0 {
		state.More = fmt.Sprintf("%d failed", n)
	}
	if n := len(s.notRun); n > 0 {
		state.More = strings.TrimPrefix(state.More+fmt.Sprintf(", %d not run", n), ", ")
	}
	var tiles []tile
	alike, common := s.comparable(complete)
	if drafted, of := s.comparable(s.speculative()); len(drafted) > 0 {
		t := lengthTile(drafted)
		t.More = joined(t.More, of)
		tiles = append(tiles, t)
	}
	if best, value := most(alike, func(p *point) float64 { return p.tpsPerGPU }); best != nil {
		tiles = append(tiles, tile{"Most throughput", rate(value), "tok/s per GPU", joined("at "+best.title(), common)})
	}
	if best, value := most(alike, func(p *point) float64 { return p.userTPS }); best != nil {
		tiles = append(tiles, tile{"Fastest for a user", rate(value), "tok/s", joined("at "+best.title(), common)})
	}
	return append(tiles, state)
}

// joined are two texts with a comma, or the one that there is.
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}

// lengthTile tells the acceptance length, of several points the range.
func lengthTile(complete []*point) tile {
	t := tile{Name: "Acceptance length", Unit: "tokens a step"}
	lo := slices.MinFunc(complete, func(a, b *point) int { return cmp.Compare(a.spec.AL().AverageAL, b.spec.AL().AverageAL) })
	hi := slices.MaxFunc(complete, func(a, b *point) int { return cmp.Compare(a.spec.AL().AverageAL, b.spec.AL().AverageAL) })
	t.Value = fixed(lo.spec.AL().AverageAL, 2)
	if b := fixed(hi.spec.AL().AverageAL, 2); b != t.Value {
		t.Value += "–" + b
		t.More = "from " + lo.title() + " to " + hi.title()
	}
	if len(complete) == 1 {
		t.More = intervalText(lo.spec.AL())
	}
	return t
}

// most are the runs of the point whose mean is the greatest one above 0, and that
// mean; nil where no run has a value.
func most(points []*point, of func(*point) float64) (best runs, value float64) {
	known := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return of(p) <= 0 })
	for _, group := range repeats(known) {
		if mean, _, _ := group.mean(of); mean > value {
			best, value = group, mean
		}
	}
	return best, value
}

// notices are what a reader must see before any figure.
func (s *Source) notices() []string {
	list := slices.Clone(s.warnings)
	if len(s.points) == 0 {
		list = append(list, "No point was run, so there are no figures.")
	} else if len(s.complete()) == 0 {
		list = append(list, "No point is complete, so there are no figures. What is known about the failures stands below.")
	}
	for _, p := range s.complete() {
		if p.failedRequests > 0 {
			list = append(list, fmt.Sprintf("%s: %d of %d requests failed; its figures are of the others.", p.title(), p.failedRequests, p.requests+p.failedRequests))
		}
	}
	return list
}

func intervalText(v collector.ViewAL) string {
	if v.Interval == nil {
		return "no interval: " + v.NoInterval
	}
	return fmt.Sprintf("%.0f %% interval %s–%s", 100*v.Interval.Level, fixed(v.Interval.Low, 3), fixed(v.Interval.High, 3))
}

// title is the point's name as a text shows it.
func (p *point) title() string { return short(p.name, 48) }

func temperature(t float64) string { return strconv.FormatFloat(t, 'g', -1, 64) }
