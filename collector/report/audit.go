package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"spectap/collector"
)

// auditSection tells how far the figures were checked, and every warning.
func (s *Source) auditSection() section {
	sec := section{ID: "audit", Title: "Audit and warnings"}
	points := s.complete()
	if len(points) == 0 {
		return sec
	}
	t := table{
		Caption: "Our sums of steps, drafts and accepted tokens against the differences of the server's counters",
		Head:    []cell{textCell("Point"), textCell("Verdict"), textCell("Why"), number("Statistics blocks"), number("Requests not ours"), number("Preemptions"), number("Prefix cache hits")},
	}
	for _, p := range points {
		t.Rows = append(t.Rows, p.auditCells())
	}
	sec.table(t)
	sec.warnings(points)
	return sec
}

func (p *point) auditCells() []cell {
	a := p.spec.Audit
	came, preempted, hits := none, none, none
	if a.BlocksExpected > 0 {
		came = count(a.BlocksCame) + " of " + count(a.BlocksExpected)
	}
	if a.Preemptions != nil {
		preempted = fixed(*a.Preemptions, 0)
	}
	if a.CacheQueries != nil && a.CacheHits != nil && *a.CacheQueries > 0 {
		hits = percent(*a.CacheHits / *a.CacheQueries)
	}
	return []cell{textCell(p.title()), {Text: a.Verdict, Bad: a.Verdict == collector.AuditDiffers}, textCell(short(a.Reason, 300)), number(came), number(count(a.ForeignRequests)), number(preempted), number(hits)}
}

func (p *point) viewsWarning() string {
	return collector.Summary{ClientAL: p.spec.Client.AverageAL, ServerAL: p.spec.Server.AverageAL}.ViewsWarning()
}

// warnings lists the warnings; one that several points have stands once.
func (sec *section) warnings(points []*point) {
	at := map[string][]string{}
	var order []string
	for _, p := range points {
		for _, w := range p.warnings {
			if w == p.viewsWarning() { // both values stand with the known differences
				continue
			}
			if at[w] == nil {
				order = append(order, w)
			}
			if !slices.Contains(at[w], p.title()) {
				at[w] = append(at[w], p.title())
			}
		}
	}
	var lines []string
	for _, w := range order {
		where := strings.Join(at[w], ", ")
		if len(points) > 1 && len(at[w]) == len(points) {
			where = "all points"
		}
		lines = append(lines, where+": "+short(w, 600))
	}
	if len(lines) == 0 {
		sec.say("No warnings.")
		return
	}
	sec.Blocks = append(sec.Blocks, block{List: lines})
}

// failedSection lists the points without figures.
func (s *Source) failedSection() section {
	sec := section{ID: "failed", Title: "Points without figures"}
	t := table{Caption: "Points that failed or were not run", Head: []cell{textCell("Point"), textCell("State"), textCell("Why"), number("Requests"), number("Failed"), textCell("Failures by kind")}}
	for _, p := range s.points {
		if !p.failed {
			continue
		}
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(p.errors)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", p.errors[kind], short(kind, 60)))
		}
		t.Rows = append(t.Rows, []cell{textCell(p.title()), textCell("failed"), textCell(short(p.reason, 600)), number(count(p.requests)), number(count(p.failedRequests)), textCell(strings.Join(kinds, ", "))})
	}
	for _, name := range s.notRun {
		t.Rows = append(t.Rows, []cell{textCell(short(name, 48)), textCell("not run"), textCell("planned, and there is no folder of it"), number(none), number(none), textCell("")})
	}
	if len(t.Rows) > 0 {
		sec.table(t)
	}
	return sec
}
