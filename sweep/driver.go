package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"spectap/collector"
)

// asked is one request that ended.
type asked struct {
	id     string
	times  bool              // a baseline: times and the reply's tokens are enough
	rec    *collector.Record // nil: it was never recorded
	status int               // 0: no answer
	head   []byte            // the start of an answer with an error status
	err    error             // of the transport
}

// ask sends one request and reads its answer to the end. The Record is there
// by then: the proxy emits it before the answer ends.
func (s *Sweep) ask(ctx context.Context, t template, labels collector.Labels, id string, history []message) asked {
	a := asked{id: id, times: s.Plan.Config.Baseline}
	body, err := t.body(history)
	if err != nil {
		a.err = err
		return a
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.BaseURL+t.path(), bytes.NewReader(body))
	if err != nil {
		a.err = fmt.Errorf("cannot make request: %w", err)
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("X-Request-ID", id)
	req.Header.Set("Baggage", baggage(labels))
	s.authorize(req)
	resp, err := s.HTTP.Do(req)
	if err != nil {
		a.err = err
	} else {
		a.status = resp.StatusCode
		a.head, a.err = drain(resp)
	}
	a.rec = s.take(ctx, id, a.err == nil)
	return a
}

// drain reads a body to its end and keeps the start of an error's.
func drain(resp *http.Response) (head []byte, err error) {
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		if head, err = io.ReadAll(io.LimitReader(resp.Body, 600)); err != nil {
			return head, err
		}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return head, err
}

// take gets the Record. After a cut connection the end of the answer can be
// seen before the Record is there, so it is looked for again for a while.
func (s *Sweep) take(ctx context.Context, id string, clean bool) *collector.Record {
	tries := 200
	if clean {
		tries = 20
	}
	for range tries {
		if rec, ok := s.Records.Take(id); ok {
			return rec
		}
		if ctx.Err() != nil || s.sleep(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	rec, _ := s.Records.Take(id)
	return rec
}

// failure says why a request cannot be counted; nil where it can.
func (a asked) failure() error {
	switch {
	case a.rec == nil && a.err != nil:
		return fmt.Errorf("the connection to the proxy broke: %w", a.err)
	case a.rec == nil:
		return errors.New("the proxy has no Record of it")
	case a.rec.ErrorKind != "":
		if a.rec.Error != "" {
			return fmt.Errorf("%s: %s", a.rec.ErrorKind, a.rec.Error)
		}
		return errors.New(a.rec.ErrorKind)
	case a.status >= http.StatusBadRequest:
		return fmt.Errorf("status %d", a.status)
	case a.err != nil:
		return fmt.Errorf("the answer broke off: %w", a.err)
	case a.rec.Finish == "":
		return errors.New("the answer has no finish reason")
	case a.times && a.rec.Usage == nil && !hasCounts(a.rec):
		return errors.New("the server did not say how many tokens it made (usage)")
	case !a.times && !hasHistogram(a.rec) && !hasCounts(a.rec):
		return fmt.Errorf("neither statistics (%s) nor token counts on its events came; measure with --measure tokens", missing(a.rec))
	}
	return nil
}

// hasHistogram tells whether the engine's block gives accepted drafts by step.
func hasHistogram(r *collector.Record) bool { return r.Spec != nil && r.Spec.Accepted != nil }

// hasCounts tells whether events said how many tokens they brought, so that
// lengths can be taken from them.
func hasCounts(r *collector.Record) bool { return r.Stream && counted(r) > 0 }

// countsEvents tells whether the server counts on every event: one that only
// sends the total with the last event has a count, too, but no steps.
func countsEvents(r *collector.Record) bool {
	return r.Stream && counted(r) > len(r.Chunks)-counted(r)
}

// counted returns the number of chunks with a token count.
func counted(r *collector.Record) int {
	n := 0
	for _, c := range r.Chunks {
		if c.Tokens > 0 {
			n++
		}
	}
	return n
}

func missing(r *collector.Record) string {
	if r.SpecMissing != "" {
		return r.SpecMissing
	}
	return "no histogram"
}
