package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// provenanceSection tells how the figures were made, so that they can be made again.
func (s *Source) provenanceSection() section {
	sec := section{ID: "provenance", Title: "Provenance"}
	run := s.firstRun()
	var facts []fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, short(value, 4000)})
		}
	}
	for _, one := range settings {
		add(one.name, s.settingFact(one))
	}
	if b := s.book; b != nil {
		add("Shard", b.Plan.Shard)
	}
	if run.Metric != "" {
		add("Seed of intervals", strconv.FormatInt(run.Seed, 10))
	}
	if len(run.Shards) > 0 {
		add("Shards", fmt.Sprintf("%d of %d merged", len(run.Shards), run.Shards[0].Of))
	}
	add("Runs", strings.Join(s.distinct(func(p *point) string { return p.run.ID }), ", "))
	if b := s.book; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.Environment)) {
			add(name, b.Environment[name])
		}
	}
	if len(facts) > 0 {
		sec.Blocks = append(sec.Blocks, block{Facts: facts})
	}
	s.foreign(&sec)
	if s.book != nil && len(s.book.Warnings) > 0 {
		sec.Blocks = append(sec.Blocks, block{List: s.book.Warnings})
	}
	return sec
}

func measureName(measure string) string {
	switch measure {
	case "tokens":
		return "tokens: a count on every event"
	case "usage":
		return "usage: a count at the end of each answer"
	}
	return measure
}

// foreign tells how the requests of another client were recognised.
func (s *Source) foreign(sec *section) {
	for _, p := range s.points {
		a := p.run.Attribution
		if a == nil {
			continue
		}
		text := fmt.Sprintf("%s: the load came from another client. Of %s, %d are in %s", p.title(), counted(a.Requests, "request"), a.Attributed, counted(a.Conversations, "conversation"))
		if a.Questions > 0 {
			text += fmt.Sprintf("; %d of %d questions were asked", a.Asked, a.Questions)
		}
		var apart []string
		for _, why := range slices.Sorted(maps.Keys(a.SetApart)) {
			apart = append(apart, fmt.Sprintf("%d %s", a.SetApart[why], short(why, 60)))
		}
		if len(apart) > 0 {
			text += "; set apart, in no figure: " + strings.Join(apart, ", ")
		}
		sec.say(text + ".")
	}
}
