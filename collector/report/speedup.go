package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
	"spectap/collector/compare"
)

// FolderBaseline is where `spectap launch --baseline` leaves the points of a server
// that does not speculate.
const FolderBaseline = "baseline"

// speedUps is what a comparison with a baseline brought, or why there is none.
type speedUps struct {
	folder  string
	found   bool // there is a baseline
	list    []compare.SpeedUp
	remarks []string // what a reader of the ratios must know
	problem string   // why there are no ratios
}

// findSpeedUps compares the folder with its baseline, where one is given or found.
func findSpeedUps(dir string, opts Options) speedUps {
	s := speedUps{folder: opts.Baseline}
	if s.folder == "" {
		if s.folder = filepath.Join(dir, FolderBaseline); !isFile(filepath.Join(s.folder, collector.FileBook)) {
			return s
		}
	}
	s.found = true
	base, err := compare.Open(s.folder)
	if err != nil {
		s.problem = "the baseline cannot be read: " + withoutPath(err).Error()
		return s
	}
	own, err := compare.Open(dir)
	if err != nil {
		s.problem = "the folder cannot be read for a comparison: " + withoutPath(err).Error()
		return s
	}
	result, err := compare.Compare([]compare.Input{base, own}, compare.Options{})
	if len(result.Comparisons) == 0 {
		s.problem = fmt.Sprintf("the baseline cannot be compared: %v", err)
		return s
	}
	c := result.Comparisons[0]
	s.list = c.SpeedUp
	for _, d := range c.Differences {
		s.remarks = append(s.remarks, fmt.Sprintf("%s differs: baseline %s, here %s", short(d.What, 80), short(d.A, 160), short(d.B, 160)))
	}
	if c.Refused && !c.Forced {
		s.problem = "the two were not measured alike"
	} else if len(s.list) == 0 {
		s.problem = "no point of one has a partner in the other of which one speculates and one does not"
	}
	return s
}

// speedUpSection shows what speculation brings.
func (s *Source) speedUpSection() section {
	sec := section{ID: "speedup", Title: "Speed-up by speculation"}
	if !s.speedUp.found {
		if len(s.speculative()) > 0 {
			sec.quiet("Not shown: there is no baseline. spectap launch --baseline or spectap sweep --baseline measures the same points without speculation; spectap report --baseline DIR then shows the speed-up.")
		}
		return sec
	}
	if s.speedUp.problem != "" {
		sec.say("Not shown: " + s.speedUp.problem + ".")
	}
	var sentences []string
	for _, u := range s.speedUp.list {
		sentences = append(sentences, fmt.Sprintf("Where speculation stops paying, temperature %s, throughput: %s.", u.Temperature, u.Throughput.Text),
			fmt.Sprintf("Where speculation stops paying, temperature %s, a user's speed: %s.", u.Temperature, u.PerUser.Text))
	}
	if len(sentences) > 0 {
		sec.Blocks = append(sec.Blocks, block{List: sentences})
		sec.figures(
			speedUpFigure("speedup-throughput", "Speed-up of throughput", throughputOf(s.speedUp.list)+", speculative ÷ baseline", s.speedUp.list, func(p compare.SpeedUpPoint) compare.Estimate { return p.Throughput }),
			speedUpFigure("speedup-user", "Speed-up of a user's decoding", "tok/s of a user, speculative ÷ baseline", s.speedUp.list, func(p compare.SpeedUpPoint) compare.Estimate { return p.PerUser }),
		)
	}
	if len(s.speedUp.remarks) > 0 {
		sec.Blocks = append(sec.Blocks, block{List: s.speedUp.remarks})
	}
	return sec
}

// throughputOf says of what the speed-ups of throughput are, of several kinds of load each.
func throughputOf(list []compare.SpeedUp) string {
	var all, each []string
	for _, u := range list {
		if of := u.ThroughputOf(); !slices.Contains(all, of) {
			all = append(all, of)
		}
		if of := u.ThroughputOf() + " by " + u.Load; !slices.Contains(each, of) {
			each = append(each, of)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(each, ", ")
}

// speedUpFigure shows a ratio by load, a line a temperature; 1 is no gain.
func speedUpFigure(id, title, unit string, list []compare.SpeedUp, of func(compare.SpeedUpPoint) compare.Estimate) figure {
	c := lineChart{yTitle: "speed-up", xTitle: "load", xLog: true, yDecimals: true, mark: 1, apart: true, xLabel: func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }}
	t := table{Caption: title + ": " + unit, Head: heads("Point", "Temperature", "Load", "Speed-up", "95 % from", "to", "TTFT, speculative ÷ baseline")}
	var legends []legend
	for i, u := range list {
		c.xTitle = u.Load
		line := series{style: i, name: "T " + u.Temperature}
		legends = append(legends, newLegend(i, "temperature "+u.Temperature+", by "+u.Load, true))
		for _, p := range u.Points {
			c.addTick(p.Load, strconv.FormatFloat(p.Load, 'f', -1, 64))
			e := of(p)
			cells := []cell{textCell(short(p.Point, 48)), number(u.Temperature), number(strconv.FormatFloat(p.Load, 'g', -1, 64)), number(estimateText(e)), number(none), number(none), number(estimateText(p.TTFT))}
			if e.Value != nil {
				d := newDataPoint(p.Load, *e.Value, "", p.Point+": "+fixed(*e.Value, 3))
				if e.Known {
					d.lo, d.hi = e.Low, e.High
					cells[4].Text, cells[5].Text = fixed(e.Low, 3), fixed(e.High, 3)
				} else if e.Reason != "" {
					cells[3].Small = short(e.Reason, 80)
				}
				line.points = append(line.points, d)
			}
			t.Rows = append(t.Rows, cells)
		}
		c.series = append(c.series, line)
	}
	return figure{
		ID: id, Title: title, Unit: unit + "; 95 % interval where there is one", Legend: legends, Data: t,
		Desc: fmt.Sprintf("%s by load, %s; above 1 speculation is faster.", title, counted(len(list), "line")),
		Wide: c.draw(wideWidth, 340), Narrow: c.draw(narrowWidth, 300), Notes: []string{"Above the line at 1 speculation pays."},
	}
}

func estimateText(e compare.Estimate) string {
	if e.Value == nil {
		return none
	}
	return fixed(*e.Value, 3)
}
