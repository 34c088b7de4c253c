package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// open is a capture's request as a client sends it that leaves stream_options open.
func open(t testing.TB, request []byte) (path, text string, choices float64) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(all, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "stream_options")
	if choices, _ = members["n"].(float64); choices == 0 {
		choices = 1
	}
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return req.URL.Path, string(out), choices
}

var (
	usageMember = regexp.MustCompile(`,"usage":\{[^{}]*(\{[^{}]*\}[^{}]*)*\}`)
	fingerprint = regexp.MustCompile(`,"system_fingerprint":"[^"]*"`)
)

// unasked says what a stream would have been without the usage that it holds,
// by other means than the Cutter's: events are split, decoded and searched.
// everyEvent reports whether events with choices carry usage, too.
func unasked(t testing.TB, stream string) (without string, everyEvent bool) {
	t.Helper()
	var out []string
	finish := -1
	for event := range strings.SplitAfterSeq(stream, "\n\n") {
		var e struct {
			Choices []struct {
				Finish *string `json:"finish_reason"`
			}
			Usage *json.RawMessage
		}
		data := strings.TrimPrefix(strings.TrimSpace(event), "data: ")
		if data == "" || data == "[DONE]" || json.Unmarshal([]byte(data), &e) != nil {
			out = append(out, event)
			continue
		}
		if len(e.Choices) == 0 && e.Usage != nil {
			if moved := fingerprint.FindString(event); moved != "" && finish >= 0 && !fingerprint.MatchString(out[finish]) {
				out[finish] = strings.Replace(out[finish], "}\n\n", moved+"}\n\n", 1)
			}
			continue
		}
		if e.Usage != nil {
			everyEvent = true
			event = usageMember.ReplaceAllString(event, "")
		}
		if len(e.Choices) > 0 && e.Choices[0].Finish != nil {
			finish = len(out)
		}
		out = append(out, event)
	}
	return strings.Join(out, ""), everyEvent
}

// Every captured stream of the generation routes, asked for by a client that
// leaves stream_options open and answered as if we had asked: what was asked for
// on our account is gone, the fingerprint is back, and nothing else has changed.
// A server that sends usage on every event unasked keeps it in usage mode.
func TestReplayEveryStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	kept, cut, restored := 0, 0, 0
	for name, r := range streamed(t) {
		if !bytes.HasPrefix(r.request, []byte("POST /v1/c")) {
			continue
		}
		path, text, choices := open(t, r.request)
		whole := bodyOf(t, r.response)
		without, everyEvent := unasked(t, whole)
		var random []int
		for sum := 0; sum < len(r.response); sum += random[len(random)-1] {
			random = append(random, 1+rng.IntN(300))
		}
		for _, measure := range []string{"usage", "tokens"} {
			want := without
			switch {
			case choices > 1, measure == "usage" && everyEvent:
				want = whole
				kept++
			case without != whole:
				cut++
				if strings.Count(want, "system_fingerprint") == strings.Count(whole, "system_fingerprint") {
					restored++
				}
			}
			for _, cuts := range [][]int{nil, r.reads, random} {
				cfg := testConfig(t, upstreamOf(replayer(t, r, cuts)))
				cfg.Measure, cfg.Hold = measure, patience
				p := startProxy(t, cfg, nil)
				c := connect(t, p.addr)
				c.send(post(path, text))
				if d := cmp.Diff(want, body(t, c.answer("POST"))); d != "" {
					t.Errorf("%s, %s: body differs from the unasked one:\n%s", name, measure, d)
				}
				if rec := p.recs.next(t); choices == 1 && strings.Contains(whole, `"choices":[],"usage"`) != (rec.Usage != nil) && !everyEvent {
					t.Errorf("%s, %s: got usage %v: the tap must see what is cut", name, measure, rec.Usage)
				}
			}
		}
	}
	if kept < 10 || cut < 30 || restored < 10 {
		t.Errorf("%d streams kept their usage, %d were cut, %d got their fingerprint back: the captures no longer show all cases", kept, cut, restored)
	}
	t.Logf("kept %d, cut %d, restored %d", kept, cut, restored)
}
