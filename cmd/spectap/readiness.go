package main

import (
	"context"
	"sync"
	"time"
)

const (
	readinessAge   = 3 * time.Second // after which the engine is asked again
	readinessLimit = 5 * time.Second // of one question
)

// readiness remembers whether the engine was ready when it was asked last. It
// asks in the background and only while somebody wants to know.
type readiness struct {
	mu     sync.Mutex
	asked  time.Time
	asking bool
	answer string
	ended  sync.WaitGroup
}

// last returns why the engine was not ready; empty if it was, or was not asked
// yet. It does not wait.
func (r *readiness) last(ready func(context.Context) error) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asking || time.Since(r.asked) < readinessAge {
		return r.answer
	}
	r.asking = true
	r.ended.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), readinessLimit)
		defer cancel()
		answer := ""
		if err := ready(ctx); err != nil {
			answer = err.Error()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answer, r.asked, r.asking = answer, time.Now(), false
	})
	return r.answer
}

// wait returns when no question is on its way.
func (r *readiness) wait() { r.ended.Wait() }
