package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// Lines come in their order however they are cut into batches, each with its
// number and length, blank ones left out.
func TestEachLine(t *testing.T) {
	var text bytes.Buffer
	const records = 3000 // several batches
	pad := strings.Repeat("x", 2000)
	for i := range records {
		fmt.Fprintf(&text, `{"schema":"spectap.record/1","id":"r%d","error":"%s"}`+"\n\n", i, pad)
	}
	text.WriteString(`{"schema":"spectap.run/1","run":"last"}`) // without a newline
	n := 0
	err := EachLine(&text, func(l Line) error {
		switch {
		case l.Number != 2*n+1 || l.Bytes < 30 || l.Err != nil:
			t.Fatalf("got line %d of %d bytes and %v, want line %d", l.Number, l.Bytes, l.Err, 2*n+1)
		case n < records && l.Record.ID != fmt.Sprintf("r%d", n):
			t.Fatalf("line %d: got record %q", l.Number, l.Record.ID)
		case n == records && (l.Run == nil || l.Run.ID != "last"):
			t.Fatalf("got %+v, want the run of the last line", l)
		}
		n++
		return nil
	})
	if err != nil || n != records+1 {
		t.Errorf("got %d lines and %v, want %d", n, err, records+1)
	}
}

// endless is a records file without an end.
type endless struct{ line string }

func (e endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(e.line, len(p)/len(e.line)+1)), nil
}

// The first error of visit ends the reading, of a file without an end, too.
func TestEachLineStops(t *testing.T) {
	enough := errors.New("enough")
	n := 0
	err := EachLine(endless{`{"schema":"spectap.run/1"}` + "\n"}, func(Line) error {
		if n++; n == 5 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 5 {
		t.Errorf("got %d lines and %v, want 5 and visit's error", n, err)
	}
}

// A line that is too long is reported and not held; the next ones are read.
func TestReadBatchesLimit(t *testing.T) {
	const limit = 1 << 17 // above the reader's buffer
	good := `{"schema":"spectap.run/1","run":"r"}`
	f := func(in string, want ...int) {
		t.Helper()
		var bad, good []int
		err := readBatches(strings.NewReader(in), limit, func(b *lineBatch) bool {
			b.parse()
			for _, l := range b.lines {
				if l.Err != nil {
					bad = append(bad, l.Number)
				} else {
					good = append(good, l.Number)
				}
			}
			return true
		})
		if err != nil || !slices.Equal(append(bad, good...), want) {
			t.Errorf("got bad lines %d and good ones %d (%v), want %d together", bad, good, err, want)
		}
	}
	f(strings.Repeat("x", limit+1)+"\n"+good+"\n", 1, 2)
	f(good+"\n"+strings.Repeat(" ", 3*limit), 2, 1)
	f(good+strings.Repeat(" ", limit-len(good)), 1)
}

// What came before a failure of the reader is shown first.
func TestEachLineFailure(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	in := io.MultiReader(strings.NewReader(`{"schema":"spectap.run/1"}`+"\n"+`{"schema`), failing{broken})
	err := EachLine(in, func(Line) error { n++; return nil })
	if n != 1 || !errors.Is(err, broken) {
		t.Errorf("got %d lines and %v, want 1 and the reader's error", n, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
