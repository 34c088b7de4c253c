package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"spectap/collector"
)

// observation is what the Records of a foreign client say about its load.
type observation struct {
	requests     int
	inFlight     int            // most at a time
	models       map[string]int // by requests
	first        string         // the most frequent model
	engine       string
	temperatures map[string]int // as sent upstream; "" where none was
	temperature  float64        // the most frequent one
}

func observed(recs []*collector.Record) observation {
	o := observation{requests: len(recs), inFlight: mostInFlight(recs), models: map[string]int{}, temperatures: map[string]int{}}
	for _, r := range recs {
		if r.Model != "" {
			o.models[r.Model]++
		}
		o.temperatures[string(r.SamplingSent["temperature"])]++
		o.engine = cmp.Or(o.engine, r.Engine)
	}
	o.first = mostFrequent(o.models)
	o.temperature, _ = strconv.ParseFloat(mostFrequent(o.temperatures), 64) // 0 where nobody said
	return o
}

// mostFrequent is the key of the highest count; of equal ones the first by name.
func mostFrequent(counts map[string]int) string {
	best := ""
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] > counts[best] {
			best = key
		}
	}
	return best
}

// mostInFlight is the highest number of requests that were on their way at a time.
func mostInFlight(recs []*collector.Record) int {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, r := range recs {
		edges = append(edges, edge{r.Start, 1}, edge{r.Answered(), -1})
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.step-b.step) })
	n, most := 0, 0
	for _, e := range edges {
		n += e.step
		most = max(most, n)
	}
	return most
}

// warnings say where the load was not what the point's name says.
func (o observation) warnings(wanted *float64) []string {
	var list []string
	if len(o.models) > 1 {
		list = append(list, fmt.Sprintf("the command asked %d models: their figures are mixed", len(o.models)))
	}
	other := 0
	for text, n := range o.temperatures {
		if v, err := strconv.ParseFloat(text, 64); wanted != nil && (err != nil || v != *wanted) {
			other += n
		}
	}
	if other > 0 {
		list = append(list, fmt.Sprintf("%d of %d requests were sent with another temperature than %s", other, o.requests, shortest(*wanted)))
	}
	if wanted == nil && o.requests > 0 && o.temperatures[""] == o.requests {
		list = append(list, "no request says its temperature: it was the server's default, shown as 0; set one with --temperature")
	}
	if wanted == nil && len(o.temperatures) > 1 {
		list = append(list, "the requests have different temperatures: set one with --temperature")
	}
	return list
}
