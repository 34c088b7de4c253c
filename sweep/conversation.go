package sweep

import (
	"context"
	"strconv"
	"sync"

	"spectap/collector"
)

// failedRequest is what error.json says of one request. It has no content.
type failedRequest struct {
	Conversation int    `json:"conversation"`
	Question     string `json:"question_id"`
	Turn         int    `json:"turn"`
	RequestID    string `json:"x_request_id"`
	Status       int    `json:"status"`
	Kind         string `json:"error_kind"`
	Error        string `json:"error"`
}

// load asks the conversations of one point, or follows another program that does.
type load struct {
	sweep     *Sweep
	template  template
	point     PlannedPoint
	questions []collector.Question
	schedule  *collector.Schedule     // of an open loop; nil: closed
	warmup    bool                    // the conversations are no part of the point
	keep      func(*collector.Record) // called for each Record, from many goroutines

	mu     sync.Mutex
	failed []failedRequest
}

// run asks all conversations in data-set order: at the moments of a schedule or,
// without one, as many at a time as the point's concurrency. A permit is held for
// a whole conversation, without think time, as specdec_bench's run_loop does. It
// returns when all have ended; after ctx is cancelled no further one starts.
func (l *load) run(ctx context.Context) {
	if l.schedule != nil {
		l.arrive(ctx)
		return
	}
	permits := make(chan struct{}, l.point.Own)
	var all sync.WaitGroup
	defer all.Wait()
	for i, q := range l.questions {
		if q.NotAsked {
			continue
		}
		select {
		case permits <- struct{}{}:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			defer func() { <-permits }()
			l.converse(ctx, i)
		})
	}
}

// converse asks the turns of one conversation; a failed turn ends it.
func (l *load) converse(ctx context.Context, i int) {
	q := l.questions[i]
	var history []message
	if q.System != "" {
		history = append(history, message{"system", q.System})
	}
	for turn, prompt := range q.Prompts {
		if ctx.Err() != nil {
			return
		}
		history = append(history, message{"user", prompt})
		l.sweep.progress.began()
		a := l.sweep.ask(ctx, l.template, l.labels(i, turn), l.requestID(i, turn), history)
		if a.rec != nil {
			l.keep(a.rec)
		}
		err := a.failure()
		l.sweep.progress.ended(err == nil)
		if err != nil {
			l.fail(ctx, i, turn, a, err)
			return
		}
		reply, err := collector.Postprocess(l.sweep.Plan.Config.Postprocess, a.rec.ReplyText())
		if err != nil {
			l.fail(ctx, i, turn, a, err)
			return
		}
		history = append(history, message{"assistant", reply})
	}
}

func (l *load) labels(i, turn int) collector.Labels {
	q := l.questions[i]
	labels := collector.Labels{
		Run: l.sweep.runID, Point: l.point.Name, Conversation: strconv.Itoa(i),
		Question: questionText(q.ID), Category: q.Category, Turn: turn, HasTurn: true,
	}
	if l.warmup {
		labels.Point = collector.ApartWarmup
	}
	return labels
}

func (l *load) requestID(i, turn int) string {
	id := l.sweep.runID + "-" + l.point.Name + "-"
	if l.warmup {
		id += "warmup-"
	}
	return id + strconv.Itoa(i) + "-" + strconv.Itoa(turn)
}

// failedText is the log's message about a failed request.
func (l *load) failedText() string {
	if l.warmup {
		return "request of the warm-up failed"
	}
	return "request failed"
}

// fail notes a failed request, unless the sweep is being stopped.
func (l *load) fail(ctx context.Context, i, turn int, a asked, err error) {
	if ctx.Err() != nil {
		return
	}
	f := failedRequest{Conversation: i, Question: questionText(l.questions[i].ID), Turn: turn, RequestID: a.id, Status: a.status, Error: err.Error()}
	if a.rec != nil {
		f.Kind = a.rec.ErrorKind
	}
	l.sweep.progress.aside(func() {
		l.sweep.Log.Warn().Str("point", l.point.Name).Int("conversation", i).Int("turn", turn).Int("status", a.status).
			Str("x_request_id", a.id).Err(err).Msg(l.failedText())
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, f)
}
