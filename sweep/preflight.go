package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"spectap/collector"
)

// preflightPrompts invite repetition, so that n-gram drafters draft something.
var preflightPrompts = [...]string{
	"Count from one to ten, twice.",
	"Repeat this line three times: the quick brown fox jumps over the lazy dog.",
	"Write the alphabet in lower case, then write it again.",
}

// preflight asks up to three short requests and looks for what the sweep needs:
// per-request statistics, whose block a server may lose by chance, or with
// NoSpecStats token counts on every event, of a baseline no speculation. It returns
// the counters before the requests, and the requests it made. It learns an unknown
// engine from the first answer.
func (s *Sweep) preflight(ctx context.Context, srv *server) (before, error) {
	b := before{counters: s.counters(ctx, srv.engine)}
	var last *collector.Record
	for i, prompt := range preflightPrompts {
		rec, err := s.preflightRequest(ctx, srv, i, prompt)
		if err != nil {
			return b, err
		}
		last = rec
		b.requests, b.records = i+1, append(b.records, rec)
		if srv.engine == "" && rec.Engine != "" {
			srv.engine = rec.Engine
			srv.version = s.engineVersion(ctx, srv.engine)
		}
		if s.Plan.Config.Baseline {
			return b, s.checkBaseline(b, rec)
		}
		if s.Plan.Config.NoSpecStats && countsEvents(rec) || !s.Plan.Config.NoSpecStats && hasHistogram(rec) {
			return b, nil
		}
	}
	return b, s.noStatistics(*srv, last)
}

// preflightRequest asks one short request as the points will.
func (s *Sweep) preflightRequest(ctx context.Context, srv *server, i int, prompt string) (*collector.Record, error) {
	t := s.template(*srv, s.Plan.Points[0])
	t.maxTokens = min(16, t.maxTokens)
	labels := collector.Labels{Run: s.runID, Point: "preflight", Conversation: strconv.Itoa(i), HasTurn: true}
	a := s.ask(ctx, t, labels, s.runID+"-preflight-"+strconv.Itoa(i), []message{{"user", prompt}})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		return nil, s.refused(a.status)
	}
	if a.rec == nil || a.rec.ErrorKind != "" || a.status >= http.StatusBadRequest || a.err != nil {
		return nil, preflightError(a)
	}
	return a.rec, nil
}

// preflightError shows the start of the server's answer: the prompts are ours,
// so it holds nothing private.
func preflightError(a asked) error {
	why := a.failure()
	if why == nil {
		why = errors.New("no reason was recorded")
	}
	err := fmt.Errorf("the first short request failed: %w", why)
	if head := bytes.TrimSpace(a.head); len(head) > 0 {
		err = fmt.Errorf("%w: the server says %s", err, head)
	}
	if a.rec != nil && (a.rec.ErrorKind == collector.ErrUpstreamRefused || a.rec.ErrorKind == collector.ErrUpstreamTimeout) {
		return fmt.Errorf("%w: %w", ErrNotReachable, err)
	}
	if a.status >= http.StatusBadRequest && a.status < http.StatusInternalServerError {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return err
}

// noStatistics says how each engine is told to report what is missing.
func (s *Sweep) noStatistics(srv server, last *collector.Record) error {
	if s.Plan.Config.NoSpecStats {
		return fmt.Errorf("%w: none of %d short requests had token counts on every event, which --no_spec_stats needs; vLLM, SGLang and TensorRT-LLM send them with stream_options.continuous_usage_stats", ErrNoStatistics, len(preflightPrompts))
	}
	how := map[string]string{
		engineVLLM:     "start vllm serve (0.29.0 or later) with --speculative-config and --per-request-spec-decode-metrics summary",
		engineSGLang:   "use an SGLang whose chat completions take return_spec_tokens_details (0.5.19 or later), started with speculative decoding",
		engineTRTLLM:   "set per_request_spec_decode_stats in the YAML of trtllm-serve --extra_llm_api_options, with speculative decoding on the PyTorch backend",
		engineLlamaCPP: "llama-server tells drafted and accepted tokens when it has a draft model (--model-draft), but no histogram by step, which the files need",
	}[srv.engine]
	if how == "" {
		how = "the engine is unknown; for vLLM (0.29.0 or later) it is --per-request-spec-decode-metrics summary, for SGLang return_spec_tokens_details, for TensorRT-LLM per_request_spec_decode_stats"
	}
	counts := "; events carry no token counts either"
	if countsEvents(last) {
		counts = "; or sweep with --no_spec_stats, which counts the tokens of each event: this server sends them"
	}
	return fmt.Errorf("%w: none of %d short requests came with a block (%s); %s%s", ErrNoStatistics, len(preflightPrompts), missing(last), how, counts)
}
