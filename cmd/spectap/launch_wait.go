package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// How often a server that starts is asked, and how often that is told where
// there is no terminal.
const (
	healthPoll  = 250 * time.Millisecond
	healthLimit = 5 * time.Second // of one question
	tellEvery   = 30 * time.Second
)

// wait waits until the server answers /health. It ends at once when the server's
// process does, and after the time limit.
func (l *launch) wait(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.StartupTimeout,
		fmt.Errorf("the server did not become ready within %v; give it longer with --startup_timeout", l.cfg.StartupTimeout))
	defer cancel()
	go func() { // a question under way is not waited for
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: noRedirect}
	start, tick := time.Now(), time.NewTicker(healthPoll)
	defer tick.Stop()
	told := progressLine{w: l.p.stderr, terminal: isTerminal(l.p.stderr)}
	defer told.clear()
	for {
		why, healthy := l.health(ctx, client)
		switch {
		case s.hasEnded(): // even where another process answers on its port
			return s.gone()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case healthy:
			return nil
		}
		told.say(time.Now(), fmt.Sprintf("waiting for the server: %s (%v of %v; log in %s)",
			why, time.Since(start).Round(time.Second), l.cfg.StartupTimeout, s.log))
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// health asks once. A server without /health answers 404 there, and is up.
func (l *launch) health(ctx context.Context, client *http.Client) (why string, healthy bool) {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.plan.Config.URL+"/health", nil)
	if err != nil {
		return err.Error(), false
	}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer yet", false
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Sprintf("/health answers %d", resp.StatusCode), false
	}
	return "", true
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// progressLine is one line that is updated on a terminal, else a plain line at
// the start and every 30 s.
type progressLine struct {
	w        io.Writer
	terminal bool
	last     time.Time // of the last plain line
	shown    bool
}

func (p *progressLine) say(now time.Time, text string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.shown = true
		return
	}
	if p.last.IsZero() || now.Sub(p.last) >= tellEvery {
		fmt.Fprintln(p.w, text)
		p.last = now
	}
}

// clear removes the line from a terminal.
func (p *progressLine) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
