package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is one thing that a point was measured with. A folder may have been
// filled by several sweeps, so every point has its own.
type setting struct {
	name string
	of   func(*Source, *point) string // "" where it is not known
	// apart says what of points that differ in it cannot be compared; "" where it can
	// be, or where the page shows the difference anyway.
	apart string
	group bool // points that differ in it are not in one tile
}

// pointConfiguration is configuration.json as far as settings are read of it.
type pointConfiguration struct {
	MTBench      string   `json:"mtbench"`
	SpecBench    string   `json:"specbench"`
	DatasetPath  string   `json:"dataset_path"`
	OutputLength int      `json:"output_length"`
	TopP         *float64 `json:"top_p"`
	TopK         *int     `json:"top_k"`
	Select       string   `json:"select"`
	Driver       string   `json:"driver"`
	URL          string   `json:"url"`
	Argv         []string `json:"argv"`
	Version      string   `json:"spectap_version"`
}

// What differs in these settings cannot be compared.
const (
	apartAll     = "their figures are not comparable"
	apartPerGPU  = "their figures per GPU are not comparable"
	apartLengths = "their throughput, times and acceptance are not comparable"
	apartSampled = "their acceptance is not comparable"
)

// settings are in the order of the page.
var settings = [...]setting{
	{"Model", func(s *Source, p *point) string { return cmp.Or(p.run.Model, s.bookOf(p).Server.Model) }, apartAll, true},
	{"Engine", func(_ *Source, p *point) string { return strings.TrimSpace(p.run.Engine + " " + p.run.EngineVersion) }, "", false},
	{"Server", func(s *Source, p *point) string { return cmp.Or(p.configuration().URL, s.bookOf(p).Server.URL) }, "", false},
	{"Speculation", speculation, "", true},
	{"Data set", func(s *Source, p *point) string { return cmp.Or(p.run.Dataset, s.planOf(p).Dataset) }, apartAll, true},
	{"Metric", func(_ *Source, p *point) string { return string(p.run.Metric) }, "", false},
	{"Questions", func(_ *Source, p *point) string { return positive(len(p.run.Questions)) }, "", false},
	{"GPUs", func(_ *Source, p *point) string { return positive(p.run.GPUs) }, apartPerGPU, true},
	{"Data set file", func(s *Source, p *point) string {
		c := p.configuration()
		return cmp.Or(c.MTBench, c.SpecBench, c.DatasetPath, s.planOf(p).DatasetPath)
	}, "", false},
	{"Selection", func(s *Source, p *point) string { return cmp.Or(p.configuration().Select, s.planOf(p).Select) }, "", false},
	{"Output limit", func(s *Source, p *point) string {
		if n := cmp.Or(p.configuration().OutputLength, s.planOf(p).OutputLength); n > 0 {
			return counted(n, "token")
		}
		return ""
	}, apartLengths, true},
	{"Sampling", sampling, apartSampled, true},
	{"Load by", func(s *Source, p *point) string { return cmp.Or(p.configuration().Driver, s.planOf(p).Driver) }, "", false},
	{"Measured with", func(_ *Source, p *point) string { return measureName(p.run.Measure) }, "", false},
	{"EOS", func(_ *Source, p *point) string {
		switch {
		case p.run.IgnoreEOS:
			return "ignored: every reply reaches the limit"
		case p.run.Metric != "":
			return eosHeeded
		}
		return ""
	}, apartLengths, true},
	{"Command", func(s *Source, p *point) string {
		return cmp.Or(strings.Join(p.configuration().Argv, " "), strings.Join(s.bookOf(p).Argv, " "))
	}, "", false},
	{"Made by", func(s *Source, p *point) string {
		if v := cmp.Or(p.configuration().Version, s.bookOf(p).Version); v != "" {
			return "spectap " + v
		}
		return ""
	}, "", false},
}

// Values that go without saying where all points have them.
const (
	eosHeeded    = "ends a reply"
	speculating  = "on"
	noSpeculator = "off (baseline)"
)

func speculation(_ *Source, p *point) string {
	switch {
	case p.run.Baseline:
		return noSpeculator
	case p.run.Metric != "":
		return speculating
	}
	return ""
}

func sampling(s *Source, p *point) string {
	topP, topK := p.configuration().TopP, p.configuration().TopK
	if plan := s.planOf(p); topP == nil || topK == nil {
		topP, topK = plan.TopP, plan.TopK
	}
	if topP == nil || topK == nil {
		return ""
	}
	return fmt.Sprintf("top_p %s, top_k %d", temperature(*topP), *topK)
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return count(n)
}

// configuration is what the point's configuration.json says; nothing where there is none.
func (p *point) configuration() pointConfiguration {
	if p.config == nil {
		p.config = new(pointConfiguration)
		_ = json.Unmarshal(p.run.Configuration, p.config) // what it does not say is not known
	}
	return *p.config
}

// bookOf is sweep.json for a point of the sweep that wrote it last; of another
// sweep's point it says nothing.
func (s *Source) bookOf(p *point) book {
	if s.book == nil || p.run.ID != "" && s.book.Run != "" && p.run.ID != s.book.Run {
		return book{}
	}
	return *s.book
}

// planOf is the plan that a point was measured by.
func (s *Source) planOf(p *point) bookPlan {
	if s.book != nil {
		for _, e := range s.book.Earlier {
			if e.Run != "" && e.Run == p.run.ID {
				return e.Plan
			}
		}
	}
	return s.bookOf(p).Plan
}

// choice is a value of a setting, and the points that have it.
type choice struct {
	value  string
	points []*point
}

// choices are the values of a setting that are known, in the order of the points.
func (s *Source) choices(points []*point, one setting) []choice {
	var list []choice
	for _, p := range points {
		value := one.of(s, p)
		if value == "" {
			continue
		}
		i := slices.IndexFunc(list, func(c choice) bool { return c.value == value })
		if i < 0 {
			i, list = len(list), append(list, choice{value: value})
		}
		list[i].points = append(list[i].points, p)
	}
	return list
}

// text is the value with its points.
func (c choice) text() string {
	const most = 8
	var names []string
	for _, p := range c.points[:min(most, len(c.points))] {
		names = append(names, p.title())
	}
	if n := len(c.points) - most; n > 0 {
		names = append(names, strconv.Itoa(n)+" more")
	}
	return short(c.value, 1000) + " (" + strings.Join(names, ", ") + ")"
}

// choicesText is the one value that all points have, or each with its points.
func choicesText(list []choice, separator string) string {
	switch {
	case len(list) == 0:
		return ""
	case len(list) == 1:
		return list[0].value
	}
	var texts []string
	for _, c := range list {
		texts = append(texts, c.text())
	}
	return strings.Join(texts, separator)
}

// settingFact is what the points say of a setting; of no point, what the plan does.
func (s *Source) settingFact(one setting) string {
	points := s.points
	if len(points) == 0 {
		points = []*point{{}}
	}
	list := s.choices(points, one)
	if len(list) == 1 && (list[0].value == eosHeeded || list[0].value == speculating) {
		return ""
	}
	return choicesText(list, "; ")
}

// differing warns of complete points that cannot be compared.
func (s *Source) differing() []string {
	var list []string
	for _, one := range settings {
		if all := s.choices(s.complete(), one); one.apart != "" && len(all) > 1 {
			list = append(list, fmt.Sprintf("Points differ in %s: %s: %s.", one.name, choicesText(all, ", "), one.apart))
		}
	}
	return list
}

// comparable are the most points that were measured alike, and what they have in
// common that not all points have; "" where all points are alike.
func (s *Source) comparable(points []*point) (alike []*point, common string) {
	var differ []setting
	for _, one := range settings {
		if one.group && len(s.choices(points, one)) > 1 {
			differ = append(differ, one)
		}
	}
	var groups []choice
	for _, p := range points {
		var values []string
		for _, one := range differ {
			values = append(values, one.name+" "+cmp.Or(short(one.of(s, p), 60), "not known"))
		}
		value := strings.Join(values, ", ")
		i := slices.IndexFunc(groups, func(g choice) bool { return g.value == value })
		if i < 0 {
			i, groups = len(groups), append(groups, choice{value: value})
		}
		groups[i].points = append(groups[i].points, p)
	}
	var best choice
	for _, g := range groups {
		if len(g.points) > len(best.points) {
			best = g
		}
	}
	if len(differ) == 0 {
		return best.points, ""
	}
	return best.points, fmt.Sprintf("of %s with %s", counted(len(best.points), "point"), best.value)
}
