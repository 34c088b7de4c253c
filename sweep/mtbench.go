package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"spectap/collector"
)

// parseMTBench reads FastChat's question.jsonl, or the HuggingFace variant with
// "prompt" in place of "turns" (metric-parity: datasets/mtbench.py). Ids and
// categories of the file are ignored: they are positional.
func parseMTBench(text []byte) ([]collector.Question, error) {
	return eachLine(text, func(line []byte) (collector.Question, error) {
		fields, err := object(line)
		if err != nil {
			return collector.Question{}, err
		}
		key := "turns"
		if _, ok := fields[key]; !ok {
			key = "prompt"
		}
		value, ok := fields[key]
		if !ok {
			return collector.Question{}, errors.New(`neither "turns" nor "prompt": want a list of user turns`)
		}
		turns, err := readTurns(key, value)
		return collector.Question{Prompts: turns}, err
	})
}

// checkMTBench refuses what the metric cannot count: it pools turns 0 and 1.
func checkMTBench(chosen []collector.Question) error {
	for i, q := range chosen {
		if len(q.Prompts) < 2 {
			return fmt.Errorf("line %d has one turn: MT-Bench's metric wants two", i+1)
		}
	}
	return nil
}

// placeMTBench gives a question its positional id and category, as
// specdec_bench's metrics/mtbench.py: 81 + i, and one category per ten.
func placeMTBench(i int, q *collector.Question) {
	topics := [...]string{"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}
	q.ID, q.Category = number(81+i), topics[i/10%len(topics)]
}

// firstOnly refuses to choose by category where categories are positional.
func firstOnly(choice string) error {
	if choice == SelectStratified {
		return errors.New("cannot use --select stratified with MT-Bench: its categories are positions in the file; want auto or first")
	}
	return nil
}

// object reads one line as a JSON object.
func object(line []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if len(line) == 0 {
		return nil, errors.New("is empty: want a JSON object")
	}
	if bytes.HasPrefix(line, []byte("\xef\xbb\xbf")) {
		return nil, errors.New("begins with a byte order mark: save the file as UTF-8 without one")
	}
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return nil, errors.New("is not a JSON object")
	}
	return fields, nil
}
