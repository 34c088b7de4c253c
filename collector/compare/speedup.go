package compare

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spectap/collector/estimate"
)

// SpeedUp is what speculation brings at one temperature, by load: the speculative
// side over the baseline, whichever of them is A.
type SpeedUp struct {
	Temperature string         `json:"temperature"`
	Load        string         `json:"load"` // "concurrency", or "requests per second"
	Baseline    string         `json:"baseline"`
	Points      []SpeedUpPoint `json:"points"`     // in the order of the load
	Throughput  Crossover      `json:"throughput"` // from where on Output TPS is no longer raised
	PerUser     Crossover      `json:"per_user"`   // from where on a user's decode speed is no longer raised
}

// SpeedUpPoint is the speed-up at one load.
type SpeedUpPoint struct {
	Point      string   `json:"point"`
	Load       float64  `json:"load"`
	Throughput Estimate `json:"throughput"`    // Output TPS; of the steady window where that alone has an interval at all loads of its kind
	Of         string   `json:"throughput_of"` // QuantityTPS or QuantitySteadyTPS, the same at all loads of a kind
	PerUser    Estimate `json:"per_user"`      // a user's decode speed
	TTFT       Estimate `json:"ttft"`          // mean TTFT; above 1 speculation makes users wait longer

	steady Estimate // of the steady window
}

// Crossover is the load from which speculation stops paying: between Pays, the
// largest load at which the speed-up is above 1 with its whole interval, and Stops,
// the smallest at which it is below 1 with its whole interval.
type Crossover struct {
	Pays    *float64  `json:"pays_up_to"`    // null: at no load is that shown
	Stops   *float64  `json:"does_not_from"` // null: the same
	HoldOne []float64 `json:"holds_1"`       // loads whose interval holds 1
	Without []float64 `json:"no_interval"`   // loads that have none: whether it pays there is not known
	Text    string    `json:"text"`
}

var loadName = regexp.MustCompile(`^t([0-9.]+)_([cq])([0-9.]+)$`)

// speedUp makes the speed-ups of points of which one side is a baseline.
func speedUp(points []PointComparison) []SpeedUp {
	var list []SpeedUp
	for _, p := range points {
		m := loadName.FindStringSubmatch(p.Point)
		if m == nil || p.a.baseline() == p.b.baseline() {
			continue
		}
		load, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			continue
		}
		kind, side := "concurrency", "A"
		if m[2] == "q" {
			kind = "requests per second"
		}
		if p.b.baseline() {
			side = "B"
		}
		i := slices.IndexFunc(list, func(s SpeedUp) bool { return s.Temperature == m[1] && s.Load == kind && s.Baseline == side })
		if i < 0 {
			list, i = append(list, SpeedUp{Temperature: m[1], Load: kind, Baseline: side}), len(list)
		}
		one := SpeedUpPoint{Point: p.Point, Load: load, Throughput: p.over(QuantityTPS), Of: QuantityTPS, PerUser: p.over(QuantityUserTPS), TTFT: p.over(QuantityTTFT), steady: p.over(QuantitySteadyTPS)}
		list[i].Points = append(list[i].Points, one)
	}
	oneThroughput(list)
	for i := range list {
		s := &list[i]
		slices.SortStableFunc(s.Points, func(a, b SpeedUpPoint) int { return cmp.Compare(a.Load, b.Load) })
		s.Throughput = s.crossover(func(p SpeedUpPoint) Estimate { return p.Throughput })
		s.PerUser = s.crossover(func(p SpeedUpPoint) Estimate { return p.PerUser })
	}
	return list
}

// oneThroughput makes the throughput of all points of a kind of load one quantity:
// a line through ratios of two quantities would have steps of neither. That of the
// steady window is taken where it has an interval at every load, and Output TPS,
// which all loads have, lacks one somewhere.
func oneThroughput(list []SpeedUp) {
	whole, steady := map[string]int{}, map[string]int{} // points of a kind without an interval
	for _, s := range list {
		for _, p := range s.Points {
			whole[s.Load] += count01(!p.Throughput.Known)
			steady[s.Load] += count01(!p.steady.Known)
		}
	}
	for _, s := range list {
		for i := range s.Points {
			if p := &s.Points[i]; whole[s.Load] > 0 && steady[s.Load] == 0 {
				p.Throughput, p.Of = p.steady, QuantitySteadyTPS
			}
		}
	}
}

func count01(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// ThroughputOf says of what a speed-up of throughput is.
func (s SpeedUp) ThroughputOf() string {
	if len(s.Points) > 0 && s.Points[0].Of == QuantitySteadyTPS {
		return "output tok/s of the steady window"
	}
	return "output tok/s of the whole run"
}

// over is the ratio of a quantity, speculative over baseline.
func (p PointComparison) over(quantity string) Estimate {
	f := p.find(Condition{Quantity: quantity, Scope: ScopeOverall})
	if f == nil && quantity == QuantityUserTPS {
		f = p.find(Condition{Quantity: QuantityRequestTPS, Scope: ScopeOverall})
	}
	if f == nil {
		return Estimate{Interval: estimate.Interval{Reason: "one side does not have it"}}
	}
	e := f.Ratio
	if p.a.baseline() || e.Value == nil || *e.Value == 0 {
		return e
	}
	e.Value = pointer(1 / *e.Value)
	if e.Known {
		e.Low, e.High = 1/e.High, 1/e.Low
	}
	return e
}

// crossover finds where speculation stops paying. It is said only where the points
// whose intervals exclude 1 agree on one place.
func (s SpeedUp) crossover(of func(SpeedUpPoint) Estimate) Crossover {
	c := Crossover{HoldOne: []float64{}, Without: []float64{}}
	orderly := true
	for _, p := range s.Points {
		e := of(p)
		switch {
		case !e.Known:
			c.Without = append(c.Without, p.Load)
		case e.Low > 1:
			orderly = orderly && c.Stops == nil
			c.Pays = pointer(p.Load)
		case e.High >= 1:
			c.HoldOne = append(c.HoldOne, p.Load)
		case c.Stops == nil:
			c.Stops = pointer(p.Load)
		}
	}
	c.Text = s.say(c, orderly, of)
	return c
}

// say puts a crossover into words.
func (s SpeedUp) say(c Crossover, orderly bool, of func(SpeedUpPoint) Estimate) string {
	first, last := s.Points[0].Load, s.Points[len(s.Points)-1].Load
	above := func(least float64) string { return s.open(c, least, math.Inf(1), of) }
	switch {
	case len(c.Without) == len(s.Points):
		return "cannot be told: no speed-up has an interval" + s.byValues(of)
	case !orderly:
		return fmt.Sprintf("cannot be told: it pays up to %s %s, and does not at %s", s.Load, load(*c.Pays), load(*c.Stops))
	case c.Pays == nil && c.Stops == nil && len(c.Without) > 0:
		return "cannot be told: " + above(0) + s.byValues(of)
	case c.Pays == nil && c.Stops == nil:
		return "cannot be told: every interval holds 1" + s.byValues(of)
	case c.Pays != nil && *c.Pays == last:
		return fmt.Sprintf("not reached up to %s %s", s.Load, load(last))
	case c.Stops == nil && !slices.ContainsFunc(c.Without, func(v float64) bool { return v > *c.Pays }):
		return fmt.Sprintf("above %s %s: what is measured above it (up to %s) cannot be told from 1", s.Load, load(*c.Pays), load(last))
	case c.Stops == nil:
		return fmt.Sprintf("cannot be told above %s %s: %s", s.Load, load(*c.Pays), above(*c.Pays))
	case c.Pays == nil && *c.Stops == first:
		text := fmt.Sprintf("it pays at no %s measured, from %s on", s.Load, load(first))
		if open := above(first); open != "" {
			text = fmt.Sprintf("it does not pay at %s %s, the lowest measured; %s", s.Load, load(first), open)
		}
		return text
	case c.Pays == nil && slices.ContainsFunc(c.Without, func(v float64) bool { return v < *c.Stops }):
		return fmt.Sprintf("cannot be told below %s %s: %s", s.Load, load(*c.Stops), s.open(c, 0, *c.Stops, of))
	case c.Pays == nil:
		return fmt.Sprintf("below %s %s: what is measured below it cannot be told from 1", s.Load, load(*c.Stops))
	}
	text := fmt.Sprintf("between %s %s and %s", s.Load, load(*c.Pays), load(*c.Stops))
	if open := s.open(c, *c.Pays, *c.Stops, of); open != "" {
		text += " (" + open + ")"
	}
	return text
}

// open says of the loads between two, both excluded, why speculation cannot be told
// to pay or not there: the interval holds 1, or there is none.
func (s SpeedUp) open(c Crossover, above, below float64, of func(SpeedUpPoint) Estimate) string {
	var list, holding []string
	for _, p := range s.Points {
		if p.Load <= above || p.Load >= below {
			continue
		}
		if slices.Contains(c.HoldOne, p.Load) {
			holding = append(holding, load(p.Load))
		}
		if slices.Contains(c.Without, p.Load) {
			e := of(p)
			why := strings.TrimPrefix(e.Reason, "no interval: ")
			if e.Value != nil {
				why = strings.TrimSuffix(ratioNumber(*e.Value)+", "+why, ", ")
			}
			list = append(list, fmt.Sprintf("%s has no interval (%s)", load(p.Load), why))
		}
	}
	if len(holding) > 0 {
		list = append([]string{join(holding) + " cannot be told from 1"}, list...)
	}
	return strings.Join(list, ", ")
}

// load is a load as it is said.
func load(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// byValues says what the values alone, without intervals, would mean.
func (s SpeedUp) byValues(of func(SpeedUpPoint) Estimate) string {
	above, below := "", ""
	for _, p := range s.Points {
		v := of(p).Value
		switch {
		case v == nil:
		case *v > 1 && below == "":
			above = load(p.Load)
		case *v <= 1 && below == "":
			below = load(p.Load)
		}
	}
	switch {
	case above == "" && below == "":
		return ""
	case below == "":
		return fmt.Sprintf("; the values alone are above 1 up to %s %s", s.Load, above)
	case above == "":
		return fmt.Sprintf("; the values alone are at most 1 from %s %s on", s.Load, below)
	}
	return fmt.Sprintf("; by the values alone between %s %s and %s", s.Load, above, below)
}

func join(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return list[last]
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
