package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"spectap/collector"
)

// aiperfLimits are how long AIPerf may take for what it does without the server.
type aiperfLimits struct {
	start time.Duration // to its first request; errors at its start may leave it hanging
	end   time.Duration // from its last answer to its end
	grace time.Duration // from our signal to its end; its exports take up to 4 s
	early time.Duration // the same before its first request: it may take no notice while it starts, and has nothing to export
	look  time.Duration // between two looks at the Records
}

var defaultAIPerfLimits = aiperfLimits{start: 5 * time.Minute, end: 2 * time.Minute, grace: 20 * time.Second, early: 3 * time.Second, look: 50 * time.Millisecond}

// driveAIPerf runs one point with the real AIPerf:
//
//	conversations.jsonl ─▶ aiperf profile ─▶ proxy ─▶ server
//	                           │                └─▶ Records ─▶ labels by question
//	                           └─▶ profile_export.jsonl, profile_export_aiperf.json
//
// Its exit code says nothing: it is 0 with failed, cancelled and aborted runs
// too. What it exported and our Records are judged instead.
func (s *Sweep) driveAIPerf(ctx context.Context, l *load, srv server, dir string) (outcome, error) {
	abs, err := filepath.Abs(filepath.Join(dir, aiperfFolder))
	if err != nil {
		return outcome{}, fmt.Errorf("cannot name AIPerf's folder: %w", err)
	}
	files := aiperfFiles{dir: abs}
	if err := files.writeInput(s.Plan.Questions); err != nil {
		return outcome{}, err
	}
	args, err := s.aiperfArgs(l, srv, files)
	if err != nil {
		return outcome{}, err
	}
	s.Records.TakeAll() // what a foreign client left
	m := newMatcher(l, s.runID)
	end, err := s.runAIPerf(ctx, args, files, m)
	if err != nil || ctx.Err() != nil {
		return outcome{}, err
	}
	return s.judgeAIPerf(ctx, files, m, end)
}

// aiperfEnd is how AIPerf ended.
type aiperfEnd struct {
	exit   error  // of the process
	forced string // why we ended it; "": it ended by itself
}

// runAIPerf starts AIPerf and follows its requests until it has ended.
func (s *Sweep) runAIPerf(ctx context.Context, args []string, files aiperfFiles, m *matcher) (aiperfEnd, error) {
	temporary, err := os.MkdirTemp("", "spectap-aiperf-")
	if err != nil {
		return aiperfEnd{}, fmt.Errorf("cannot make a folder for AIPerf's temporary files: %w; set TMPDIR", err)
	}
	defer os.RemoveAll(temporary)
	output, err := os.Create(files.output())
	if err != nil {
		return aiperfEnd{}, fmt.Errorf("cannot keep AIPerf's output: %w", err)
	}
	defer output.Close()
	cmd := exec.Command(s.aiperf.path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = aiperfEnv(s.Plan.Config.Env, temporary), output, output
	ownGroup(cmd)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends after the process (ownGroup)
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return aiperfEnd{}, fmt.Errorf("cannot start AIPerf: %w", err)
	}
	if s.LastAct != nil {
		defer s.LastAct(func() {
			killGroup(cmd) // SIGTERM alone, which a dead sweep sends, can leave children
			_ = os.RemoveAll(temporary)
		})()
	}
	return s.followAIPerf(ctx, cmd, ended, m), nil
}

// followAIPerf takes Records while AIPerf runs, and ends it when the sweep is
// stopped or when it hangs.
func (s *Sweep) followAIPerf(ctx context.Context, cmd *exec.Cmd, ended <-chan error, m *matcher) aiperfEnd {
	limits := s.aiperfLimits()
	tick := time.NewTicker(limits.look)
	defer tick.Stop()
	last := time.Now() // of the last sign of life
	for {
		select {
		case err := <-ended:
			return aiperfEnd{exit: err}
		case <-ctx.Done():
			return aiperfEnd{exit: endAIPerf(cmd, ended, s.graceOf(m, limits)), forced: "the sweep was stopped"}
		case <-tick.C:
		}
		n := m.takeAll(ctx, s.Records)
		if n > 0 || s.InFlight != nil && s.InFlight() > 0 {
			last = time.Now()
		}
		if why := m.hangs(time.Since(last), limits); why != "" {
			return aiperfEnd{exit: endAIPerf(cmd, ended, limits.grace), forced: why}
		}
	}
}

// graceOf is how long AIPerf has to end, by whether it has asked anything.
func (s *Sweep) graceOf(m *matcher, limits aiperfLimits) time.Duration {
	if m.missing() >= m.expected() && (s.InFlight == nil || s.InFlight() == 0) {
		return min(limits.early, limits.grace)
	}
	return limits.grace
}

// endAIPerf sends the parent one SIGINT, on which it cuts its requests and
// writes its exports, and kills its whole group where it has not ended in time.
// A second SIGINT, and SIGTERM, would lose the exports.
func endAIPerf(cmd *exec.Cmd, ended <-chan error, grace time.Duration) error {
	_ = cmd.Process.Signal(os.Interrupt) // fails where it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		killGroup(cmd) // its children may outlive it
		return err
	case <-timer.C:
		killGroup(cmd)
		return <-ended
	}
}

// judgeAIPerf reads the exports and decides whether the point is complete.
func (s *Sweep) judgeAIPerf(ctx context.Context, files aiperfFiles, m *matcher, end aiperfEnd) (outcome, error) {
	export, err := files.read()
	if err != nil && isDiskError(err) {
		return outcome{}, err
	}
	for range 40 { // the Record of a request that broke may come after AIPerf's end
		m.takeAll(ctx, s.Records)
		if m.missing() == 0 && (s.InFlight == nil || s.InFlight() == 0) || s.sleep(ctx, 25*time.Millisecond) != nil {
			break
		}
	}
	m.settle(ctx, export)
	o := outcome{aiperf: export, warnings: m.warnings()}
	switch {
	case end.forced != "":
		o.reason = end.forced
	case err != nil:
		o.reason = err.Error()
	case export == nil:
		o.reason = fmt.Sprintf("AIPerf ended (%v) without %s%s", exitText(end.exit), collector.FileAIPerfSummary, startError(files, m))
	default:
		o.reason = export.Failure(m.expected())
	}
	if o.reason != "" {
		o.reason += "; its output is in " + filepath.Join(aiperfFolder, filepath.Base(files.output()))
	}
	return o, nil
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// ReadAIPerf reads what AIPerf wrote beside a point's files; nil where it did not drive the point.
func ReadAIPerf(pointFolder string) (*collector.AIPerf, error) {
	return aiperfFiles{filepath.Join(pointFolder, aiperfFolder)}.read()
}

// read returns nil where there is no summary.
func (f aiperfFiles) read() (*collector.AIPerf, error) {
	summary, err := os.ReadFile(f.summary())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read AIPerf's summary: %w", err)
	}
	rows, err := os.ReadFile(f.rows())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read AIPerf's rows: %w", err)
	}
	export, err := collector.ParseAIPerf(summary, rows)
	if err != nil {
		return nil, err
	}
	return &export, nil
}

func (s *Sweep) aiperfLimits() aiperfLimits {
	if s.limits != nil {
		return *s.limits
	}
	return defaultAIPerfLimits
}
