package compare

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// block is a piece of a report: lines, or a table.
type block struct {
	heading string
	lines   []string
	table   *table
}

// Text is the Result for a terminal of 100 columns.
func (r Result) Text() string {
	var b strings.Builder
	for i, one := range r.blocks() {
		if i > 0 {
			b.WriteString("\n")
		}
		if one.heading != "" {
			b.WriteString(one.heading + "\n")
		}
		for _, line := range one.lines {
			b.WriteString(wrap(line, 100) + "\n")
		}
		if one.table != nil {
			b.WriteString(one.table.text())
		}
	}
	return b.String()
}

// Markdown is the Result as GitHub's Markdown.
func (r Result) Markdown() string {
	var b strings.Builder
	for i, one := range r.blocks() {
		if i > 0 {
			b.WriteString("\n")
		}
		if one.heading != "" {
			b.WriteString("### " + cell(one.heading) + "\n\n")
		}
		for _, line := range one.lines {
			b.WriteString("- " + cell(strings.TrimSpace(line)) + "\n")
		}
		if one.table != nil {
			if len(one.lines) > 0 {
				b.WriteString("\n")
			}
			b.WriteString(one.table.markdown())
		}
	}
	return b.String()
}

// blocks are all pieces in their order.
func (r Result) blocks() []block {
	list := []block{r.inputBlock()}
	for _, c := range r.Comparisons {
		list = append(list, c.differenceBlocks()...)
		if len(c.Points) > 0 && !c.Refused {
			list = append(list, c.alBlock(), c.timeBlock())
			list = append(list, c.speedUpBlocks()...)
			for i := range c.Points {
				list = append(list, c.Points[i].detailBlock(c.B))
			}
		}
	}
	list = append(list, r.familyBlock(), r.gateBlock())
	kept := list[:0]
	for _, one := range list {
		if len(one.lines) > 0 || one.table != nil && len(one.table.rows) > 0 {
			if one.table != nil && len(one.table.rows) == 0 {
				one.table = nil
			}
			kept = append(kept, one)
		}
	}
	return kept
}

func (r Result) inputBlock() block {
	var b block
	for _, in := range r.Inputs {
		var points []string
		for _, p := range in.Points {
			text := p.Name
			if n := len(p.Folders); n > 1 {
				text += fmt.Sprintf(" (%d runs)", n)
			}
			if p.Baseline {
				text += " (baseline)"
			}
			points = append(points, text)
		}
		b.lines = append(b.lines, fmt.Sprintf("%s  %s: %s", in.Label, in.Path, cmp.Or(strings.Join(points, ", "), "no point that can be compared")))
		for _, p := range in.Failed {
			b.lines = append(b.lines, fmt.Sprintf("   %s failed: %s", p.Point, oneLine(p.Reason)))
		}
		for _, p := range in.Broken {
			b.lines = append(b.lines, fmt.Sprintf("   %s cannot be read: %s", p.Point, oneLine(p.Reason)))
		}
	}
	return b
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// differenceBlocks say what differs, and what has no partner.
func (c Comparison) differenceBlocks() []block {
	t := &table{head: []string{"", "what", c.A, c.B, "points"}, left: []bool{true, true, true, true, true}}
	for _, d := range c.Differences {
		where := strings.Join(d.Points, ", ")
		if len(d.Points) == len(c.Points) && len(c.Points) > 1 {
			where = "all"
		}
		t.add(string(d.Level), d.What, short(d.A, 28), short(d.B, 28), short(where, 20))
	}
	differ := block{heading: fmt.Sprintf("%s and %s differ in", c.A, c.B), table: t}
	if c.Refused {
		differ.lines = append(differ.lines, fmt.Sprintf("Refused: %s; --force compares them all the same.", c.refusals()))
	}
	var alone block
	for _, u := range c.Unmatched {
		alone.lines = append(alone.lines, fmt.Sprintf("%s of %s has no partner and is in no figure.", u.Point, u.Input))
	}
	for _, p := range c.Points {
		if p.PointB != p.Point {
			alone.lines = append(alone.lines, fmt.Sprintf("%s of %s is compared with %s of %s.", p.Point, c.A, p.PointB, c.B))
		}
		if p.Pairing.Reason != "" {
			alone.lines = append(alone.lines, fmt.Sprintf("%s: %s.", p.Point, p.Pairing.Reason))
		}
	}
	return []block{differ, alone}
}

// short cuts a text that is too long for its column.
func short(s string, n int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// alBlock has the AL of all points.
func (c Comparison) alBlock() block {
	minus := c.B + " - " + c.A
	t := &table{head: []string{"point", "n", c.A, c.B, minus, "95 % interval", "seen from", "verdict"}, left: []bool{7: true}}
	views := map[string]bool{}
	for i := range c.Points {
		p := &c.Points[i]
		if f := p.find(Condition{Quantity: QuantityAL, Scope: ScopeOverall}); f != nil {
			views[p.View] = true
			t.add(p.Point, f.n(), f.number(f.A), f.number(f.B), signed(f.Difference.Value), interval(f.Difference, signedNumber), f.seen(), string(f.Verdict))
		}
	}
	var view string
	for _, v := range []string{"client", "server"} {
		if views[v] {
			view = v
		}
	}
	return block{heading: fmt.Sprintf("Acceptance length (%s view), %s", view, minus), table: t}
}

// timeBlock has throughput and latency of all points.
func (c Comparison) timeBlock() block {
	over := c.B + " / " + c.A
	t := &table{head: []string{"point", "", "n", c.A, c.B, over, "95 % interval", "verdict"}, left: []bool{1: true, 7: true}}
	reasons := map[string]bool{}
	lines := c.sinceLines()
	for i := range c.Points {
		for j := range c.Points[i].Figures {
			f := &c.Points[i].Figures[j]
			if !timing(f.Quantity) || f.Quantity == QuantityTPSPerGPU && !c.gpusDiffer() {
				continue
			}
			verdict := string(f.Verdict)
			if f.Ratio.Scope == theseRuns && f.Verdict != NotShown {
				verdict += ", these runs"
			}
			if f.Verdict == CannotBeTold {
				verdict = "-"
				if reason := f.Ratio.Reason; !reasons[reason] && reason != "" {
					reasons[reason] = true
					lines = append(lines, strings.ToUpper(reason[:1])+reason[1:]+".")
				}
			}
			t.add(c.Points[i].Point, timeNames[f.Quantity], f.n(), f.number(f.A), f.number(f.B), ratio(f.Ratio.Value), interval(f.Ratio, ratioNumber), verdict)
		}
	}
	return block{heading: "Times and throughput, " + over, table: t, lines: lines}
}

func (c Comparison) gpusDiffer() bool {
	for _, d := range c.Differences {
		if d.What == "GPUs" {
			return true
		}
	}
	return false
}

// timeNames are the timing quantities as a table calls them.
var timeNames = map[string]string{
	QuantityTTFT: "TTFT, ms", QuantityTPOT: "per token, ms", QuantityUserTPS: "user tok/s", QuantityRequestTPS: "request tok/s",
	QuantityTPS: "output tok/s", QuantityTPSPerGPU: "tok/s per GPU", QuantitySteadyTPS: "steady tok/s",
}

// detailBlock has AL by category, turn and draft position of one point.
func (p *PointComparison) detailBlock(b string) block {
	minus := b + " - A"
	t := &table{head: []string{"", "n", "A", b, minus, "95 % interval", "seen from", "verdict"}, left: []bool{7: true}}
	for i := range p.Figures {
		f := &p.Figures[i]
		if timing(f.Quantity) || f.Scope == ScopeOverall || f.Quantity == QuantityConditional {
			continue
		}
		t.add(short(f.row(), 24), f.n(), f.number(f.A), f.number(f.B), signed(f.Difference.Value), interval(f.Difference, signedNumber), f.seen(), string(f.Verdict))
	}
	return block{heading: fmt.Sprintf("%s by category, turn and draft position, %s", p.Point, minus), table: t}
}

// row names a figure in a table of details.
func (f *Figure) row() string {
	switch f.Quantity {
	case QuantityAcceptance:
		return "accepted at " + f.Key
	case QuantityJoint:
		return "chunks of at least " + f.Key
	}
	if f.Scope == ScopeTurn {
		return "AL, turn " + f.Key
	}
	return "AL, " + f.Key
}

func (f *Figure) n() string {
	if f.N == 0 {
		return "-"
	}
	return strconv.Itoa(f.N)
}

// number is a value in the unit of the tables.
func (f *Figure) number(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case f.Quantity == QuantityTTFT:
		return fmt.Sprintf("%.1f", *v*1e3)
	case f.Quantity == QuantityTPOT:
		return fmt.Sprintf("%.3f", *v*1e3)
	case timing(f.Quantity):
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.3f", *v)
}

// seen is the smallest difference that would have been seen.
func (f *Figure) seen() string {
	if f.Smallest == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *f.Smallest)
}

func signed(v *float64) string {
	if v == nil {
		return "-"
	}
	return signedNumber(*v)
}

func signedNumber(v float64) string {
	if math.Abs(v) < 0.0005 {
		v = 0
	}
	return fmt.Sprintf("%+.3f", v)
}

func ratio(v *float64) string {
	if v == nil {
		return "-"
	}
	return ratioNumber(*v)
}

func ratioNumber(v float64) string { return fmt.Sprintf("%.3f", v) }

func interval(e Estimate, number func(float64) string) string {
	if !e.Known {
		return "-"
	}
	return number(e.Low) + " .. " + number(e.High)
}

// wrap breaks a line at blanks; what follows is indented by three.
func wrap(line string, width int) string {
	var out []string
	for utf8.RuneCountInString(line) > width {
		runes := []rune(line)
		at := width
		for at > width/2 && runes[at] != ' ' {
			at--
		}
		if runes[at] != ' ' {
			at = width
		}
		out = append(out, strings.TrimRight(string(runes[:at]), " "))
		line = "   " + strings.TrimLeft(string(runes[at:]), " ")
	}
	return strings.Join(append(out, line), "\n")
}
