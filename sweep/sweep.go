package sweep

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// Records is where the measuring proxy puts a request's Record before the
// answer ends. Take removes and returns it; TakeAll does so with all that are there.
type Records interface {
	Take(requestID string) (*collector.Record, bool)
	TakeAll() []*collector.Record
}

// Sweep runs a Plan against one server through a measuring proxy.
type Sweep struct {
	Plan     *Plan
	HTTP     *http.Client // dials the proxy
	BaseURL  string       // http://host, in front of the paths
	Records  Records      // with the texts of prompts and replies
	LoadURL  string       // the proxy on a TCP port, for a driver that is another program; "" with the built-in one
	InFlight func() int   // requests that the proxy is serving; nil: the sweep counts its own
	Progress io.Writer    // nil: no progress
	Terminal bool         // Progress is a terminal: one line that is updated
	Log      zerolog.Logger
	Now      func() time.Time // nil: time.Now

	// LastAct takes what is still to be done if the process ends at once, until
	// forget is called; nil where it never does.
	LastAct func(act func()) (forget func())

	pause    func(context.Context, time.Duration) error               // nil: waits; tests do not
	write    func(collector.Point, string) (collector.Summary, error) // nil: collector.Point.Write
	progress *progress
	runID    string
	aiperf   aiperfTool    // of DriverAIPerf
	limits   *aiperfLimits // nil: defaultAIPerfLimits; tests shorten them
}

// Run waits for the server, checks that it tells what is needed, and runs the
// points one after another. The Result is valid beside an error: it holds the
// points that are complete and names those that were not run.
func (s *Sweep) Run(ctx context.Context) (Result, error) {
	s.runID = newRunID(s.now())
	s.progress = newProgress(s.Progress, s.Terminal, s.now)
	s.progress.points, s.progress.load = len(s.Plan.Points), s.InFlight
	result := Result{Dir: s.Plan.Config.SaveDir, Warnings: s.Plan.Warnings}
	if s.Plan.Config.DryRun {
		return result, s.Plan.Describe(s.Progress)
	}
	for _, w := range s.Plan.Warnings {
		s.Log.Warn().Msg(w)
	}
	stop := s.progress.start()
	defer stop()
	for _, point := range s.Plan.Points {
		result.NotRun = append(result.NotRun, point.Name)
	}
	err := s.runPoints(ctx, &result)
	result.Warnings = s.Plan.Warnings // the driver may have added some
	if errors.Is(err, context.Canceled) {
		err = interrupted{err}
	}
	return result, err
}

// interrupted says what to do next; the cancelled context behind it says nothing to people.
type interrupted struct{ cause error }

// Error implements error.
func (e interrupted) Error() string {
	return "interrupted: complete points are kept; to go on, ask for the points that were not run, with the same --save_dir"
}

// Unwrap gives the cause to errors.Is.
func (e interrupted) Unwrap() error { return e.cause }

// runPoints fills the result, point by point.
func (s *Sweep) runPoints(ctx context.Context, result *Result) error {
	if err := s.prepareDriver(ctx); err != nil {
		return err
	}
	srv, err := s.connect(ctx)
	if err != nil {
		return err
	}
	earlier, err := s.preflight(ctx, &srv)
	if err != nil {
		return err
	}
	book := s.newBook(srv)
	for i, point := range s.Plan.Points {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 { // a server that was restarted would fail all points that are left
			if _, err := s.ready(ctx); err != nil {
				return err
			}
		}
		done, err := s.runPoint(ctx, srv, point, earlier)
		if err != nil {
			return err
		}
		earlier = before{}
		result.NotRun = result.NotRun[1:]
		result.add(done)
		s.progress.pointDone(done)
		if err := book.add(done); err != nil {
			return err
		}
	}
	return nil
}

func (r *Result) add(done pointResult) {
	if done.failed != nil {
		r.Failed = append(r.Failed, *done.failed)
		return
	}
	r.Summaries = append(r.Summaries, done.summary)
}

func (s *Sweep) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// sleep waits, or returns early with the context's error.
func (s *Sweep) sleep(ctx context.Context, d time.Duration) error {
	if s.pause != nil {
		return s.pause(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *Sweep) writePoint(p collector.Point, dir string) (collector.Summary, error) {
	if s.write != nil {
		return s.write(p, dir)
	}
	return p.Write(dir)
}

// newRunID returns a unique name of a run that sorts by time.
func newRunID(now time.Time) string {
	return now.UTC().Format("20060102T150405Z") + "-" + randomHex(4)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
