package collector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ResponsesFile is the name of a metric's responses file.
func ResponsesFile(m Metric) string {
	switch m {
	case MetricMTBench:
		return "mtbench_responses.jsonl"
	case MetricSpecBench:
		return "specbench_responses.jsonl"
	}
	return "responses.jsonl"
}

// mtbenchFirstID is the id that specdec_bench gives the first MT-Bench question.
const mtbenchFirstID = 81

// Responses is the text of a metric's responses file: one line a conversation,
// in data-set order. Source: specdec_bench metrics/acceptance_rate.py, mtbench.py
// and specbench.py.
func Responses(m Metric, convs []Conversation) ([]byte, error) {
	convs = slices.Clone(convs)
	slices.SortStableFunc(convs, func(a, b Conversation) int { return cmp.Compare(a.Index, b.Index) })
	var text []byte
	for _, c := range convs {
		head, err := responseHead(m, c)
		if err != nil {
			return nil, err
		}
		prompts, replies := make([]string, len(c.Turns)), make([]string, len(c.Turns))
		for i, t := range c.Turns {
			prompts[i], replies[i] = t.Prompt, t.Reply
		}
		line := append(head,
			Member{"turns", prompts},
			Member{"choices", []any{Object{{"index", 0}, {"turns", replies}}}})
		text = append(AppendCompact(text, line), '\n')
	}
	return text, nil
}

// responseHead is what a line says about the question in front of its texts.
func responseHead(m Metric, c Conversation) (Object, error) {
	switch m {
	case MetricMTBench:
		if c.Index < 0 || c.Index >= mtbenchMax {
			return nil, fmt.Errorf("cannot write the responses of %s: MT-Bench has %d questions", c.name(), mtbenchMax)
		}
		return Object{{"question_id", mtbenchFirstID + c.Index}, {"category", mtbenchTopics[c.Index/mtbenchPerTopic]}}, nil
	case MetricSpecBench:
		return Object{{"question_id", json.RawMessage(idText(c.QuestionID))}, {"category", json.RawMessage(idText(c.Category))}}, nil
	case MetricAcceptanceRate:
		head := Object{{"question_id", c.Index}}
		if c.System != nil {
			head = append(head, Member{"system_prompt", *c.System})
		}
		return head, nil
	}
	return nil, fmt.Errorf("cannot write responses of metric %q: want %s, %s or %s", m, MetricMTBench, MetricSpecBench, MetricAcceptanceRate)
}

// Postprocess keeps the part of a reply that goes into the history and into the
// responses file. kind "base" keeps all; "gptoss" keeps what follows the last
// final-channel mark, up to the next mark. Source: specdec_bench utils.py.
func Postprocess(kind, text string) (string, error) {
	switch kind {
	case "base":
		return text, nil
	case "gptoss":
		const final = "<|channel|>final<|message|>"
		if i := strings.LastIndex(text, final); i >= 0 {
			text = text[i+len(final):]
		}
		for _, mark := range []string{"<|end|>", "<|return|>", "<|channel|>"} {
			text, _, _ = strings.Cut(text, mark)
		}
		return text, nil
	}
	return "", fmt.Errorf("cannot postprocess replies with %q: set --postprocess to base or gptoss", kind)
}
