package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
)

// JSON is the Result in the schema spectap.compare/1.
func (r Result) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("cannot write the comparison: %w", err)
	}
	return b.Bytes(), nil
}

// CSV has a row for each figure; a field is empty where there is no number.
func (r Result) CSV() []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	_ = w.Write([]string{"a", "b", "point", "point_b", "quantity", "scope", "key", "unit", "paired", "n", "runs_a", "runs_b", "value_a", "value_b",
		"difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high", "smallest_difference", "p", "p_holm", "verdict", "reason", "since"}) // a buffer takes all
	for _, c := range r.Comparisons {
		for _, p := range c.Points {
			for _, f := range p.Figures {
				shown, _ := f.shown()
				_ = w.Write([]string{c.A, c.B, p.Point, p.PointB, f.Quantity, f.Scope, f.Key, f.Unit, strconv.FormatBool(f.Paired), strconv.Itoa(f.N),
					strconv.Itoa(f.RunsA), strconv.Itoa(f.RunsB), plain(f.A), plain(f.B),
					plain(f.Difference.Value), plain(f.Difference.low()), plain(f.Difference.high()),
					plain(f.Ratio.Value), plain(f.Ratio.low()), plain(f.Ratio.high()),
					plain(f.Smallest), plain(f.P), plain(f.Adjusted), string(f.Verdict), shown.Reason, string(f.Since)})
			}
		}
	}
	w.Flush()
	return buf.Bytes()
}

func plain(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func (e Estimate) low() *float64 {
	if !e.Known {
		return nil
	}
	return &e.Low
}

func (e Estimate) high() *float64 {
	if !e.Known {
		return nil
	}
	return &e.High
}
