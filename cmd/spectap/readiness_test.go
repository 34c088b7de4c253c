package main

import (
	"context"
	"errors"
	"testing"
)

// An answer is remembered, and nobody waits for it: one question at a time.
func TestReadinessDoesNotWait(t *testing.T) {
	var r readiness
	asked, answer := make(chan struct{}, 10), make(chan error)
	ready := func(context.Context) error {
		asked <- struct{}{}
		return <-answer
	}
	for range 3 {
		if got := r.last(ready); got != "" {
			t.Errorf("got %q before any answer, want nothing", got)
		}
	}
	<-asked
	answer <- errors.New("upstream is not healthy")
	r.wait()
	if got := r.last(ready); got != "upstream is not healthy" {
		t.Errorf("got %q, want the answer", got)
	}
	if len(asked) != 0 {
		t.Error("the engine was asked again at once")
	}
	r.asked = r.asked.Add(-readinessAge)
	if got := r.last(ready); got != "upstream is not healthy" {
		t.Errorf("got %q while asking again, want the last answer", got)
	}
	<-asked
	answer <- nil
	r.wait()
	if got := r.last(ready); got != "" {
		t.Errorf("got %q from an engine that is ready, want nothing", got)
	}
}
