package sweep

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
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
	s.progress.load = s.InFlight
	result := Result{Dir: s.Plan.Config.SaveDir, Warnings: s.Plan.Warnings}
	if s.Plan.Config.DryRun {
		return result, s.Plan.Describe(s.Progress)
	}
	for _, w := range s.Plan.Warnings {
		s.Log.Warn().Msg(w)
	}
	stop := s.progress.start()
	defer stop()
	err := s.runLocked(ctx, &result)
	result.inOrder(s.Plan.Points)
	result.pool()
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
	text := "interrupted: complete points are kept; to go on, run the same command with --resume"
	var aside keptAside
	if errors.As(e.cause, &aside) {
		text += fmt.Sprintf("; the records of %s, which was running, are in %s", aside.point, aside.dir)
	}
	return text
}

// Unwrap gives the cause to errors.Is.
func (e interrupted) Unwrap() error { return e.cause }

// runLocked runs the points that are missing, with the folder to itself. Those that
// are kept are in the result from the start.
func (s *Sweep) runLocked(ctx context.Context, result *Result) (err error) {
	for _, point := range s.Plan.Points {
		result.NotRun = append(result.NotRun, point.Name)
	}
	lock, warning, err := s.lockFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if warning != "" {
		s.warn(warning)
	}
	k, err := s.takeStock(result)
	if err != nil {
		return err
	}
	todo := k.missing(s.Plan.Points)
	s.progress.points = len(todo)
	if len(todo) == 0 {
		return k.complete(s)
	}
	return s.runPoints(ctx, result, k, todo)
}

// takeStock finds what is in the folder, now that nobody else writes there.
func (s *Sweep) takeStock(result *Result) (kept, error) {
	if !s.Plan.Config.Resume {
		book, _, _ := readBook(s.Plan.Config.SaveDir) // one that cannot be read says nothing
		return kept{book: book}, nil
	}
	k, err := s.Plan.findKept()
	if err != nil {
		return k, fmt.Errorf("%w:\n%w", ErrUsage, err)
	}
	removeTrials(s.Plan.Config.SaveDir)
	result.NotRun = nil
	var names []string
	for _, point := range s.Plan.Points {
		if row, ok := k.rows[point.Name]; ok {
			result.Summaries = append(result.Summaries, row.Summary)
			names = append(names, point.Name)
		} else {
			result.NotRun = append(result.NotRun, point.Name)
		}
		if warning := k.warnings[point.Name]; warning != "" {
			s.warn(warning)
		}
		if why := k.damaged[point.Name]; why != "" {
			s.warn(fmt.Sprintf("point %s is not kept, it is set aside and runs again: its files are damaged: %s", point.Name, why))
		}
	}
	if len(names) > 0 {
		text := fmt.Sprintf("kept, because complete: %d of %d points (%s)", len(names), len(s.Plan.Points), strings.Join(names, ", "))
		if len(result.NotRun) == 0 {
			text += "; the server was not asked"
		}
		s.progress.note(text)
	}
	return k, nil
}

// warn adds to the sweep's warnings.
func (s *Sweep) warn(text string) {
	s.Plan.Warnings = append(s.Plan.Warnings, text)
	s.Log.Warn().Msg(text)
}

// open waits for the server, learns what it is, and begins the book.
func (s *Sweep) open(ctx context.Context, k kept) (srv server, b *book, earlier before, err error) {
	if err = s.prepareDriver(ctx); err != nil {
		return
	}
	if srv, err = s.connect(ctx); err != nil {
		return
	}
	if earlier, err = s.preflight(ctx, &srv); err != nil {
		return
	}
	srv.learn(earlier)
	warnings, err := k.sameServer(s.Plan, s.bookPlan(srv), s.bookServer(srv))
	if err != nil {
		return
	}
	for _, w := range append(warnings, s.mixed(k, srv)...) {
		s.warn(w)
	}
	b = s.newBook(srv, k)
	return srv, b, earlier, b.write()
}

// runPoints fills the result, point by point.
func (s *Sweep) runPoints(ctx context.Context, result *Result, k kept, todo []PlannedPoint) error {
	srv, book, earlier, err := s.open(ctx, k)
	if err != nil {
		return err
	}
	for i, point := range todo {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i > 0 { // a server that was restarted would fail all points that are left
			cards, err := s.ready(ctx)
			if err != nil {
				return err
			}
			if err := s.unchanged(ctx, srv, cards); err != nil {
				return err
			}
		}
		if s.Plan.Config.Resume {
			if err := setAside(s.Plan.Config.SaveDir, point.Name, k.damaged[point.Name]); err != nil {
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

// pool sums up the runs of the points that ran more than once.
func (r *Result) pool() {
	var rows []bookRow
	for _, s := range r.Summaries {
		rows = append(rows, bookRow{State: stateComplete, Folder: s.Point, Summary: s})
	}
	r.Repeats = (&pool{dir: r.Dir}).repeats(rows)
}

// inOrder puts the complete points into the plan's order, those that were kept and
// those that ran.
func (r *Result) inOrder(points []PlannedPoint) {
	place := map[string]int{}
	for i, p := range points {
		place[p.Name] = i
	}
	slices.SortStableFunc(r.Summaries, func(a, b collector.Summary) int { return place[a.Point] - place[b.Point] })
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
