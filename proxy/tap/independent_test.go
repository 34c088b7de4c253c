package tap

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"spectap/collector"
)

// said is what a capture says by a plain reading: whole body, encoding/json, vLLM's shapes only.
type said struct {
	chunks     []collector.Chunk // without times
	events     int
	completion int
	prompt     int
	hasUsage   bool
	finish     string
	stop       string
	histogram  []int
	block      map[string]any
	reply      string
	reasoning  string
	done       bool
	failed     bool
	id         string
}

type plainEvent struct {
	ID      string
	Error   any
	Usage   *struct{ Prompt_tokens, Completion_tokens int }
	Metrics *struct{ Speculative_decoding map[string]any }
	Choices []struct {
		Index          int
		Text           *string
		Delta, Message *struct {
			Role, Content, Reasoning *string
			Tool_calls               []any
		}
		Logprobs      *struct{ Content, Tokens []any }
		Finish_reason *string
		Stop_reason   any
		Token_ids     *[]int
	}
}

// plainReading reads vLLM's LF-framed stream, or its body.
func plainReading(t *testing.T, c *capture) (s said) {
	t.Helper()
	var texts []string
	stream := strings.HasPrefix(c.head.Header.Get("Content-Type"), "text/event-stream")
	if !stream {
		texts = []string{string(c.body)}
	} else {
		for _, block := range strings.Split(string(c.body), "\n\n") {
			if data, found := strings.CutPrefix(block, "data: "); found {
				texts = append(texts, data)
			}
		}
	}
	cumulative := map[int]int{}
	role := map[int]bool{}
	for _, text := range texts {
		if text == "[DONE]" {
			s.done = true
			continue
		}
		s.events++
		var e plainEvent
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			continue
		}
		s.event(t, &e, stream, cumulative, role)
	}
	if !stream {
		s.events = 0
	}
	return s
}

func (s *said) event(t *testing.T, e *plainEvent, stream bool, cumulative map[int]int, role map[int]bool) {
	t.Helper()
	s.failed = s.failed || e.Error != nil
	if s.id == "" {
		s.id = e.ID
	}
	if e.Usage != nil {
		s.hasUsage, s.completion, s.prompt = true, e.Usage.Completion_tokens, e.Usage.Prompt_tokens
	}
	if e.Metrics != nil && e.Metrics.Speculative_decoding != nil {
		s.block = e.Metrics.Speculative_decoding
		s.histogram = nil
		for _, n := range s.block["acceptance_histogram"].([]any) {
			s.histogram = append(s.histogram, int(n.(float64)))
		}
	}
	for _, c := range e.Choices {
		delta := c.Delta
		if delta == nil {
			delta = c.Message
		}
		text, isRole := "", false
		if delta != nil {
			isRole = delta.Role != nil
			text = str(delta.Content) + str(delta.Reasoning)
		}
		if c.Index == 0 {
			if delta != nil {
				s.reply += str(delta.Content)
				s.reasoning += str(delta.Reasoning)
			}
			s.reply += str(c.Text)
		}
		if c.Finish_reason != nil && (c.Index == 0 || s.finish == "") {
			s.finish, s.stop = *c.Finish_reason, ""
			switch v := c.Stop_reason.(type) {
			case string:
				s.stop = "string"
			case float64:
				s.stop = "token:" + itoa(int(v))
			}
		}
		if !stream || isRole && !role[c.Index] {
			role[c.Index] = true
			continue
		}
		tokens := 0
		switch {
		case e.Usage != nil:
			tokens = e.Usage.Completion_tokens - cumulative[c.Index]
			cumulative[c.Index] = e.Usage.Completion_tokens
		case c.Token_ids != nil:
			tokens = len(*c.Token_ids)
		case c.Logprobs != nil:
			tokens = len(c.Logprobs.Content) + len(c.Logprobs.Tokens)
		}
		// In these captures each event of a choice but the role event is an engine step.
		s.chunks = append(s.chunks, collector.Chunk{Tokens: tokens, Choice: c.Index})
		if e.Usage != nil && tokens == 0 && text == "" {
			t.Errorf("an event of choice %d without tokens: look at it", c.Index)
		}
	}
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestCapturesAgainstPlainReading compares the Record of every capture with a reading that shares
// no code with the tap. SPECTAP_CAPTURES_DIR adds a folder of captures.
func TestCapturesAgainstPlainReading(t *testing.T) {
	n := 0
	for _, dir := range captureFolders(t) {
		c, ok := readCapture(t, dir)
		if !ok || c.route != RouteChat && c.route != RouteCompletions {
			continue
		}
		n++
		t.Run(c.name, func(t *testing.T) { compareReadings(t, &c) })
	}
	t.Logf("%d captures compared", n)
}

func compareReadings(t *testing.T, c *capture) {
	r := c.replay(New(c.options()))
	s := plainReading(t, c)
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("id", r.ResponseID, s.id)
	check("events", r.Events, s.events)
	check("done", r.SawDone, s.done)
	check("reply", r.Reply, s.reply)
	check("reasoning", r.Reasoning, s.reasoning)
	check("finish", r.Finish, s.finish)
	check("stop reason", r.StopReason, s.stop)
	check("error", r.ErrorKind, wantError(c, &s))
	check("usage", r.Usage != nil, s.hasUsage)
	if r.Usage != nil && c.clean && r.ErrorKind == "" {
		check("completion tokens", r.Usage.CompletionTokens, s.completion)
		check("prompt tokens", r.Usage.PromptTokens, s.prompt)
	}
	compareChunks(t, r, &s)
	compareSpec(t, r, &s)
	for _, w := range r.Warnings {
		t.Errorf("warning %q", w)
	}
}

func wantError(c *capture, s *said) string {
	switch {
	case c.head.StatusCode >= 400:
		return collector.ErrHTTPStatus
	case s.failed:
		return collector.ErrInBand
	case !c.clean:
		return collector.ErrTruncated
	}
	return ""
}

func compareChunks(t *testing.T, r *collector.Record, s *said) {
	t.Helper()
	if len(r.Chunks) != len(s.chunks) {
		t.Fatalf("got %d chunks, want %d", len(r.Chunks), len(s.chunks))
	}
	for i, c := range r.Chunks {
		if c.Tokens != s.chunks[i].Tokens || c.Choice != s.chunks[i].Choice {
			t.Errorf("chunk %d: got %+v, want %+v", i, c, s.chunks[i])
		}
		if i > 0 && (c.At < r.Chunks[i-1].At || c.Shared != (c.At == r.Chunks[i-1].At)) {
			t.Errorf("chunk %d: %+v after %+v", i, c, r.Chunks[i-1])
		}
	}
	if want := len(r.Chunks) > 0; r.FirstOutput.Known != want || want && r.FirstOutput.Offset != r.Chunks[0].At {
		t.Errorf("first output %+v", r.FirstOutput)
	}
}

func compareSpec(t *testing.T, r *collector.Record, s *said) {
	t.Helper()
	if s.block == nil {
		if r.Spec != nil || r.SpecMissing == "" {
			t.Errorf("got block %v, reason %q; the capture has none", r.Spec, r.SpecMissing)
		}
		return
	}
	if r.Spec == nil {
		t.Fatalf("no block (%s)", r.SpecMissing)
	}
	got := []float64{float64(r.Spec.Steps), float64(r.Spec.AcceptedTokens), float64(r.Spec.DraftedTokens), float64(r.Spec.DraftLength)}
	for i, name := range []string{"num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens", "num_spec_tokens"} {
		if got[i] != s.block[name].(float64) {
			t.Errorf("%s: got %v, want %v", name, got[i], s.block[name])
		}
	}
	if !reflect.DeepEqual(r.Spec.Accepted, s.histogram) {
		t.Errorf("histogram: got %v, want %v", r.Spec.Accepted, s.histogram)
	}
	for name, list := range map[string][]int{"per_step_accepted": r.Spec.PerStepAccepted, "per_step_drafted": r.Spec.PerStepDrafted} {
		want, _ := json.Marshal(s.block[name])
		have, _ := json.Marshal(list)
		if !bytes.Equal(have, want) {
			t.Errorf("%s: got %s, want %s", name, have, want)
		}
	}
}
