package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// figure is a chart: two drawings of the same data, one for wide and one for
// narrow places, and the data as a table.
type figure struct {
	ID     string // unique on the page
	Title  string
	Unit   string // what is drawn, in a few words
	Desc   string // what the chart shows, for those who do not see it
	Legend []legend
	Wide   drawing
	Narrow drawing
	Notes  []string
	Data   table
}

// legend names a series.
type legend struct {
	Class  string
	Marker string // path of its marker, in a box of 32 x 12
	Dashed bool
	Line   bool
	Name   string
}

// drawing is an SVG picture of paths and texts.
type drawing struct {
	W, H  int
	Class string
	Marks []mark
}

// mark is a path where D is set, else a text.
type mark struct {
	Class  string
	D      string
	Title  string // what is told of the mark when it is pointed at
	X, Y   string
	Anchor string // "start", "middle" or "end"
	Text   string
}

// The sizes of the two drawings: units that are pixels where there is room.
const (
	wideWidth   = 600
	narrowWidth = 360
	textSize    = 12
	lineHeight  = 16
)

func (d *drawing) path(class, title, path string) {
	d.Marks = append(d.Marks, mark{Class: class, D: path, Title: title})
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.path(class, "", "M"+px(x1)+" "+px(y1)+"L"+px(x2)+" "+px(y2))
}

func (d *drawing) text(class string, x, y float64, anchor, text string) {
	d.Marks = append(d.Marks, mark{Class: class, X: px(x), Y: px(y), Anchor: anchor, Text: text})
}

// px is a coordinate with one decimal.
func px(v float64) string {
	text := strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	if text == "-0" {
		return "0"
	}
	return text
}

// xy is a place in a drawing.
type xy struct{ x, y float64 }

// polyline is the path through points.
func polyline(points []xy) string {
	var b strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		b.WriteString(command + px(p.x) + " " + px(p.y))
	}
	return b.String()
}

// The shapes of markers tell series apart without colour.
const shapes = 8

// marker is the path of shape i around a place.
func marker(i int, x, y float64) string {
	const r = 4.5
	at := func(dx, dy float64) string { return px(x+dx) + " " + px(y+dy) }
	poly := func(d ...float64) string {
		parts := make([]string, 0, len(d)/2)
		for j := 0; j < len(d); j += 2 {
			parts = append(parts, at(d[j], d[j+1]))
		}
		return "M" + strings.Join(parts, "L") + "Z"
	}
	switch i % shapes {
	case 0: // circle
		return fmt.Sprintf("M%sa%g %g 0 1 0 %g 0a%g %g 0 1 0 %g 0Z", at(-r, 0), r, r, 2*r, r, r, -2*r)
	case 1: // square
		return poly(-4, -4, 4, -4, 4, 4, -4, 4)
	case 2: // triangle
		return poly(0, -5.5, 5, 4, -5, 4)
	case 3: // diamond
		return poly(0, -6, 6, 0, 0, 6, -6, 0)
	case 4: // triangle down
		return poly(0, 5.5, 5, -4, -5, -4)
	case 5: // plus
		return poly(-1.6, -5.5, 1.6, -5.5, 1.6, -1.6, 5.5, -1.6, 5.5, 1.6, 1.6, 1.6, 1.6, 5.5, -1.6, 5.5, -1.6, 1.6, -5.5, 1.6, -5.5, -1.6, -1.6, -1.6)
	case 6: // hour-glass
		return poly(-5, -5, 5, -5, 0, 0, 5, 5, -5, 5, 0, 0)
	default: // bow tie
		return poly(-5, -5, 0, 0, 5, -5, 5, 5, 0, 0, -5, 5)
	}
}

// seriesClass is the class of a series' colour and dashes.
func seriesClass(i int) string { return "s" + strconv.Itoa(i%shapes) }

// newLegend is the legend of series i; with a line through its marker or without.
func newLegend(i int, name string, line bool) legend {
	return legend{Class: seriesClass(i), Marker: marker(i, 16, 7), Line: line, Name: short(name, 60)}
}

// textWidth is about how wide a text is at textSize, in DejaVu Sans, which is wider
// than most. Source: its advance widths, in thousandths of the size.
func textWidth(text string) float64 {
	width := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("ijl|'.,:; []()!", r):
			width += 0.36
		case strings.ContainsRune("mwMW%@…–−", r):
			width += 0.96
		case r >= 'A' && r <= 'Z' || r == '_':
			width += 0.72
		case r < 0x250:
			width += 0.63
		default:
			width += 1.05
		}
	}
	return width * textSize
}

// fit cuts a text to a width.
func fit(text string, width float64) string {
	text = short(text, 80)
	for n := len([]rune(text)); n > 1 && textWidth(text) > width; n-- {
		text = short(text, n-1)
	}
	return text
}
