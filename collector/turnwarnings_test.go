package collector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A server that merges the events of every turn is told in one line, which counts
// the turns and names the first; so is what the Records say, whatever its numbers.
func TestOneWarningAKind(t *testing.T) {
	p := openPoint(6, 1, constantly(0), constantly(500*time.Millisecond))
	for i, r := range p.Records {
		r.Labels.Question = fmt.Sprint(80 + i/2)
		r.Chunks[0].At = r.Chunks[1].At
		r.Warnings = []string{fmt.Sprintf("the captured prompt was cut from %d to 10 bytes", 100+i), "the reply is odd"}
	}
	p.Records[11].Chunks[0].At -= time.Millisecond
	p.Records[1].Labels.Question = "\x1b[31m" + strings.Repeat("x", 99)
	_, warnings := openLoopOf(t, p)
	const rate = "11 of 12 turns have no generation rate, because their events with tokens came at one moment: "
	for _, want := range []string{
		rate + `question 80, turn 1; question 81, turn 1; question "\x1b[31m` + strings.Repeat("x", 35) + `", turn 2; and 8 more`,
		"12 requests: the captured prompt was cut from 100 to 10 bytes; the others with other numbers",
		"12 requests: the reply is odd",
	} {
		if !slices.Contains(warnings, want) {
			t.Errorf("got warnings\n%s\nwant\n%s", strings.Join(warnings, "\n"), want)
		}
	}
	if n := len(warnings); n > 4 {
		t.Errorf("got %d warnings: %q", n, warnings)
	}
}
