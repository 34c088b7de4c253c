package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// A request that was set apart is in no figure, but in the audit: the server
// counted it.
func TestSetApart(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	after := countersOf(p.Records)
	p.Run.Before, p.Run.After = &Counters{HasSpec: true}, &after
	want, plain := speculationOf(t, p)
	if want.Audit.Verdict != AuditExact {
		t.Fatalf("got audit %q, want a point that the counters agree with", want.Audit.Verdict)
	}
	f := func(reason string, incomplete bool) {
		t.Helper()
		q := p
		q.Lenient = true
		apart := *p.Records[0] // as a warm-up of the same question
		apart.SetApart = reason
		q.Records = append([]*Record{&apart}, p.Records...)
		all := countersOf(q.Records)
		q.Run.After = &all
		got, summary := speculationOf(t, q)
		if got.Audit.Verdict != AuditExact || got.Audit.BlocksCame != want.Audit.BlocksCame+1 {
			t.Errorf("%s: got audit %+v, want the request in it", reason, got.Audit)
		}
		if summary.Incomplete != incomplete || got.LeftOut[reason] != 1 || q.Whole() == incomplete {
			t.Errorf("%s: got incomplete %v, left out %v", reason, summary.Incomplete, got.LeftOut)
		}
		if !slices.Equal(got.Accepted.Blocks, want.Accepted.Blocks) || got.Accepted.Source != "blocks" || !reflect.DeepEqual(got.Position, want.Position) || got.Steps != want.Steps ||
			!reflect.DeepEqual(got.Blocks, want.Blocks) || summary.AverageAL != plain.AverageAL || summary.OutputTPS != plain.OutputTPS {
			t.Errorf("%s: got other figures than without the request: %+v, %+v", reason, got.Accepted, got.Blocks)
		}
	}
	for _, reason := range []string{ApartAskedAgain, ApartRepeated, ApartProbe, ApartOther, ApartSuperseded} {
		f(reason, false)
	}
	f(ApartForeign, true)
	f(ApartOtherPoint, true)
}

// A question that nobody asked is not missing, and keeps its place: MT-Bench's
// categories are places.
func TestNotAsked(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Records = p.Records[2:] // without the first question
	if p.Whole() {
		t.Error("a question that was not asked is not missed")
	}
	p.Run.Questions[0].NotAsked = true
	convs, failures := p.Conversations(ViewClient)
	if len(failures) > 0 || len(convs) != 5 || convs[0].Index != 1 || !p.Whole() {
		t.Errorf("got %d conversations from %d, failures %v", len(convs), convs[0].Index, failures)
	}
}

// What Recognise made is made again from the file, attribution included.
func TestRecognisedPointFromFile(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	for i, r := range p.Records {
		r.NamedBy, r.Route = NamedByCorrelation, RouteChat
		r.Labels.Conversation = fmt.Sprint("client's ", r.Labels.Conversation)
		if i == 0 {
			r.Labels.Point = "elsewhere"
		}
	}
	p.Run.Questions, p.Run.Metric = nil, MetricAcceptanceRate
	got := Recognise(p.Run, p.Records)
	files, summary, err := got.Files()
	if err != nil || summary.LeftOut[ApartOtherPoint] != 1 || summary.Conversations != 6 || !summary.Incomplete {
		t.Fatalf("got %+v, %v; want six conversations and one request of another point", summary, err)
	}
	var spec struct{ Attribution *Attribution }
	if err := json.Unmarshal(files[FileSpeculation], &spec); err != nil || spec.Attribution == nil || spec.Attribution.By[NamedByCorrelation] != 6 {
		t.Errorf("got %+v, %v in speculation.json", spec.Attribution, err)
	}
	path := filepath.Join(t.TempDir(), FileRecords)
	if err := got.WriteRecords(path, DropTexts); err != nil {
		t.Fatal(err)
	}
	again, err := readOnePoint(t, path)
	if err != nil {
		t.Fatal(err)
	}
	again.Lenient = true
	same, _, err := again.Files()
	for name, text := range files {
		if err != nil || !bytes.Equal(text, same[name]) {
			t.Errorf("%s: got\n%s\nwant\n%s (%v)", name, same[name], text, err)
		}
	}
}

func readOnePoint(t *testing.T, path string) (Point, error) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return Point{}, err
	}
	points, bad, err := ReadPoints(bytes.NewReader(text))
	if err != nil || len(bad) > 0 || len(points) != 1 {
		return Point{}, fmt.Errorf("got %d points, bad lines %v: %w", len(points), bad, err)
	}
	return points[0], nil
}
