package deploy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	idleClose = 5 * time.Second       // after which the engine closes an idle connection
	aroundIt  = 10 * time.Millisecond // requests come so long before or behind it at most
	giveUps   = 100                   // one of so many requests is given up
	lastStart = 3 * time.Second       // before the end of a round no request starts
)

// client is one client of a soak. In each round it asks a short question at the
// same time as all others, so that all connections fall idle together, comes
// back when the engine closes them, and asks for streams until the round ends.
func (s *soak) client(t *testing.T, n int) {
	rng := rand.New(rand.NewPCG(uint64(n), 6))
	c := &caller{address: hostOf(s.proxy.URL)}
	defer func() { c.hangUp(false) }()
	list := soakPrompts()
	asked := 0
	id := func() string { asked++; return fmt.Sprintf("s%d-%d", n, asked) }
	for round := time.Duration(0); round < *soakFor; round += soakRound {
		end := s.start.Add(min(round+soakRound, *soakFor)).Add(-lastStart)
		time.Sleep(time.Until(s.start.Add(round)))
		if !s.stay(t, c, list[0], id()) {
			return
		}
		time.Sleep(idleClose - aroundIt + time.Duration(rng.Int64N(int64(2*aroundIt))))
		for first := true; first || time.Now().Before(end); first = false {
			one := list[1+rng.IntN(len(list)-1)]
			if rng.IntN(giveUps) == 0 {
				s.leave(t, c, one, id(), rng)
			} else if !s.stay(t, c, one, id()) {
				return
			}
		}
	}
}

// stay asks and reads the whole answer, which must be the engine's own. A proxy
// that keeps connections for longer than the engine may have a 502 for it.
func (s *soak) stay(t *testing.T, c *caller, p prompt, id string) bool {
	got, err := c.ask(p, id)
	if s.racy && err == nil && strings.HasPrefix(got, "502 ") && strings.Contains(got, "spectap_upstream_reset") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reset[id] = true
		return true
	}
	if err != nil || got != s.want[p] {
		t.Errorf("%s after %v: %v\n got %q\nwant %q", id, time.Since(s.start), err, got, s.want[p])
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stayed[id] = true
	return true
}

// leave asks and goes: before the head, behind it, or in the middle of the stream.
// A reset right behind the request can overtake it.
func (s *soak) leave(t *testing.T, c *caller, p prompt, id string, rng *rand.Rand) {
	reset, read := rng.IntN(2) == 0, p.stream && rng.IntN(3) > 0
	err := c.send(p, id)
	if err == nil && read {
		if resp, headErr := c.head(); headErr == nil {
			_, err = io.CopyN(io.Discard, resp.Body, int64(rng.IntN(600)))
		} else {
			err = headErr
		}
	}
	if err != nil {
		t.Errorf("%s, which is to be given up: %v", id, err)
	}
	c.hangUp(reset)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[id] = read || !reset
}
