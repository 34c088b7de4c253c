package telemetry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// batching are the standard variables OTEL_BSP_*.
type batching struct {
	queue, batch   int
	delay, timeout time.Duration
}

func (s *settings) batching() batching {
	b := batching{
		queue:   s.count("OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1),
		batch:   s.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, 1),
		delay:   s.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second),
		timeout: s.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30*time.Second),
	}
	b.batch = min(b.batch, b.queue)
	return b
}

// batcher is a sdktrace.SpanProcessor that exports in batches from one
// goroutine. The SDK's own is not used: it counts what it drops in a field that
// nobody can read, reports failures to a global handler that prints them, and
// after Shutdown's time is over its goroutine goes on exporting, a batch each 30
// seconds. This one counts every span exactly once and ends when it is told to.
//
//	OnEnd ──▶ queue ──▶ batch ──▶ exporter
//	   └ full: dropped      └ error: failed
type batcher struct {
	exporter sdktrace.SpanExporter
	batching
	report  func(error) // told of every failed export
	ended   chan sdktrace.ReadOnlySpan
	stop    chan struct{}
	done    chan struct{}
	ctx     context.Context // of exports; cut ends it
	cut     context.CancelFunc
	stopped atomic.Bool
	once    sync.Once

	exported, failed, dropped atomic.Uint64
}

func newBatcher(exporter sdktrace.SpanExporter, b batching, report func(error)) *batcher {
	p := &batcher{
		exporter: exporter, batching: b, report: report,
		ended: make(chan sdktrace.ReadOnlySpan, b.queue), stop: make(chan struct{}), done: make(chan struct{}),
	}
	p.ctx, p.cut = context.WithCancel(context.Background())
	go p.run()
	return p
}

// OnStart implements sdktrace.SpanProcessor.
func (p *batcher) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (p *batcher) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if p.stopped.Load() {
		p.dropped.Add(1)
		return
	}
	select {
	case p.ended <- span:
	default:
		p.dropped.Add(1)
	}
}

// ForceFlush implements sdktrace.SpanProcessor; nothing of ours calls it.
func (p *batcher) ForceFlush(context.Context) error { return nil }

// run collects and exports until the queue is empty and stop is closed.
func (p *batcher) run() {
	defer close(p.done)
	defer p.cut()
	tick := time.NewTicker(p.delay)
	defer tick.Stop()
	batch := make([]sdktrace.ReadOnlySpan, 0, p.batch)
	for {
		select {
		case span := <-p.ended:
			if batch = append(batch, span); len(batch) == p.batch {
				batch = p.export(batch)
				tick.Reset(p.delay)
			}
		case <-tick.C:
			batch = p.export(batch)
		case <-p.stop:
			p.drain(batch)
			return
		}
	}
}

// drain exports what is left, as long as there is time, and counts the rest.
func (p *batcher) drain(batch []sdktrace.ReadOnlySpan) {
	for more := true; more && p.ctx.Err() == nil; {
		select {
		case span := <-p.ended:
			if batch = append(batch, span); len(batch) == p.batch {
				batch = p.export(batch)
			}
		default:
			batch, more = p.export(batch), false
		}
	}
	p.dropped.Add(uint64(len(batch) + len(p.ended)))
	if err := p.exporter.Shutdown(p.ctx); err != nil && p.ctx.Err() == nil {
		p.report(err)
	}
}

// export sends a batch and returns it empty, whatever came of it: trying again
// is the exporter's business.
func (p *batcher) export(batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	if len(batch) == 0 {
		return batch
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	err := guarded(func() error { return p.exporter.ExportSpans(ctx, batch) })
	refused := uint64(len(batch))
	if n, partial := rejected(err); err == nil || partial {
		refused = min(n, refused)
	}
	p.exported.Add(uint64(len(batch)) - refused)
	p.failed.Add(refused)
	if err != nil {
		p.report(err)
	}
	clear(batch) // or the spans live until the next batch
	return batch[:0]
}

// lastMoment is how long a cut export may take to return.
const lastMoment = 100 * time.Millisecond

// Shutdown implements sdktrace.SpanProcessor. When ctx ends first, the running
// export is cut, and what is left is dropped and counted.
func (p *batcher) Shutdown(ctx context.Context) error {
	p.once.Do(func() {
		p.stopped.Store(true)
		close(p.stop)
	})
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.cut()
	select {
	case <-p.done:
	case <-time.After(lastMoment): // an exporter that does not listen: a console that nobody reads
	}
	return errors.New("cannot export all spans in time")
}
