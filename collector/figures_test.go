package collector

import (
	"encoding/json"
	"testing"
)

// TestIntervalOfRepeatedIDs: a repeated id counts once in Average_AL, so once in its interval.
func TestIntervalOfRepeatedIDs(t *testing.T) {
	conv := func(id string, lengths ...int) Conversation {
		return Conversation{QuestionID: json.RawMessage(id), Turns: []Turn{{Lengths: lengths}}}
	}
	p := Point{Run: Run{Metric: MetricSpecBench, Seed: 3}}
	rest := []Conversation{conv("3", 1, 3), conv("4", 1, 4), conv("5", 2), conv("6", 1, 6, 2), conv("7", 3, 3)}
	want, err := p.viewAL(append([]Conversation{conv("1", 1, 2), conv("2", 1, 5)}, rest...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.viewAL(append([]Conversation{conv("1", 9, 9), conv("1", 1, 2), conv("2", 8), conv("2", 1, 5)}, rest...))
	if err != nil {
		t.Fatal(err)
	}
	if *got.Interval != *want.Interval || got.AverageAL != want.AverageAL {
		t.Errorf("got %v in %+v, want %v in %+v", got.AverageAL, *got.Interval, want.AverageAL, *want.Interval)
	}
}
