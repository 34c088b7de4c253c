package sweep

import (
	"encoding/json"
	"errors"
	"fmt"

	"spectap/collector"
)

// parseSpecBench reads Spec-Bench's question.jsonl: question_id, category and
// turns are required (datasets/specbench.py).
func parseSpecBench(text []byte) ([]collector.Question, error) {
	return eachLine(text, func(line []byte) (collector.Question, error) {
		fields, err := object(line)
		if err != nil {
			return collector.Question{}, err
		}
		for _, key := range []string{"question_id", "category", "turns"} {
			if _, ok := fields[key]; !ok {
				return collector.Question{}, fmt.Errorf("%q is missing: want question_id, category and turns", key)
			}
		}
		q := collector.Question{ID: fields["question_id"]}
		if err := checkID(q.ID); err != nil {
			return q, err
		}
		if json.Unmarshal(fields["category"], &q.Category) != nil {
			return q, errors.New(`cannot use "category": want a string`)
		}
		q.Prompts, err = readTurns("turns", fields["turns"])
		return q, err
	})
}

// checkID accepts a string or a whole number, the kinds of id that keep their
// text as a key of Request_AL.
func checkID(id json.RawMessage) error {
	var text string
	var whole int64
	if string(id) == "null" || json.Unmarshal(id, &text) != nil && json.Unmarshal(id, &whole) != nil {
		return fmt.Errorf("cannot use \"question_id\" %s: want a whole number or a string", id)
	}
	return nil
}
