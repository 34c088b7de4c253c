package sweep

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// Describe prints what the plan would do: points, requests, files.
func (p *Plan) Describe(w io.Writer) error {
	if w == nil {
		return errors.New("cannot print the plan: there is nowhere to print it to")
	}
	e := &errWriter{w: w}
	e.printf("server       %s\n", publicURL(p.Config.URL))
	e.printf("data set     %s %s (%s metric)\n", p.Dataset, p.datasetPath, p.Metric)
	e.printf("requests     %d conversations, %d requests a point, %d in all\n", p.Conversations(), p.Turns(), p.Turns()*len(p.kept.missing(p.Points)))
	if p.Shard.divided() {
		e.printf("shard        %s of %d conversations\n", p.Shard, len(p.Questions))
	}
	if n := p.Config.Repeats; n > 1 {
		e.printf("repeats      %d runs of each point, all points once and then all again\n", n)
	}
	if n := p.Config.Warmup; n > 0 {
		e.printf("warm-up      %d conversations before each point, in no figure\n", n)
	}
	e.printf("sampling     top_p %v, top_k %d, at most %d tokens a turn\n", p.TopP, p.TopK, p.Config.OutputLength)
	e.printf("driver       %s\n", p.Config.Driver)
	what := "acceptance " + p.Config.Acceptance
	if p.Config.Baseline {
		what = "times alone (a baseline)"
	}
	e.printf("measure      %s, %s, %d GPUs\n", p.Config.Measure, what, p.Config.GPUs)
	if p.SLO != nil {
		e.printf("SLO          %s for %.1f %% of the requests\n", p.SLO, 100*p.SLO.Share)
	}
	for _, point := range p.Points {
		where := point.Name
		if p.Config.SaveDir != "" {
			where = filepath.Join(p.Config.SaveDir, point.Name)
		}
		if _, complete := p.kept.rows[point.Name]; complete {
			where += " (complete: kept)"
		}
		if why := p.kept.damaged[point.Name]; why != "" {
			where += " (damaged, would be set aside and run again: " + why + ")"
		}
		e.printf("point        temperature %s, %s%s -> %s\n", shortest(point.Temperature), point.loadText(p), point.runText(), where)
	}
	for _, warning := range p.Warnings {
		e.printf("warning      %s\n", warning)
	}
	e.printf("nothing was sent (--dry_run)\n")
	return e.err
}

// errWriter keeps the first error of a row of prints.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}
