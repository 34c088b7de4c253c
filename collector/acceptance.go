package collector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// mtbenchTopics are the categories of MT-Bench in the order of its questions,
// ten questions each. Source: specdec_bench metrics/mtbench.py.
var mtbenchTopics = [...]string{"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}

const (
	mtbenchPerTopic = 10
	mtbenchMax      = len(mtbenchTopics) * mtbenchPerTopic // questions
	mtbenchTurns    = 2                                    // turns that the metric reads
)

// Acceptance is the object of acceptance_rate.json: acceptance lengths (AL) by
// request, by category and on average, then the three rate blocks. Where
// specdec_bench raises an exception it returns an error that names the
// conversation. Source: specdec_bench metrics/acceptance_rate.py, mtbench.py and
// specbench.py.
func Acceptance(m Metric, convs []Conversation) (Object, error) {
	a, err := acceptanceOf(m, convs)
	if err != nil {
		return nil, err
	}
	o := Object{{"Request_AL", a.request}}
	if m != MetricAcceptanceRate {
		o = append(o, Member{"Category_AL", a.category})
	}
	o = append(o, Member{"Average_AL", a.average.json()})
	return append(o, rateBlocks(LengthHistogram(m, convs))...), nil
}

// AverageAL is Average_AL of Acceptance: over turns for AcceptanceRate, over
// requests for MTBench, over question ids for SpecBench.
func AverageAL(m Metric, convs []Conversation) (float64, error) {
	a, err := acceptanceOf(m, convs)
	return a.average.value, err
}

// ConversationALs is the pooled AL of each conversation, in the order given: the
// tokens of its turns over their chunks. It is NaN for one without chunks.
func ConversationALs(m Metric, convs []Conversation) []float64 {
	als := make([]float64, len(convs))
	for i, c := range convs {
		sum, n := pool(countedTurns(m, c))
		als[i] = math.NaN()
		if n > 0 {
			als[i] = float64(sum) / float64(n)
		}
	}
	return als
}

// LengthHistogram counts the chunks of each length over all turns that the metric reads.
func LengthHistogram(m Metric, convs []Conversation) map[int]int {
	h := map[int]int{}
	for _, c := range convs {
		for _, t := range countedTurns(m, c) {
			for _, length := range t.Lengths {
				h[length]++
			}
		}
	}
	return h
}

func acceptanceOf(m Metric, convs []Conversation) (averages, error) {
	if len(convs) == 0 {
		return averages{}, fmt.Errorf("cannot compute the %s acceptance metric: no conversation was measured", m)
	}
	convs = slices.Clone(convs)
	slices.SortStableFunc(convs, func(a, b Conversation) int { return cmp.Compare(a.Index, b.Index) })
	for _, c := range convs {
		if err := c.check(m); err != nil {
			return averages{}, err
		}
	}
	switch m {
	case MetricMTBench:
		return mtbenchAverages(convs), nil
	case MetricSpecBench:
		return specbenchAverages(convs), nil
	case MetricAcceptanceRate:
		return genericAverages(convs), nil
	}
	return averages{}, fmt.Errorf("cannot compute acceptance metric %q: want %s, %s or %s", m, MetricMTBench, MetricSpecBench, MetricAcceptanceRate)
}

// check refuses a conversation on which the reference raises an exception.
func (c Conversation) check(m Metric) error {
	turns := countedTurns(m, c)
	if len(turns) == 0 {
		return fmt.Errorf("cannot count %s: it never ran", c.name())
	}
	if m == MetricMTBench {
		if c.Index >= mtbenchMax || c.Index < 0 {
			return fmt.Errorf("cannot count %s: MT-Bench has %d questions, from 0 to %d; ask for at most %d with --num_requests", c.name(), mtbenchMax, mtbenchMax-1, mtbenchMax)
		}
		if len(turns) < mtbenchTurns {
			return fmt.Errorf("cannot count %s: it has %d turn, MT-Bench wants %d", c.name(), len(turns), mtbenchTurns)
		}
	}
	for t, turn := range turns {
		if m == MetricAcceptanceRate && len(turn.Lengths) == 0 {
			return fmt.Errorf("cannot count turn %d of %s: it has no chunks", t, c.name())
		}
		for _, length := range turn.Lengths {
			if length < 1 {
				return fmt.Errorf("cannot count turn %d of %s: a chunk has %d tokens, want at least 1", t, c.name(), length)
			}
		}
	}
	if _, n := pool(turns); n == 0 {
		return fmt.Errorf("cannot count %s: none of its turns has chunks", c.name())
	}
	return nil
}

// name is what error messages call a conversation.
func (c Conversation) name() string {
	return fmt.Sprintf("conversation %d (question %s)", c.Index, idText(c.QuestionID))
}

func idText(id json.RawMessage) string {
	if len(id) == 0 {
		return "null"
	}
	return string(id)
}

// countedTurns are the turns that a metric reads: MTBench never looks at a third.
func countedTurns(m Metric, c Conversation) []Turn {
	if m == MetricMTBench && len(c.Turns) > mtbenchTurns {
		return c.Turns[:mtbenchTurns]
	}
	return c.Turns
}

// pool sums the chunks of several turns: their tokens and their number.
func pool(turns []Turn) (sum, n int) {
	for _, t := range turns {
		n += len(t.Lengths)
		for _, length := range t.Lengths {
			sum += length
		}
	}
	return sum, n
}

// rateBlocks are the histogram and the two rates over its occurring lengths in
// ascending order. With N all chunks and R the share of chunks of at least this
// length, conditional = R / R of the next lower length, joint = the running
// product of the conditional rates. Source: specdec_bench metrics/acceptance_rate.py.
func rateBlocks(h map[int]int) Object {
	total := 0
	for _, count := range h {
		total += count
	}
	var histogram, conditional, joint Object
	running, previous, product := total, 1.0, 1.0
	for _, length := range slices.Sorted(maps.Keys(h)) {
		key := strconv.Itoa(length)
		reached := float64(running) / float64(total)
		rate := reached / previous
		product *= rate
		histogram = append(histogram, Member{key, h[length]})
		conditional = append(conditional, Member{key, rate})
		joint = append(joint, Member{key, product})
		previous = reached
		running -= h[length]
	}
	return Object{
		{"Acceptance_Length_Histogram", histogram},
		{"Conditional_Acceptance_Rate", conditional},
		{"Joint_Acceptance_Rate", joint},
	}
}
