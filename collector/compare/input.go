package compare

import (
	"cmp"
	"slices"
	"strings"

	"spectap/collector"
)

// Input is one side of a comparison: what was read from a folder or a file.
type Input struct {
	Path   string
	Points []Point
	Failed []Problem // points that a sweep set aside, or that were not run to their end
	Broken []Problem // what could not be read
}

// Problem is a folder or file that brought no point, and why.
type Problem struct {
	Point  string `json:"point"`
	Folder string `json:"folder"`
	Reason string `json:"reason"`
}

// Point is one point of an Input with all its runs.
type Point struct {
	Name string // "t0_c32"; of a folder of specdec_bench's by its configuration.json, else the folder's name
	runs []run
}

// Folders are the folders or files of the runs.
func (p Point) Folders() []string {
	var list []string
	for _, r := range p.runs {
		list = append(list, r.folder)
	}
	return list
}

// Metric is the acceptance metric of the point; "" where nothing says.
func (p Point) Metric() collector.Metric { return p.runs[0].metric }

// run is one measurement of a point.
type run struct {
	folder   string
	name     string // of its point
	named    bool   // the name is a temperature and a concurrency
	metric   collector.Metric
	view     string // that acceptance_rate.json holds
	facts    facts
	convs    []conversation
	baseline bool // without speculation
	leftOut  int  // conversations that were asked and could not be measured

	tps, tpsPerGPU float64                 // output tokens per second; 0: not known
	means          map[string]float64      // of the timing quantities over all requests
	joint          jointShares             // Joint_Acceptance_Rate by chunk length, where nothing tells conversations apart
	steady         *collector.SteadyWindow // nil where the window means little, or there is none
	point          *collector.Point        // what it was made of; nil for specdec_bench's files
}

// conversation is what one question brought.
type conversation struct {
	id       string // as Request_AL names it
	hash     string // of the first user message; "" where nobody kept it
	category string
	pooled   map[string]length // by view, over the turns that the metric reads
	turns    []turn
}

// turn is what one request brought.
type turn struct {
	lengths  map[string]length // by view
	ttft     sample            // seconds from the writing of the request
	due      sample            // TTFT in seconds from the intended moment; that of the writing in a closed loop
	tpot     sample            // seconds
	rate     sample            // tokens per second after the first event
	decoded  int               // tokens after the first one, where there is a time that they took
	decoding float64           // seconds from the first event to the last
	accepted []int             // verify steps by accepted drafts; nil where the engine did not say
	uniform  bool              // each of these steps proposed the configured number of drafts
}

// length is an acceptance length. chunks is 0 where only the quotient is known.
type length struct {
	tokens, chunks int
	value          float64
}

// sample is a measured value, or none.
type sample struct {
	value float64
	known bool
}

// sortPoints puts points in the order of temperature and concurrency where the
// names have them, else of the names.
func sortPoints(points []Point) {
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(naturally(a.Name, b.Name), strings.Compare(a.Name, b.Name))
	})
}

// naturally compares texts with the numbers in them by value: t0_c8 is before t0_c32.
func naturally(a, b string) int {
	for a != "" && b != "" {
		x, restA := leadingNumber(a)
		y, restB := leadingNumber(b)
		if x >= 0 && y >= 0 {
			if c := cmp.Compare(x, y); c != 0 {
				return c
			}
			a, b = restA, restB
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingNumber reads the digits that a text begins with; -1 where it has none.
func leadingNumber(s string) (value int, rest string) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' && n < 18 {
		value = value*10 + int(s[n]-'0')
		n++
	}
	if n == 0 {
		return -1, s
	}
	return value, s[n:]
}
