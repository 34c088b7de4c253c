package report

import (
	"cmp"
	"math"
	"slices"
)

// lineChart is a chart of points that lines may join.
type lineChart struct {
	xTitle, yTitle string
	xLog           bool
	xTicks         []tick // nil: chosen
	xLabel, yLabel func(float64) string
	xDecimals      bool // label x ticks with as many decimals as they need
	yDecimals      bool // the same of y
	xZero, yZero   bool
	yMax           float64 // 0: chosen
	mark           float64 // a value of y with a line of its own; 0: none
	steps          bool    // lines without markers, but for three of each
	apart          bool    // series whose points have the same x are drawn a little apart
	series         []series
}

// series is one line of a chart.
type series struct {
	style  int // of seriesClass and marker
	name   string
	points []dataPoint
	loose  bool // no line joins its points
}

// dataPoint is a point of a series.
type dataPoint struct {
	x, y   float64
	lo, hi float64 // of y; NaN where there is no interval
	label  string  // beside it; "" for none
	title  string  // when it is pointed at
}

// newDataPoint is a point without an interval.
func newDataPoint(x, y float64, label, title string) dataPoint {
	return dataPoint{x: x, y: y, lo: math.NaN(), hi: math.NaN(), label: label, title: title}
}

// frame is the part of a chart that all kinds share: where the plot is.
type frame struct {
	left, right, top, bottom float64
	x, y                     scale
}

// draw makes the drawing of a width.
func (c lineChart) draw(width, height int) drawing {
	d := &drawing{W: width, H: height}
	c.series = c.drawable()
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			xs, ys = append(xs, p.x), append(ys, p.y, p.lo, p.hi)
		}
	}
	ticksY := max(3, height/70)
	f := frame{top: 36, bottom: float64(height) - 44, right: float64(width) - 16}
	if c.yMax > 0 {
		ys = append(ys, c.yMax)
	}
	if c.mark != 0 {
		ys = append(ys, c.mark)
	}
	f.y = linear(ys, c.yZero, ticksY)
	if c.yMax > 0 {
		f.y.hi = c.yMax
	}
	labelY := c.yLabel
	if c.yDecimals {
		decimals := f.y.decimals(ticksY)
		labelY = func(v float64) string { return fixed(v, decimals) }
	}
	for _, v := range f.y.ticks(ticksY) {
		f.left = max(f.left, textWidth(labelY(v))+8)
	}
	f.y.a, f.y.b = f.bottom, f.top
	f.x = c.scaleX(xs, f)
	c.axes(d, f, labelY, ticksY)
	c.plot(d, f)
	return *d
}

// addTick adds a value of x that the axis names, once and in order.
func (c *lineChart) addTick(value float64, label string) {
	i, there := slices.BinarySearchFunc(c.xTicks, value, func(t tick, v float64) int { return cmp.Compare(t.value, v) })
	if !there {
		c.xTicks = slices.Insert(c.xTicks, i, tick{value, label})
	}
}

// drawable are the series without the points that have no place on the axes.
func (c lineChart) drawable() []series {
	list := slices.Clone(c.series)
	for i := range list {
		list[i].points = slices.DeleteFunc(slices.Clone(list[i].points), func(p dataPoint) bool {
			return math.IsNaN(p.x) || math.IsInf(p.x, 0) || math.IsNaN(p.y) || math.IsInf(p.y, 0) || c.xLog && p.x <= 0
		})
	}
	return list
}

func (c lineChart) scaleX(xs []float64, f frame) scale {
	var s scale
	n := int((f.right - f.left) / 70)
	switch {
	case c.xLog:
		s = logScale(xs)
	case c.xTicks != nil:
		s = scale{lo: c.xTicks[0].value - 0.5, hi: c.xTicks[len(c.xTicks)-1].value + 0.5}
	default:
		s = linear(xs, c.xZero, n)
	}
	s.a, s.b = f.left, f.right
	return s
}

// axes draws grid, ticks and titles.
func (c lineChart) axes(d *drawing, f frame, labelY func(float64) string, ticksY int) {
	for _, v := range f.y.ticks(ticksY) {
		d.line("grid", f.left, f.y.at(v), f.right, f.y.at(v))
		d.text("tick", f.left-8, f.y.at(v)+4, "end", labelY(v))
	}
	ticks := c.xTicks
	if ticks == nil {
		ticks = c.chooseX(f)
	}
	for _, t := range thin(ticks, f.x) {
		at := f.x.at(t.value)
		d.line("grid", at, f.top, at, f.bottom)
		half := textWidth(t.label) / 2
		d.text("tick", min(max(at, half), float64(d.W)-half), f.bottom+17, "middle", t.label)
	}
	d.line("axis", f.left, f.bottom, f.right, f.bottom)
	if c.mark != 0 {
		d.line("limit", f.left, f.y.at(c.mark), f.right, f.y.at(c.mark))
	}
	d.text("title", 0, 13, "start", fit(c.yTitle, float64(d.W)))
	d.text("title", f.right, f.bottom+36, "end", fit(c.xTitle, f.right))
}

func (c lineChart) chooseX(f frame) []tick {
	n := int((f.right - f.left) / 70)
	label := c.xLabel
	if c.xLog {
		return f.x.logTicks(label)
	}
	if c.xDecimals {
		decimals := f.x.decimals(n)
		label = func(v float64) string { return fixed(v, decimals) }
	}
	return labelled(f.x.ticks(n), label)
}

// plot draws the series: intervals below lines below markers, then the labels.
func (c lineChart) plot(d *drawing, f frame) {
	l := &labeller{inside: box{f.left + 2, f.top - 18, float64(d.W), f.bottom - 2}}
	if c.mark != 0 {
		l.take(box{f.left, f.y.at(c.mark) - 1, f.right, f.y.at(c.mark) + 1})
	}
	places := make([][]xy, len(c.series))
	for i, s := range c.series {
		class := seriesClass(s.style)
		for _, p := range s.points {
			at := xy{f.x.at(p.x), f.y.at(p.y)}
			if c.apart {
				at.x += 5 * (float64(i) - float64(len(c.series)-1)/2)
			}
			places[i] = append(places[i], at)
			if !math.IsNaN(p.lo) && !math.IsNaN(p.hi) {
				d.path("whisker "+class, "", whisker(at.x, f.y.at(p.lo), f.y.at(p.hi)))
				l.take(box{at.x - 4, f.y.at(p.hi), at.x + 4, f.y.at(p.lo)})
			}
		}
	}
	for i, s := range c.series {
		if !s.loose && len(places[i]) > 1 {
			d.path("line "+seriesClass(s.style), "", polyline(places[i]))
			l.takeLine(places[i])
		}
	}
	for i, s := range c.series {
		for j, at := range places[i] {
			if !c.marked(s, j) {
				continue
			}
			d.path("mark "+seriesClass(s.style), s.points[j].title, marker(s.style, at.x, at.y))
			l.take(around(at.x, at.y, 6))
		}
	}
	c.label(d, l, places)
}

// marked says which points have a marker.
func (c lineChart) marked(s series, i int) bool {
	if !c.steps {
		return true
	}
	n := len(s.points) - 1
	return n < 3 || i == n/4 || i == n/2 || i == 3*n/4
}

// label writes the labels of points, then the names of the series at their ends.
func (c lineChart) label(d *drawing, l *labeller, places [][]xy) {
	for i, s := range c.series {
		for j, at := range places[i] {
			if s.points[j].label != "" {
				l.place(d, "label", at, s.points[j].label, spotsAround)
			}
		}
	}
	for i, s := range c.series {
		if len(c.series) < 2 || len(places[i]) == 0 {
			continue
		}
		name := fit(s.name, 130)
		ends := []xy{places[i][len(places[i])-1], places[i][0]}
		if c.steps { // the lines end together: name them where they part
			n := len(places[i]) - 1
			ends = []xy{places[i][n/2], places[i][3*n/4], places[i][n/4]}
		}
		for _, end := range ends {
			if l.place(d, "name "+seriesClass(s.style), end, name, spotsBeside) {
				break
			}
		}
	}
}

// takeLine keeps labels off a line, in pieces of a few units.
func (l *labeller) takeLine(points []xy) {
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		l.take(around(b.x, b.y, 1.5))
		n := math.Ceil(math.Hypot(b.x-a.x, b.y-a.y) / 6)
		for k := 1.0; k < n; k++ {
			l.take(around(a.x+(b.x-a.x)*k/n, a.y+(b.y-a.y)*k/n, 1.5))
		}
	}
}

// whisker is an upright interval with its ends.
func whisker(x, lo, hi float64) string {
	return "M" + px(x-4) + " " + px(hi) + "H" + px(x+4) + "M" + px(x) + " " + px(hi) + "V" + px(lo) + "M" + px(x-4) + " " + px(lo) + "H" + px(x+4)
}
