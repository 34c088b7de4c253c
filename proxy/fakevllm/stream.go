package fakevllm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// generation is one request that is being answered.
type generation struct {
	e    *Engine
	q    *request
	t    *Truth
	ctx  context.Context // ends when the client leaves or the engine closes
	w    http.ResponseWriter
	r    *reply
	next int  // the next step to execute
	held step // executed, not yet in an event
	sent int  // tokens in events

	id             string    // of the response
	arrived, first time.Time // the request, and the first token

	head    string // the members of a body or an event before the choices
	events  int    // so far
	pending string // text to write
	stamps  int    // events with tokens in pending
}

// generate answers the two generation routes.
func (e *Engine) generate(w http.ResponseWriter, r *http.Request) {
	e.busy.RLock()
	defer e.busy.RUnlock()
	arrived := time.Now()
	q, refused := e.read(r)
	t := &Truth{RequestID: r.Header.Get("X-Request-Id"), Fault: q.fault.name, Status: 200, PromptTokens: q.promptTokens, Traceparent: r.Header.Get("Traceparent"),
		ArriveUnixNs: arrival(r, arrived).UnixNano(),
		Histogram:    make([]int, e.cfg.DraftLength+1), ChunkLengths: []int{}, WriteUnixNs: []int64{}}
	if refused != nil && !refused.inBand {
		t.Status = refused.status
		e.log(t)
		respond(w, refused.status, "application/json", refused.json(errorBody))
		return
	}
	g := &generation{e: e, q: q, t: t, arrived: arrived, ctx: r.Context(), w: w, r: newReply(&e.cfg, q)}
	g.head, t.BlockDropped = g.begin(), g.r.dropped
	answer := g.run
	if q.streams() {
		answer = func() error { return g.stream(refused) }
	}
	err := answer()
	switch {
	case g.done():
		t.Finish = g.r.finish
		e.tracer.finished(g, r.Header)
	case t.Fault == "" && e.ctx.Err() != nil:
		t.Fault = "closed"
	case t.Fault == "" && err != nil:
		t.Fault = "client_gone"
	}
	e.log(t)
	switch {
	case err != nil:
		panic(http.ErrAbortHandler) // closes the connection without the last chunk
	case q.chat && !q.streams():
		respond(w, 200, "application/json", g.render(chatBody, g.metrics()))
	case !q.streams():
		respond(w, 200, "application/json", g.render(textBody, g.metrics()))
	}
}

// begin is what all events have in common: the members before the choices.
func (g *generation) begin() string {
	id, object := "cmpl-", "text_completion"
	switch {
	case g.q.chat && g.q.streams():
		id, object = "chatcmpl-", "chat.completion.chunk"
	case g.q.chat:
		id, object = "chatcmpl-", "chat.completion"
	}
	g.id = id + cmp.Or(g.t.RequestID, fmt.Sprintf("%016x", rand.Uint64()))
	return fmt.Sprintf(`{"id":%s,"object":"%s","created":%d,"model":%s,"choices":[`, text(g.id), object, time.Now().Unix(), text(g.e.cfg.Model))
}

// stream writes the events; the head goes out at once, long before the first of them.
func (g *generation) stream(refused *apiError) error {
	g.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	err := g.flush()
	switch {
	case err != nil:
	case refused != nil:
		err = g.send(refused.json(errorEvent), false)
	default:
		err = g.run()
		if err == nil && g.q.Options.IncludeUsage {
			err = g.send(g.render(usageEvent, g.metrics()), false)
		}
	}
	if err != nil && !errors.Is(err, errInBand) {
		return err
	}
	if g.q.fault.name != "nodone" {
		g.pending += "data: [DONE]\n\n"
	}
	return g.flush()
}

// run executes the steps, and emits them if the client wants a stream. It fails
// when the client leaves or the engine closes.
func (g *generation) run() error {
	cfg := &g.e.cfg
	g.e.tally(func(c *counters) { c.running++; c.prompt += g.q.promptTokens })
	defer g.e.tally(func(c *counters) { c.running-- })
	wait := cfg.Prefill + time.Duration(g.q.promptTokens)*cfg.PrefillPerToken
	for !g.done() {
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-g.ctx.Done():
			}
		}
		if err := g.ctx.Err(); err != nil {
			return err
		}
		g.execute()
		if err := g.emit(); err != nil {
			return err
		}
		g.e.tally(func(c *counters) { wait = cfg.Step + time.Duration(c.running-1)*cfg.StepPerRequest })
	}
	return nil
}

func (g *generation) done() bool { return g.next == len(g.r.steps) }

// execute runs the next step. It counts as the engine's scheduler does: a verify
// step by what the verifier accepted, before the reply's end cut it.
func (g *generation) execute() {
	st := g.r.steps[g.next]
	n := len(st.ids)
	if g.next == 0 {
		g.first = time.Now()
	}
	g.t.Completion += n
	switch {
	case st.drafted:
		g.t.Histogram[st.accepted]++
	case g.next > 0:
		g.t.Draftless++
	}
	g.held.ids, g.held.text = append(g.held.ids, st.ids...), g.held.text+st.text
	g.next++
	g.e.tally(func(c *counters) {
		c.generated += len(st.ids)
		if st.drafted {
			c.drafts++
		}
		for i := range st.accepted {
			c.perPos[i]++
		}
		if g.done() {
			c.finished[g.r.finish]++
		}
	})
	if g.done() && g.r.finish == "stop" && g.r.stop == "" {
		n-- // the EOS
	}
	if n > 0 {
		g.t.ChunkLengths = append(g.t.ChunkLengths, n)
	}
}

// emit writes what is held: at once for the first and the last step, else when a
// stream interval of tokens has piled up. Where the block is dropped, the last
// step but one waits for the last. A chat's role event comes with the first output.
func (g *generation) emit() error {
	if !g.q.streams() || !g.done() && g.sent > 0 && len(g.held.ids) < g.e.cfg.StreamInterval || g.r.dropped && g.next == len(g.r.steps)-1 {
		return nil
	}
	shape := textEvent
	if g.q.chat {
		shape = chatEvent
	}
	event := g.render(shape, "")
	n := len(g.held.ids)
	g.held = step{}
	if g.q.chat && g.sent == 0 {
		if err := g.send(g.render(roleEvent, ""), false); err != nil {
			return err
		}
	}
	g.sent += n
	return g.send(event, true)
}

// Events and bodies after their head, over the arguments of render.
const (
	fingerprint = `,"system_fingerprint":"vllm-` + version + `-5a68d905"`
	roleEvent   = `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]%[6]s,"prompt_token_ids":%[5]s,"prompt_text":null}`
	chatEvent   = `{"index":0,"delta":{"content":%[1]s},"logprobs":null,"finish_reason":%[2]s%[3]s,"token_ids":%[4]s}]%[6]s%[8]s}`
	textEvent   = `{"index":0,"text":%[1]s,"logprobs":null,"finish_reason":%[2]s%[3]s,"prompt_token_ids":%[5]s,"token_ids":%[4]s}]%[6]s%[8]s}`
	usageEvent  = `]%[7]s}` + fingerprint + `%[9]s}`
	chatBody    = `{"index":0,"message":{"role":"assistant","content":%[1]s,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":%[2]s%[3]s,"token_ids":%[4]s,"routed_experts":null}],"service_tier":null` + fingerprint + `%[7]s,"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":%[5]s,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null%[9]s}`
	textBody    = `{"index":0,"text":%[1]s,"logprobs":null,"finish_reason":%[2]s%[3]s,"token_ids":%[4]s,"prompt_logprobs":null,"prompt_token_ids":%[5]s,"routed_experts":null}],"service_tier":null` + fingerprint + `%[7]s,"prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,"ec_transfer_params":null%[9]s}`
)

// render is an event or a body with what is held.
func (g *generation) render(shape, metrics string) string {
	o, p, n := g.q.Options, g.q.promptTokens, g.sent+len(g.held.ids)
	stop, continuous, print, prompt := `,"stop_reason":`+orNull(g.done() && g.r.stop != "", g.r.stop), "", "", "null"
	if g.q.TokenIDs && g.sent == 0 {
		prompt = text(make([]int, p)) // all are 0
	}
	usage := fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, p, p+n, n)
	switch {
	case o.IncludeUsage && o.Continuous && g.q.chat:
		continuous = usage + `,"completion_tokens_details":null}`
	case o.IncludeUsage && o.Continuous:
		continuous = usage + "}"
	}
	switch {
	case !g.done() && g.q.chat:
		stop = ""
	case g.done() && !o.IncludeUsage:
		print = fingerprint
	}
	return g.head + fmt.Sprintf(shape, text(g.held.text), orNull(g.done(), g.r.finish), stop, orNull(g.q.TokenIDs, g.held.ids), prompt, continuous, usage, print, metrics)
}

// metrics is the member with the statistics block (vLLM: SpeculativeDecodingMetrics),
// where there is one; a body has nulls in it, before the block and at its end.
func (g *generation) metrics() string {
	before, after, none := "", "", ""
	if !g.q.streams() {
		none = `,"metrics":null`
		before = `"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null,`
		after = `,"per_step_accepted":null,"per_step_drafted":null`
	}
	if g.r.stop != "" || g.r.dropped || g.e.cfg.NoSpecStats || g.q.fault.name == "nostats" {
		return none
	}
	k, steps, accepted, mean, rate := g.e.cfg.DraftLength, 0, 0, 1.0, 0.0
	for j, n := range g.t.Histogram {
		steps, accepted = steps+n, accepted+j*n
	}
	if steps > 0 {
		mean, rate = 1+float64(accepted)/float64(steps), float64(accepted)/float64(steps*k)
	}
	return fmt.Sprintf(`,"metrics":{%s"speculative_decoding":{"mean_acceptance_length":%s,"draft_acceptance_rate":%s,"acceptance_histogram":%s,"num_spec_steps":%d,"num_accepted_draft_tokens":%d,"num_draft_tokens":%d,"num_spec_tokens":%d%s}}`,
		before, text(mean), text(rate), text(g.t.Histogram), steps, accepted, steps*k, k, after)
}

var errInBand = errors.New("an error event took the rest")

// send writes one event as the fault wants it; tokens says that it carries some,
// so that its write is stamped.
func (g *generation) send(event string, tokens bool) error {
	f := g.q.fault
	if g.events == f.n {
		switch f.name {
		case "cut":
			return errors.New("scripted fault")
		case "stall":
			<-g.ctx.Done()
			return g.ctx.Err()
		case "error":
			failed := apiError{status: 500, kind: "InternalServerError", message: "scripted fault"}
			g.pending += "data: " + failed.json(errorEvent) + "\n\n"
			return errors.Join(g.flush(), errInBand)
		}
	}
	g.events++
	if tokens {
		g.stamps++
	}
	event = "data: " + event + "\n\n"
	switch f.name {
	case "comments":
		event = ": keep-alive\n\n" + event
	case "split":
		for range 2 {
			g.pending, event = event[:len(event)/2], event[len(event)/2:]
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	g.pending += event
	if f.name == "merge" && g.events%3 != 0 {
		return nil
	}
	return g.flush()
}

// flush writes what is pending as one chunk, and notes the time before it for
// each event with tokens in it.
func (g *generation) flush() error {
	for now := time.Now().UnixNano(); g.stamps > 0; g.stamps-- {
		g.t.WriteUnixNs = append(g.t.WriteUnixNs, now)
	}
	_, err := g.w.Write([]byte(g.pending))
	g.pending = ""
	return errors.Join(err, http.NewResponseController(g.w).Flush())
}
