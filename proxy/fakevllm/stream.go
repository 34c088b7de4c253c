package fakevllm

import (
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

var errClosed = errors.New("engine closed")

// generation is one request that is being answered. Its one goroutine is the
// connection's: as a fasthttp body stream it writes one event per Write, and
// fasthttp makes one chunk and one flush of each.
type generation struct {
	e       *Engine
	r       *request
	refused *apiError // comes in-band, before any token
	plans   []*plan
	sent    []cursor // per choice
	tally   *tally
	truth   *Truth
	created int64
	out     *wire
	buf     []byte
}

// cursor is how far a choice was sent.
type cursor struct {
	step   int // the next step
	tokens int
	held   []token // executed, not yet in an event
	text   string
	begun  bool
}

func (e *Engine) newGeneration(r *request, conn net.Conn, path string, now time.Time) *generation {
	g := &generation{e: e, r: r, created: now.Unix(), truth: newTruth(r, path, now)}
	g.tally = &tally{histogram: make([]int, e.cfg.DraftLength+1), chunks: []int{}, accepted: []int{}}
	g.sent = make([]cursor, r.choices())
	g.out = &wire{conn: conn, fault: r.fault, truth: g.truth, done: e.done}
	for i := range r.choices() {
		g.plans = append(g.plans, newPlan(&e.cfg, r, i))
		g.truth.BlockDropped = g.truth.BlockDropped || g.plans[i].dropped
	}
	g.truth.ReplySHA = shortSHA(g.plans[0].text)
	return g
}

// reports says whether the answer carries a statistics block.
func (g *generation) reports() bool {
	return len(g.plans) == 1 && g.plans[0].reports() && !g.e.cfg.NoSpecStats && g.r.fault.name != "nostats"
}

// Read is never called: SupportsBodyWriteTo says that WriteTo is used.
func (g *generation) Read([]byte) (int, error) { return 0, io.EOF }

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (g *generation) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the stream. An error makes fasthttp close the connection
// without the last chunk.
func (g *generation) WriteTo(w io.Writer) (int64, error) {
	g.out.w = w
	err := g.stream()
	g.end(err)
	return g.out.written, err
}

func (g *generation) stream() error {
	if g.refused != nil {
		return errors.Join(g.out.event(g.refused.event(), false), g.out.finish())
	}
	if err := g.run(g.emit); err != nil {
		return err
	}
	if g.r.includeUsage() && !g.out.failed {
		if err := g.out.event(g.usageEvent(), false); err != nil {
			return err
		}
	}
	return g.out.finish()
}

// run executes the steps of all choices, a step of each at a time, and calls
// emit after each.
func (g *generation) run(emit func(choice int) error) error {
	defer g.e.enter(g.truth.PromptTokens)()
	if err := g.e.sleep(g.e.cfg.Prefill + time.Duration(g.truth.PromptTokens)*g.e.cfg.PrefillPerToken); err != nil {
		return err
	}
	for step := 0; ; step++ {
		live := false
		for i, p := range g.plans {
			if step >= len(p.steps) {
				continue
			}
			live = live || step < len(p.steps)-1
			g.execute(i)
			if err := emit(i); err != nil {
				return err
			}
		}
		if !live {
			return nil
		}
		if err := g.e.sleep(g.e.stepTime()); err != nil {
			return err
		}
	}
}

// execute runs one step of choice i.
func (g *generation) execute(i int) {
	c, p := &g.sent[i], g.plans[i]
	g.tally.add(p, c.step)
	g.e.count.step(p.steps[c.step].step)
	c.held = append(c.held, p.steps[c.step].tokens...)
	c.text += p.steps[c.step].text
	c.step++
	if c.step == len(p.steps) {
		g.e.count.finish(p.finish)
	}
}

// emit writes what choice i holds: at once for the first and the last step, else
// when a stream interval of tokens has piled up. Where the block is dropped, the
// last step but one waits for the last.
func (g *generation) emit(i int) error {
	c, p := &g.sent[i], g.plans[i]
	left := len(p.steps) - c.step
	interval := max(g.r.Interval, g.e.cfg.StreamInterval)
	if left > 0 && c.begun && len(c.held) < interval || left == 1 && p.dropped {
		return nil
	}
	if err := g.roles(); err != nil {
		return err
	}
	c.tokens += len(c.held)
	err := g.out.event(g.contentEvent(i), true)
	c.held, c.text, c.begun = c.held[:0], "", true
	return err
}

// roles writes a chat's role events, one per choice, with the first output.
func (g *generation) roles() error {
	if !g.r.chat || g.sent[0].begun {
		return nil
	}
	for i := range g.plans {
		if err := g.out.event(g.roleEvent(i), false); err != nil {
			return err
		}
	}
	return nil
}

func (g *generation) begin(i int) []byte {
	object := "text_completion"
	if g.r.chat {
		object = "chat.completion.chunk"
	}
	b := g.appendHead(append(g.buf[:0], "data: "...), object)
	if i < 0 {
		return b
	}
	return strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
}

// close ends an event and keeps its buffer for the next.
func (g *generation) close(b []byte) []byte {
	g.buf = append(b, "}\n\n"...)
	return g.buf
}

func (g *generation) roleEvent(i int) []byte {
	b := append(g.begin(i), `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	b = g.appendContinuous(b, 0)
	b = g.appendPromptIDs(append(b, `,"prompt_token_ids":`...), 0)
	return g.close(append(b, `,"prompt_text":null`...))
}

func (g *generation) contentEvent(i int) []byte {
	c, p := &g.sent[i], g.plans[i]
	finish, reason := "", any(nil)
	if c.step == len(p.steps) {
		finish, reason = p.finish, p.stopReason
	}
	b := g.begin(i)
	if g.r.chat {
		b = append(appendString(append(b, `,"delta":{"content":`...), c.text), '}')
	} else {
		b = appendString(append(b, `,"text":`...), c.text)
	}
	b = appendOptional(append(b, `,"logprobs":null,"finish_reason":`...), finish)
	if finish != "" || !g.r.chat {
		b = appendStop(append(b, `,"stop_reason":`...), reason)
	}
	if !g.r.chat {
		b = append(b, `,"prompt_token_ids":`...)
		if c.begun {
			b = append(b, `null`...)
		} else {
			b = g.appendPromptIDs(b, i/g.r.n)
		}
	}
	b = append(b, `,"token_ids":`...)
	if g.r.TokenIDs {
		b = appendIDs(b, c.held)
	} else {
		b = append(b, `null`...)
	}
	b = g.appendContinuous(append(b, `}]`...), c.tokens)
	if finish != "" && !g.r.includeUsage() {
		b = appendString(append(b, `,"system_fingerprint":`...), g.e.fingerprint())
	}
	return g.close(b)
}

// appendContinuous appends the usage so far of one choice, where every event has it.
func (g *generation) appendContinuous(b []byte, completion int) []byte {
	if !g.r.continuous() {
		return b
	}
	b = appendUsage(append(b, ','), g.r.prompts[0].tokens, completion)
	if g.r.chat {
		b = append(b, `,"completion_tokens_details":null`...)
	}
	return append(b, '}')
}

func (g *generation) usageEvent() []byte {
	b := appendUsage(append(g.begin(-1), `],`...), g.truth.PromptTokens, g.tally.completions)
	b = appendString(append(b, `},"system_fingerprint":`...), g.e.fingerprint())
	if g.reports() {
		b = g.e.appendSpec(append(b, `,"metrics":{`...), g.tally, false)
		b = append(b, '}')
	}
	return g.close(b)
}

// end writes the truth, whatever the end.
func (g *generation) end(err error) {
	t := g.truth
	t.fill(g.tally)
	if g.sent[0].step == len(g.plans[0].steps) {
		t.Finish, t.StopReason = g.plans[0].finish, g.plans[0].stopReason
	}
	switch {
	case t.Fault != "" || err == nil:
	case errors.Is(err, errClosed):
		t.Fault = "closed"
	default:
		t.Fault = "client_gone"
	}
	g.e.log(t)
}
