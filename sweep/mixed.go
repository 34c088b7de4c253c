package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// rowSettings is what tells rows of one table apart that were measured otherwise.
type rowSettings struct {
	Dataset      string `json:"dataset,omitempty"`
	Metric       string `json:"metric,omitempty"`
	GPUs         int    `json:"gpus,omitempty"`
	OutputLength int    `json:"output_length_tokens,omitempty"`
}

// rowColumns are the names of rowSettings.cells in summary.csv.
var rowColumns = []string{"dataset", "metric", "gpus", "output_length_tokens", "baseline"}

func (p bookPlan) rowSettings() rowSettings {
	return rowSettings{Dataset: p.Dataset, Metric: string(p.Metric), GPUs: p.GPUs, OutputLength: p.OutputLength}
}

// settle says in each row what it was measured with, by the plan of its run.
func (b *book) settle() {
	for i := range b.rows {
		r := &b.rows[i]
		if plan, ok := b.planOf(r.Run); ok && r.rowSettings == (rowSettings{}) {
			r.rowSettings = plan.rowSettings()
			r.Baseline = r.Baseline || plan.Baseline // a point that failed has no summary
		}
	}
}

// planOf returns the plan of a run whose points are in the folder.
func (b *book) planOf(run string) (plan bookPlan, ok bool) {
	if run == b.head.Run {
		return b.head.Plan, true
	}
	i := slices.IndexFunc(b.head.Earlier, func(r bookRun) bool { return r.Run == run })
	if i < 0 || json.Unmarshal(b.head.Earlier[i].Plan, &plan) != nil {
		return bookPlan{}, false
	}
	return plan, true
}

// mixed warns of points that stay in the folder and were measured with other
// settings than this sweep's. They may be there on purpose.
func (s *Sweep) mixed(k kept, srv server) []string {
	points := map[string][]string{}
	var runs []string
	for _, row := range k.book.rowsOf(s.Plan.Config.SaveDir) {
		if s.Plan.runs(row.Point) || row.State == stateFailed {
			continue
		}
		if points[row.Run] == nil {
			runs = append(runs, row.Run)
		}
		points[row.Run] = append(points[row.Run], row.Point)
	}
	var warnings []string
	for _, id := range runs {
		run, ok := k.book.described(id)
		if !ok {
			continue
		}
		list := otherSettings(run, s.bookPlan(srv), s.bookServer(srv))
		if len(list) == 0 {
			continue
		}
		var texts []string
		for _, d := range list {
			texts = append(texts, d.String())
		}
		warnings = append(warnings, fmt.Sprintf("points in --save_dir %q were measured otherwise (%s, run %s): %s; they stand in one table with this sweep's: to keep them apart, choose another --save_dir",
			s.Plan.Config.SaveDir, strings.Join(points[id], ", "), id, strings.Join(texts, "; ")))
	}
	return warnings
}

// otherSettings are those of an earlier run that are not this sweep's, but what a
// closed loop does not have beside an open one, and what only one of the two knows.
func otherSettings(run bookRun, plan bookPlan, srv bookServer) []difference {
	was := objectOf(run.Plan)
	left := []string{}
	for _, name := range []string{"arrivals", "arrivals_seed", "questions_sha256"} {
		if _, ok := was.Get(name); !ok || member(objectOf(plan), name) == nil {
			left = append(left, name)
		}
	}
	list := planDifferences(run.Plan, plan, left...)
	more, _ := serverDifferences(run.Server, srv)
	return append(list, more...)
}
