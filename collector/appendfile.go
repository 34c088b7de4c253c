package collector

import "fmt"

// AppendResult puts a result at the end of a result file's list, as
// specdec_bench does with acceptance_rate.json and timing.json. old is the file's
// content, nil where there is no file; it must hold a list, whose entries are
// written again as they are. An empty result changes nothing. Source:
// specdec_bench metrics/base.py.
func AppendResult(old []byte, result Object) ([]byte, error) {
	if len(result) == 0 {
		return old, nil
	}
	var list []any
	if old != nil {
		v, err := DecodeOrdered(old)
		if err != nil {
			return nil, fmt.Errorf("cannot append to result file: %w", err)
		}
		entries, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("cannot append to result file: it holds a JSON %s, want a list; move the file away", kindOf(v))
		}
		list = entries
	}
	return AppendIndented(nil, append(list, result)), nil
}

// kindOf names the JSON type of a decoded value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case Object:
		return "object"
	case []any:
		return "list"
	}
	return "number"
}
