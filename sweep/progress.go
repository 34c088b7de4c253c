package sweep

import (
	"fmt"
	"io"
	"sync"
	"time"

	"spectap/collector"
)

// plainEvery is how often a line is printed where there is no terminal.
const plainEvery = 30 * time.Second

// progress shows how far a sweep is: on a terminal one line that is updated,
// otherwise a plain line every 30 s and at each point's end.
type progress struct {
	w        io.Writer // nil: silent
	terminal bool
	now      func() time.Time
	points   int        // of the sweep
	load     func() int // requests in flight; nil: those that began and did not end

	mu       sync.Mutex
	name     string // of the running point; "": none
	nth      int    // the running point, from 1
	since    time.Time
	total    int // requests of the point
	done     int
	failed   int
	inFlight int
	shown    bool // a line stands on the terminal, to be overwritten
	lastWait time.Time
}

func newProgress(w io.Writer, terminal bool, now func() time.Time) *progress {
	return &progress{w: w, terminal: terminal, now: now}
}

// start begins to print at intervals; the function it returns ends that.
func (p *progress) start() (stop func()) {
	if p.w == nil {
		return func() {}
	}
	every := plainEvery
	if p.terminal {
		every = 200 * time.Millisecond
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				p.show()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clear()
	}
}

// point counts a point that begins.
func (p *progress) point() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nth++
}

// stage begins the requests of a point, or those before it.
func (p *progress) stage(name string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.total, p.since = name, total, p.now()
	p.done, p.failed, p.inFlight = 0, 0, 0
}

func (p *progress) began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight++
}

// ended counts a request that ended well or not.
func (p *progress) ended(well bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.count(well)
}

// counted counts a request of another program, whose beginning was not told.
func (p *progress) counted(well bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(well)
}

func (p *progress) count(well bool) {
	p.done++
	if !well {
		p.failed++
	}
}

// show prints the running point's line.
func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		p.print(p.line(), p.terminal)
	}
}

// line says how far the running point is. The rest is estimated from its rate.
func (p *progress) line() string {
	elapsed := p.now().Sub(p.since).Seconds()
	name := p.name
	if p.points > 1 {
		name += fmt.Sprintf(" (point %d of %d)", p.nth, p.points)
	}
	text := fmt.Sprintf("%s  %d of %d requests", name, p.done, p.total)
	if elapsed > 0 && p.done > 0 {
		rate := float64(p.done) / elapsed
		left := time.Duration(float64(p.total-p.done) / rate * float64(time.Second))
		text += fmt.Sprintf(", %.1f/s, %v left", rate, left.Round(time.Second))
	}
	inFlight := p.inFlight
	if p.load != nil {
		inFlight = p.load()
	}
	return text + fmt.Sprintf(", %d in flight, %d failed", inFlight, p.failed)
}

// pointDone prints the result of a point in one line.
func (p *progress) pointDone(r pointResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.now().Sub(p.since).Round(100 * time.Millisecond)
	p.name = ""
	if r.failed != nil {
		p.print(fmt.Sprintf("%s  failed after %v: %s", r.point.Name, took, r.failed.Reason), false)
		return
	}
	p.print(fmt.Sprintf("%s  done in %v: %s%.1f tok/s", r.point.Name, took, averageText(r.summary), r.summary.OutputTPS), false)
}

// averageText is the acceptance length for a line; "" of a baseline.
func averageText(s collector.Summary) string {
	if s.Baseline {
		return ""
	}
	return fmt.Sprintf("Average_AL %.3f, ", s.AverageAL)
}

// note prints a line of its own.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(text, false)
}

// wait says what is waited for; without a terminal at the start and every 30 s.
func (p *progress) wait(why string, waited, most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal && !p.lastWait.IsZero() && p.now().Sub(p.lastWait) < plainEvery {
		return
	}
	p.lastWait = p.now()
	p.print(fmt.Sprintf("waiting for the server: %s (%v of %v, --wait)", why, waited.Round(time.Second), most), p.terminal)
}

// print writes a line; a passing one is overwritten by the next.
func (p *progress) print(text string, passing bool) {
	if p.w == nil {
		return
	}
	p.clear()
	if passing {
		fmt.Fprint(p.w, text)
		p.shown = true
		return
	}
	fmt.Fprintln(p.w, text)
}

// aside runs print, which writes a line of its own to the same terminal.
func (p *progress) aside(print func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	print()
}

// clear removes the passing line (carriage return, erase to the end of the line).
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
