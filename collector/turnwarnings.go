package collector

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// recordWarnings sums up what the Records say about themselves.
func (p Point) recordWarnings() []string {
	retries, counts, stamps := 0, map[string]int{}, map[string]int{}
	for _, r := range p.counted() {
		retries += r.Retries
		if r.Stamps != "" && len(r.Chunks) > 0 {
			stamps[r.Stamps]++
		}
		for _, w := range r.Warnings {
			counts[w]++
		}
	}
	list := p.unbelievableWarnings()
	if len(stamps) > 1 || stamps[StampsMixed] > 0 {
		list = append(list, fmt.Sprintf("time stamps are mixed: %d requests kernel, %d user, %d both", stamps[StampsKernel], stamps[StampsUser], stamps[StampsMixed]))
	}
	if retries > 0 {
		list = append(list, fmt.Sprintf("%d requests were sent again on a fresh connection", retries))
	}
	kinds := map[string][]string{} // texts that differ in their numbers alone
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		kind := numbers.ReplaceAllString(w, "0")
		kinds[kind] = append(kinds[kind], w)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		texts, requests := kinds[kind], 0
		for _, w := range texts {
			requests += counts[w]
		}
		text := fmt.Sprintf("%d requests: %s", requests, texts[0])
		if len(texts) > 1 {
			text += "; the others with other numbers"
		}
		list = append(list, text)
	}
	return list
}

// numbers are what tells the warnings of two requests apart that are of one kind.
var numbers = regexp.MustCompile(`[0-9]+`)

// namedTurns is how many turns a warning names beside their number.
const namedTurns = 3

// firstNames lists the first of the names, and how many more there are.
func firstNames(names []string) string {
	text := strings.Join(names[:min(len(names), namedTurns)], "; ")
	if more := len(names) - namedTurns; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// name names a turn for a reader of warnings: by its question, else by its place,
// from 0, in the order in which the turns ended. A client's own names are cut, and
// quoted where a terminal would not show them as they are.
func (t Turn) name(i int) string {
	if t.Record == nil {
		return fmt.Sprintf("turn %d", i+1)
	}
	l := t.Record.Labels
	of, label := "question", l.Question
	if label == "" {
		of, label = "conversation", l.Conversation
	}
	if quoted := strconv.Quote(label); label == "" || quoted != `"`+label+`"` || len(label) > labelLimit {
		label = strconv.Quote(label[:min(len(label), labelLimit)])
	}
	return fmt.Sprintf("%s %s, turn %d", of, label, l.Turn+1)
}

// labelLimit is how many bytes of a label a warning shows.
const labelLimit = 40
