package report

// box is a rectangle that a text or a mark covers.
type box struct{ x1, y1, x2, y2 float64 }

func (b box) meets(o box) bool { return b.x1 < o.x2 && o.x1 < b.x2 && b.y1 < o.y2 && o.y1 < b.y2 }

func (b box) within(o box) bool {
	return b.x1 >= o.x1 && b.x2 <= o.x2 && b.y1 >= o.y1 && b.y2 <= o.y2
}

// around is the box of a mark of a radius.
func around(x, y, r float64) box { return box{x - r, y - r, x + r, y + r} }

// textBox is the box of a text whose baseline begins, ends or has its middle at x, y.
func textBox(x, y float64, anchor, text string) box {
	w := textWidth(text)
	switch anchor {
	case "end":
		x -= w
	case "middle":
		x -= w / 2
	}
	return box{x - 1, y - textSize, x + w + 1, y + 4}
}

// labeller puts labels beside marks where nothing else is.
type labeller struct {
	inside box
	taken  []box
}

func (l *labeller) take(b box) { l.taken = append(l.taken, b) }

func (l *labeller) free(b box) bool {
	if !b.within(l.inside) {
		return false
	}
	for _, t := range l.taken {
		if b.meets(t) {
			return false
		}
	}
	return true
}

// spot is a place for a label beside its mark.
type spot struct {
	dx, dy float64
	anchor string
}

// The places that are tried for a label, in this order.
var (
	spotsAround = []spot{{0, -9, "middle"}, {9, 4, "start"}, {-9, 4, "end"}, {0, 19, "middle"}, {8, -7, "start"}, {-8, -7, "end"}, {8, 16, "start"}, {-8, 16, "end"}}
	spotsBeside = []spot{{11, 4, "start"}, {9, -7, "start"}, {9, 17, "start"}, {0, -11, "middle"}, {0, 20, "middle"}, {-11, 4, "end"}, {-9, -8, "end"}, {-9, 17, "end"}}
)

// place writes a label at the first free spot and says whether there was one.
func (l *labeller) place(d *drawing, class string, at xy, text string, spots []spot) bool {
	for _, s := range spots {
		b := textBox(at.x+s.dx, at.y+s.dy, s.anchor, text)
		if !l.free(b) {
			continue
		}
		l.take(b)
		d.text(class, at.x+s.dx, at.y+s.dy, s.anchor, text)
		return true
	}
	return false
}

// thin keeps the ticks whose labels do not meet, given the place and the label of
// each. The first one always stays.
func thin(ticks []tick, s scale) []tick {
	var kept []tick
	end := 0.0
	for i, t := range ticks {
		half := textWidth(t.label)/2 + 5
		at := s.at(t.value)
		if i > 0 && at-half < end {
			continue
		}
		kept, end = append(kept, t), at+half
	}
	return kept
}
