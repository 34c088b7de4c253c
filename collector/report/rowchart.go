package report

import (
	"math"
)

// rowChart is a chart with a row for each thing: values with their intervals, or
// distributions, along one axis.
type rowChart struct {
	xTitle string
	log    bool
	label  func(float64) string // nil: as many decimals as needed
	rows   []row
}

// row is a thing and its values.
type row struct {
	name   string
	value  string // at the right end; "" for none
	values []rowValue
}

// rowValue is a value with its interval, and where it is a distribution its middle half.
type rowValue struct {
	style  int
	v      float64
	lo, hi float64 // NaN where there is no interval
	q1, q3 float64 // NaN where it is no distribution
	title  string
}

// draw makes the drawing of a width.
func (c rowChart) draw(width int) drawing {
	d := &drawing{W: width}
	most, names, values := 1, 0.0, 0.0
	var xs []float64
	for _, r := range c.rows {
		most = max(most, len(r.values))
		names, values = max(names, textWidth(fit(r.name, float64(width)*0.34))), max(values, textWidth(r.value))
		for _, v := range r.values {
			xs = append(xs, v.v, v.lo, v.hi)
		}
	}
	pitch := 12*float64(most) + 10
	f := frame{left: names + 12, right: float64(width) - 16, top: 12}
	if values > 0 {
		f.right = float64(width) - values - 14
	}
	f.bottom = f.top + pitch*float64(len(c.rows))
	d.H = int(f.bottom) + 46
	n := int((f.right - f.left) / 64)
	if c.log {
		f.x = logScale(xs)
	} else {
		f.x = linear(xs, false, n)
	}
	f.x.a, f.x.b = f.left+6, f.right-6
	c.axis(d, f, n)
	for i, r := range c.rows {
		c.drawRow(d, f, r, f.top+pitch*float64(i), pitch)
	}
	return *d
}

func (c rowChart) axis(d *drawing, f frame, n int) {
	label := c.label
	if label == nil {
		decimals := f.x.decimals(n)
		label = func(v float64) string { return fixed(v, decimals) }
	}
	ticks := labelled(f.x.ticks(n), label)
	if c.log {
		ticks = f.x.logTicks(label)
	}
	for _, t := range thin(ticks, f.x) {
		at := f.x.at(t.value)
		d.line("grid", at, f.top, at, f.bottom)
		half := textWidth(t.label) / 2
		d.text("tick", min(at, float64(d.W)-half), f.bottom+17, "middle", t.label)
	}
	d.line("axis", f.left, f.bottom, f.right, f.bottom)
	d.text("title", f.right, f.bottom+36, "end", fit(c.xTitle, f.right))
}

func (c rowChart) drawRow(d *drawing, f frame, r row, top, pitch float64) {
	middle := top + pitch/2
	if len(r.values) > 1 {
		d.line("grid", f.left, top+pitch, f.right, top+pitch)
	}
	d.text("row", f.left-8, middle+4, "end", fit(r.name, float64(d.W)*0.34))
	if r.value != "" {
		d.text("value", float64(d.W), middle+4, "end", r.value)
	}
	for i, v := range r.values {
		if math.IsNaN(v.v) || math.IsInf(v.v, 0) {
			continue
		}
		y := middle + 12*(float64(i)-float64(len(r.values)-1)/2)
		class, at := seriesClass(v.style), f.x.at(v.v)
		if !math.IsNaN(v.lo) && !math.IsNaN(v.hi) {
			lo, hi := f.x.at(v.lo), f.x.at(v.hi)
			d.path("whisker "+class, "", "M"+px(lo)+" "+px(y-4)+"V"+px(y+4)+"M"+px(lo)+" "+px(y)+"H"+px(hi)+"M"+px(hi)+" "+px(y-4)+"V"+px(y+4))
		}
		if !math.IsNaN(v.q1) && !math.IsNaN(v.q3) {
			d.path("box "+class, v.title, "M"+px(f.x.at(v.q1))+" "+px(y-5)+"H"+px(f.x.at(v.q3))+"V"+px(y+5)+"H"+px(f.x.at(v.q1))+"Z")
			d.path("median "+class, "", "M"+px(at)+" "+px(y-7)+"V"+px(y+7))
			continue
		}
		d.path("mark "+class, v.title, marker(v.style, at, y))
	}
}
