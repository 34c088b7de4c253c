package compare

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"spectap/collector"
)

// readRecords reads the point of a records file.
func readRecords(path string) (collector.Point, error) {
	f, err := os.Open(path)
	if err != nil {
		return collector.Point{}, fmt.Errorf("cannot open the records file: %w", err)
	}
	defer f.Close()
	points, bad, err := collector.ReadPoints(f)
	switch {
	case err != nil:
		return collector.Point{}, fmt.Errorf("cannot read %s: %w", path, err)
	case len(points) != 1 || points[0].Run.Metric == "":
		return collector.Point{}, fmt.Errorf("%s is not the records file of one point: got %d run lines, want one that names its data set, as a sweep writes it", path, len(points))
	case len(bad) > 0:
		return points[0], fmt.Errorf("%s has %d lines that cannot be read, the first: %w", path, len(bad), bad[0])
	}
	return points[0], nil
}

// runOf makes a run of a point's Records. questions are what a responses file says
// about them, by place; they may be empty.
func runOf(p collector.Point, folder string, questions map[string]asked) (run, error) {
	p.Lenient = true
	client, failures := p.Conversations(collector.ViewClient)
	server, _ := p.Conversations(collector.ViewServer)
	if len(client) == 0 {
		return run{}, fmt.Errorf("%s: no conversation was measured: %w", folder, noneMeasured(failures))
	}
	r := run{
		folder: folder, name: p.Run.BasePoint(), named: p.Run.Concurrency > 0 || p.Run.Schedule != nil, metric: p.Run.Metric, view: p.Run.Acceptance,
		leftOut: notMeasured(p.Run, client, failures), point: &p, means: map[string]float64{},
	}
	for i, c := range client {
		if r.metric == collector.MetricSpecBench && repeated(client[i+1:], c) {
			continue // the last one of a question id counts
		}
		one := conversationOf(r.metric, c, server[i], questions)
		if len(p.Run.Questions) == 0 { // places mean nothing: they come from the labels
			one.id = text(c.QuestionID)
		}
		r.convs = append(r.convs, one)
	}
	r.time(client, p.Run.GPUs)
	steady := p.Steady()
	r.steady = steady.Usable()
	r.baseline = isBaseline(p.Run, client)
	r.facts = factsOfRun(p)
	return r, nil
}

// noneMeasured says why nothing could be measured.
func noneMeasured(failures []collector.Failure) error {
	if len(failures) == 0 {
		return errors.New("it has no records of a conversation")
	}
	return fmt.Errorf("%d turns failed or are missing, the first: %w", len(failures), failures[0])
}

// notMeasured counts the conversations that were asked for and are in no figure.
func notMeasured(r collector.Run, measured []collector.Conversation, failures []collector.Failure) int {
	n := 0
	for _, q := range r.Questions {
		if !q.NotAsked {
			n++
		}
	}
	if n > 0 {
		return n - len(measured)
	}
	lost := map[int]bool{}
	for _, f := range failures {
		lost[f.Conversation] = true
	}
	return len(lost)
}

// repeated says that the question id of c comes again later.
func repeated(later []collector.Conversation, c collector.Conversation) bool {
	for _, o := range later {
		if string(o.QuestionID) == string(c.QuestionID) {
			return true
		}
	}
	return false
}

// mtbenchTurns are the turns that the MTBench metric reads.
const mtbenchTurns = 2

// conversationOf puts both views of a conversation together.
func conversationOf(m collector.Metric, client, server collector.Conversation, questions map[string]asked) conversation {
	c := conversation{id: idOf(m, client.Index, client.QuestionID), category: text(client.Category), pooled: map[string]length{}}
	if q, ok := questions[c.id]; ok {
		c.hash = q.hash
	}
	for i, t := range client.Turns {
		if m == collector.MetricMTBench && i == mtbenchTurns {
			break
		}
		one := turnOf(t)
		one.lengths = map[string]length{collector.ViewClient: lengthOf(t), collector.ViewServer: lengthOf(server.Turns[i])}
		for view, l := range one.lengths {
			sum := c.pooled[view]
			sum.tokens, sum.chunks = sum.tokens+l.tokens, sum.chunks+l.chunks
			if sum.chunks > 0 {
				sum.value = float64(sum.tokens) / float64(sum.chunks)
			}
			c.pooled[view] = sum
		}
		if c.hash == "" && i == 0 && t.Record != nil {
			c.hash = t.Record.UserHash
		}
		c.turns = append(c.turns, one)
	}
	if m == collector.MetricMTBench && c.category == "" {
		c.category = mtbenchCategory(client.Index)
	}
	return c
}

func lengthOf(t collector.Turn) length {
	l := length{chunks: len(t.Lengths)}
	for _, n := range t.Lengths {
		l.tokens += n
	}
	if l.chunks > 0 {
		l.value = float64(l.tokens) / float64(l.chunks)
	}
	return l
}

// turnOf takes the times and the verify steps of a turn. With T its times and n
// its tokens: TTFT = T[1] - T[0], or T[1] less the intended moment; time per output token = (T[last] - T[1]) / (n - 1);
// rate = (n - 1) / (T[last] - T[1]), as timing.json has it.
func turnOf(t collector.Turn) turn {
	var out turn
	last := len(t.Times) - 1
	if last >= 1 {
		out.ttft, out.due = sample{t.Times[1] - t.Times[0], true}, sample{t.Times[1] - t.Intended, true}
	}
	if decoding := 0.0; last >= 2 && t.Tokens > 1 {
		if decoding = t.Times[last] - t.Times[1]; decoding > 0 {
			out.tpot = sample{decoding / float64(t.Tokens-1), true}
			out.rate = sample{float64(t.Tokens-1) / decoding, true}
			out.decoded, out.decoding = t.Tokens-1, decoding
		}
	}
	if t.Record != nil && t.Record.Spec != nil {
		s := t.Record.Spec
		out.accepted = t.Record.Histogram()
		out.uniform = s.DraftLength > 0 && s.DraftedTokens == s.Steps*s.DraftLength
	}
	return out
}

// time computes the throughput of a run.
func (r *run) time(convs []collector.Conversation, gpus int) {
	var turns []collector.Turn
	for _, c := range convs {
		turns = append(turns, c.Turns...)
	}
	t, err := collector.Timing(turns, max(1, gpus))
	if err != nil {
		return // nothing was streamed: the run has no times
	}
	r.tps, r.tpsPerGPU = t.OutputTPS, t.OutputTPSPerGPU
}

// isBaseline says that a run was made without speculation: the run says so, or no
// event of a server that reports no statistics brought more than one token.
func isBaseline(r collector.Run, convs []collector.Conversation) bool {
	if r.Baseline {
		return true
	}
	if !r.NoSpecStats {
		return false
	}
	for _, c := range convs {
		for _, t := range c.Turns {
			for _, n := range t.Lengths {
				if n > 1 || t.Record != nil && t.Record.Spec != nil {
					return false
				}
			}
		}
	}
	return true
}

// idOf is the name of a conversation in Request_AL.
func idOf(m collector.Metric, index int, id []byte) string {
	if m == collector.MetricSpecBench {
		return text(id)
	}
	return fmt.Sprint(index)
}

// text is a JSON text without its quotes.
func text(raw []byte) string {
	v, err := collector.DecodeOrdered(raw)
	if s, ok := v.(string); err == nil && ok {
		return s
	}
	return strings.TrimSpace(string(raw))
}

// mtbenchTopics are the categories of MT-Bench in the order of its questions, ten
// each. Source: specdec_bench metrics/mtbench.py.
var mtbenchTopics = [...]string{"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}

func mtbenchCategory(index int) string {
	if topic := index / 10; index >= 0 && topic < len(mtbenchTopics) {
		return mtbenchTopics[topic]
	}
	return ""
}
