package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const partIsLate = "answer: a part comes with the part behind it"

// compareViews names what differs between a scene played directly and through us.
func compareViews(direct, through *view) (all []string) {
	n := min(len(direct.requests), len(through.requests))
	if len(direct.requests) != len(through.requests) {
		all = append(all, fmt.Sprintf("request: %d arrived instead of %d", len(through.requests), len(direct.requests)))
	}
	for i := range n {
		all = append(all, prefixed("request: ", compareMessages(direct.requests[i], through.requests[i]))...)
	}
	if len(direct.answers) != len(through.answers) {
		all = append(all, fmt.Sprintf("answer: %d arrived instead of %d", len(through.answers), len(direct.answers)))
	}
	for i := range min(len(direct.answers), len(through.answers)) {
		all = append(all, prefixed("answer: ", compareMessages(direct.answers[i], through.answers[i]))...)
	}
	if direct.early && !through.early {
		all = append(all, "answer: comes behind the upload instead of before its end")
	}
	if direct.late || through.late {
		all = append(all, partIsLate)
	}
	if direct.end != through.end {
		all = append(all, fmt.Sprintf("answer: connection %s became %s", direct.end, through.end))
	}
	return all
}

func prefixed(prefix string, all []string) []string {
	for i := range all {
		all[i] = prefix + all[i]
	}
	return all
}

func compareMessages(a, b *message) (all []string) {
	add := func(differ bool, format string, args ...any) {
		if differ {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	all = append(all, compareStart(a.start, b.start)...)
	add(!slices.Equal(a.interim, b.interim), "interim answers %q became %q", a.interim, b.interim)
	shapeA, shapeB := strings.SplitN(a.framing, " ", 2)[0], strings.SplitN(b.framing, " ", 2)[0]
	add(shapeA != shapeB, "framing %s became %s", shapeA, shapeB)
	add(shapeA == shapeB && a.framing != b.framing, "framing of one kind became another length")
	all = append(all, compareFields(a, b, a.framing != b.framing)...)
	switch {
	case a.body != b.body && sameButStreamOptions(a.body, b.body):
		add(true, "stream_options changed in the body")
	default:
		add(a.body != b.body, "body changed")
	}
	add(!slices.Equal(a.chunks, b.chunks) && shapeA == shapeB, "chunk sizes changed")
	add(!slices.Equal(a.trailers, b.trailers), "trailers %q became %q", a.trailers, b.trailers)
	add(a.cut != b.cut, "end inside the body: %q became %q", a.cut, b.cut)
	return all
}

// sameButStreamOptions says whether two bodies differ in this one member.
func sameButStreamOptions(a, b string) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	delete(x, "stream_options")
	delete(y, "stream_options")
	return reflect.DeepEqual(x, y)
}

// compareStart names what differs in a start line: each of its three parts alone.
func compareStart(a, b string) (all []string) {
	x, y := strings.SplitN(a+"  ", " ", 3), strings.SplitN(b+"  ", " ", 3)
	for i, what := range []string{"method or version", "target or status", "version or reason"} {
		if x[i] = strings.TrimSpace(x[i]); x[i] != strings.TrimSpace(y[i]) {
			all = append(all, fmt.Sprintf("%s %q became %q", what, x[i], strings.TrimSpace(y[i])))
		}
	}
	return all
}

// compareFields compares fields by name and value, then spelling and order of
// those that are in both. Where the framing differs, its fields do so, too.
func compareFields(a, b *message, framing bool) (all []string) {
	left := slices.Clone(b.fields)
	at := make([]int, 0, len(left)) // where the fields of a stand in b
	skip := func(f rawField) bool {
		return framing && (strings.EqualFold(f.name, "Content-Length") || strings.EqualFold(f.name, "Transfer-Encoding"))
	}
	for _, f := range a.fields {
		if skip(f) {
			continue
		}
		i := slices.IndexFunc(left, func(g rawField) bool {
			return strings.EqualFold(f.name, g.name) && strings.TrimSpace(f.value) == strings.TrimSpace(g.value)
		})
		name := strings.ToLower(f.name)
		if i < 0 {
			all = append(all, "field "+name+" left out")
			continue
		}
		if f.name != left[i].name {
			all = append(all, "field "+name+" spelled anew")
		}
		if f.value != left[i].value {
			all = append(all, "spaces around the value of "+name+" changed")
		}
		at = append(at, i)
		left[i] = rawField{} // empty names match nothing
	}
	for _, g := range left {
		if g.name != "" && !skip(g) {
			all = append(all, "field "+strings.ToLower(g.name)+" added")
		}
	}
	if !slices.IsSorted(at) {
		all = append(all, "order of fields changed")
	}
	return all
}

// allowance is a row of testdata/differences.txt.
type allowance struct {
	side, what, why string
	pattern, scenes *regexp.Regexp
	used            bool
}

// readAllowances reads the one list of what may differ.
func readAllowances(t *testing.T) []*allowance {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "differences.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var rows []*allowance
	for sc := bufio.NewScanner(file); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 5 {
			t.Fatalf("got row %q, want side | pattern | scenes | what | why", line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for _, pattern := range alternatives(cells[1]) {
			rows = append(rows, &allowance{
				side: cells[0], what: cells[3], why: cells[4],
				pattern: regexp.MustCompile("^" + cells[0] + ": (" + pattern + ")$"),
				scenes:  regexp.MustCompile("^(" + cells[2] + ")$"),
			})
		}
	}
	return rows
}

// alternatives are the patterns that the first (a|b) of one stands for: each of
// them has to occur.
func alternatives(pattern string) (all []string) {
	before, rest, ok := strings.Cut(pattern, "(")
	inner, after, _ := strings.Cut(rest, ")")
	if !ok {
		return []string{pattern}
	}
	for one := range strings.SplitSeq(inner, "|") {
		all = append(all, before+one+after)
	}
	return all
}

// allowedBy returns the row that permits a difference in a scene; nil is none.
func allowedBy(rows []*allowance, scene, difference string) *allowance {
	for _, r := range rows {
		if r.scenes.MatchString(scene) && r.pattern.MatchString(difference) {
			return r
		}
	}
	return nil
}
