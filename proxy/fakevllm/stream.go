package fakevllm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// generation is one request that is being answered.
type generation struct {
	e       *Engine
	q       *request
	t       *Truth
	ctx     context.Context // ends when the client leaves or the engine closes
	w       http.ResponseWriter
	choices []*reply
	perStep []int  // accepted drafts of each verify step
	head    string // the members before the choices, of a body or an event
	prompt  string // ids of the prompt's tokens, as JSON

	events  int    // so far
	pending string // text to write
	stamps  int    // events with tokens in pending
}

// generate answers the two generation routes.
func (e *Engine) generate(w http.ResponseWriter, r *http.Request) {
	e.busy.RLock()
	defer e.busy.RUnlock()
	q, refused := e.read(r)
	t := &Truth{RequestID: r.Header.Get("X-Request-Id"), Fault: q.fault.name, Status: 200, PromptTokens: q.promptTokens,
		Histogram: make([]int, e.cfg.DraftLength+1), ChunkLengths: []int{}, WriteUnixNs: []int64{}}
	if refused != nil && !refused.inBand {
		t.Status = refused.status
		e.log(t)
		respond(w, refused.status, "application/json", refused.json(errorBody))
		return
	}
	g := e.newGeneration(w, r, q, t)
	var err error
	if q.streams() {
		err = g.stream(refused)
	} else {
		err = g.run(func(int) error { return nil })
	}
	g.end(err)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection without the last chunk
	}
	if !q.streams() {
		respond(w, 200, "application/json", g.body())
	}
}

func (e *Engine) newGeneration(w http.ResponseWriter, r *http.Request, q *request, t *Truth) *generation {
	g := &generation{e: e, q: q, t: t, ctx: r.Context(), w: w, prompt: "null"}
	for n := range q.N {
		g.choices = append(g.choices, newReply(&e.cfg, q, n))
		t.BlockDropped = t.BlockDropped || g.choices[n].dropped
	}
	t.ReplySHA = shortSHA(g.choices[0].text)
	if q.TokenIDs {
		ids := make([]int, q.promptTokens)
		for i := range ids {
			ids[i] = firstWord + i
		}
		g.prompt = text(ids)
	}
	id, object := "cmpl-", "text_completion"
	if q.chat {
		id, object = "chatcmpl-", "chat.completion"
	}
	if q.chat && q.streams() {
		object += ".chunk"
	}
	id += cmp.Or(t.RequestID, fmt.Sprintf("%016x", rand.Uint64()))
	g.head = fmt.Sprintf(`{"id":%s,"object":"%s","created":%d,"model":%s,"choices":[`, text(id), object, time.Now().Unix(), text(e.cfg.Model))
	return g
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
		err = g.run(g.emit)
		if err == nil && g.q.Options.IncludeUsage {
			err = g.send(g.usageEvent(), false)
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

// run executes the steps of all choices, a step of each at a time, and calls
// emit after each.
func (g *generation) run(emit func(choice int) error) error {
	defer g.e.enter(g.q.promptTokens)()
	wait := g.e.cfg.Prefill + time.Duration(g.q.promptTokens)*g.e.cfg.PrefillPerToken
	for live := true; live; wait = g.e.stepTime() {
		if err := g.sleep(wait); err != nil {
			return err
		}
		live = false
		for i, c := range g.choices {
			if c.next == len(c.steps) {
				continue
			}
			g.execute(c)
			live = live || c.next < len(c.steps)
			if err := emit(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// sleep waits d, or fails when the client leaves or the engine closes.
func (g *generation) sleep(d time.Duration) error {
	if d <= 0 {
		return g.ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-g.ctx.Done():
		return g.ctx.Err()
	}
}

// execute runs the next step of c. It counts as the engine's scheduler does: a
// verify step by what the verifier accepted, before the reply's end cut it.
func (g *generation) execute(c *reply) {
	st := c.steps[c.next]
	n, finished := len(st.ids), ""
	switch {
	case st.drafted:
		g.t.Histogram[st.accepted]++
		g.perStep = append(g.perStep, st.accepted)
	case c.next > 0:
		g.t.Draftless++
	}
	g.t.Completion += n
	c.held.ids, c.held.text = append(c.held.ids, st.ids...), c.held.text+st.text
	if c.next++; c.next == len(c.steps) {
		finished = c.finish
		if c.onEOS() {
			n--
		}
	}
	if n > 0 {
		g.t.ChunkLengths = append(g.t.ChunkLengths, n)
	}
	g.e.count(st, finished)
}

// emit writes what choice i holds: at once for the first and the last step, else
// when a stream interval of tokens has piled up. Where the block is dropped, the
// last step but one waits for the last. Role events come with the first output.
func (g *generation) emit(i int) error {
	c := g.choices[i]
	left := len(c.steps) - c.next
	if left > 0 && c.sent > 0 && len(c.held.ids) < g.e.cfg.StreamInterval || left == 1 && c.dropped {
		return nil
	}
	if g.q.chat && i == 0 && c.sent == 0 {
		for n := range g.choices {
			event := fmt.Sprintf(`data: %s{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]%s,"prompt_token_ids":%s,"prompt_text":null}`+"\n\n",
				g.head, n, g.continuous(0), g.prompt)
			if err := g.send(event, false); err != nil {
				return err
			}
		}
	}
	c.sent += len(c.held.ids)
	err := g.send(g.contentEvent(i), true)
	c.held = step{}
	return err
}

func (g *generation) contentEvent(i int) string {
	c := g.choices[i]
	finish, stop, ids, prompt, print := "null", "null", "null", "null", ""
	if c.next == len(c.steps) {
		finish, stop = text(c.finish), text(c.stopReason)
		if !g.q.Options.IncludeUsage {
			print = g.fingerprint()
		}
	}
	if g.q.TokenIDs {
		ids = text(c.held.ids)
	}
	if c.sent == len(c.held.ids) { // the first of this choice
		prompt = g.prompt
	}
	var b strings.Builder
	fmt.Fprintf(&b, `data: %s{"index":%d,`, g.head, i)
	switch {
	case !g.q.chat:
		fmt.Fprintf(&b, `"text":%s,"logprobs":null,"finish_reason":%s,"stop_reason":%s,"prompt_token_ids":%s`, text(c.held.text), finish, stop, prompt)
	case finish == "null":
		fmt.Fprintf(&b, `"delta":{"content":%s},"logprobs":null,"finish_reason":null`, text(c.held.text))
	default:
		fmt.Fprintf(&b, `"delta":{"content":%s},"logprobs":null,"finish_reason":%s,"stop_reason":%s`, text(c.held.text), finish, stop)
	}
	fmt.Fprintf(&b, `,"token_ids":%s}]%s%s}`+"\n\n", ids, g.continuous(c.sent), print)
	return b.String()
}

func (g *generation) usageEvent() string {
	metrics := ""
	if g.reports() {
		metrics = `,"metrics":{` + g.statistics(false) + `}`
	}
	return fmt.Sprintf("data: %s],%s}%s%s}\n\n", g.head, g.usage(g.t.Completion), g.fingerprint(), metrics)
}

// body is the answer to a request that does not stream: every member, nulls too.
func (g *generation) body() string {
	var b strings.Builder
	b.WriteString(g.head)
	for i, c := range g.choices {
		if i > 0 {
			b.WriteByte(',')
		}
		content, ids, prompt := `"text":`+text(string(c.text)), "null", `,"prompt_logprobs":null,"prompt_token_ids":`+g.prompt
		if g.q.chat {
			content = `"message":{"role":"assistant","content":` + text(string(c.text)) + `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}`
			prompt = ""
		}
		if g.q.TokenIDs {
			ids = text(c.held.ids)
		}
		fmt.Fprintf(&b, `{"index":%d,%s,"logprobs":null,"finish_reason":%s,"stop_reason":%s,"token_ids":%s%s,"routed_experts":null}`,
			i, content, text(c.finish), text(c.stopReason), ids, prompt)
	}
	prompt, metrics := "", "null"
	if g.q.chat {
		prompt = `"prompt_logprobs":null,"prompt_token_ids":` + g.prompt + `,"prompt_text":null,`
	}
	if g.reports() {
		metrics = `{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null,` + g.statistics(true) + `}`
	}
	fmt.Fprintf(&b, `],"service_tier":null%s,%s,"prompt_tokens_details":null,"completion_tokens_details":null},%s"kv_transfer_params":null,"ec_transfer_params":null,"metrics":%s}`,
		g.fingerprint(), g.usage(g.t.Completion), prompt, metrics)
	return b.String()
}

func (g *generation) fingerprint() string {
	return `,"system_fingerprint":` + text("vllm-"+g.e.cfg.Version+"-5a68d905")
}

// usage is the usage member, still open at its end.
func (g *generation) usage(completion int) string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, g.q.promptTokens, g.q.promptTokens+completion, completion)
}

// continuous is the usage so far of one choice, where every event has it.
func (g *generation) continuous(completion int) string {
	switch {
	case !g.q.Options.IncludeUsage || !g.q.Options.Continuous:
		return ""
	case g.q.chat:
		return "," + g.usage(completion) + `,"completion_tokens_details":null}`
	}
	return "," + g.usage(completion) + "}"
}

// reports says whether the answer carries a statistics block.
func (g *generation) reports() bool {
	c := g.choices[0]
	return len(g.choices) == 1 && !c.onString() && !c.dropped && !g.e.cfg.NoSpecStats && g.q.fault.name != "nostats"
}

// statistics is the block (vLLM: SpeculativeDecodingMetrics). per_step_* are left
// out of streams where there are none, and null elsewhere.
func (g *generation) statistics(nulls bool) string {
	k, steps, accepted := g.e.cfg.DraftLength, len(g.perStep), 0
	drafted := make([]int, steps)
	for i, n := range g.perStep {
		accepted += n
		drafted[i] = k
	}
	mean, rate, lists := 1.0, 0.0, ""
	if steps > 0 {
		mean, rate = 1+float64(accepted)/float64(steps), float64(accepted)/float64(steps*k)
	}
	switch {
	case g.e.cfg.Detailed && steps > 0:
		lists = fmt.Sprintf(`,"per_step_accepted":%s,"per_step_drafted":%s`, text(g.perStep), text(drafted))
	case nulls:
		lists = `,"per_step_accepted":null,"per_step_drafted":null`
	}
	return fmt.Sprintf(`"speculative_decoding":{"mean_acceptance_length":%s,"draft_acceptance_rate":%s,"acceptance_histogram":%s,"num_spec_steps":%d,"num_accepted_draft_tokens":%d,"num_draft_tokens":%d,"num_spec_tokens":%d%s}`,
		pyFloat(mean), pyFloat(rate), text(g.t.Histogram), steps, accepted, steps*k, k, lists)
}

// end writes the truth, whatever the end.
func (g *generation) end(err error) {
	if c := g.choices[0]; c.next == len(c.steps) {
		g.t.Finish, g.t.StopReason = c.finish, c.stopReason
	}
	switch {
	case g.t.Fault != "" || err == nil:
	case g.e.ctx.Err() != nil:
		g.t.Fault = "closed"
	default:
		g.t.Fault = "client_gone"
	}
	g.e.log(g.t)
}
