package telemetry

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The values of OTEL_PROPAGATORS that are known.
const (
	propagateW3C     = "tracecontext"
	propagateBaggage = "baggage"
	propagateB3      = "b3"
	propagateB3Multi = "b3multi"
	propagateNone    = "none"
)

// propagators reads OTEL_PROPAGATORS. Of several that find a context in a
// request the last one counts, as in every SDK. baggage is accepted and does
// nothing: baggage passes as it came whatever is set, and is never parsed here,
// because parsers of it have been a way to attack (GO-2026-5158, -5506, -6258).
func (s *settings) propagators() propagation.TextMapPropagator {
	const name = "OTEL_PROPAGATORS"
	value := s.get(name)
	if value == "" {
		value = propagateW3C + "," + propagateBaggage
	}
	allowed := []string{propagateW3C, propagateBaggage, propagateB3, propagateB3Multi, propagateNone}
	var all []propagation.TextMapPropagator
	for one := range strings.SplitSeq(value, ",") {
		part := &settings{env: map[string]string{name: one}}
		switch part.word(name, propagateNone, allowed...) {
		case propagateW3C:
			all = append(all, w3c{})
		case propagateB3:
			all = append(all, b3{})
		case propagateB3Multi:
			all = append(all, b3{multi: true})
		}
		s.errs = append(s.errs, part.errs...)
	}
	return propagation.NewCompositeTextMapPropagator(all...)
}

// w3c is the SDK's propagator with two rules of the specification that it does
// not know: several traceparent fields are no context at all, and what begins a
// new trace does not go on with the old one's tracestate. A trace that goes on
// keeps its tracestate on the wire as it came, and spans have none of it: it is
// other vendors' and can hold anything.
type w3c struct{ propagation.TraceContext }

// Extract implements propagation.TextMapPropagator.
func (w w3c) Extract(ctx context.Context, h propagation.TextMapCarrier) context.Context {
	if strings.Contains(h.Get("traceparent"), ",") { // a carrier joins fields of one name
		return ctx
	}
	sc := trace.SpanContextFromContext(w.TraceContext.Extract(ctx, h))
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc.WithTraceState(trace.TraceState{}))
}

// Inject implements propagation.TextMapPropagator.
func (w w3c) Inject(ctx context.Context, h propagation.TextMapCarrier) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return
	}
	if !strings.Contains(h.Get("traceparent"), sc.TraceID().String()) && h.Get("tracestate") != "" {
		h.Set("tracestate", "") // removes it
	}
	w.TraceContext.Inject(ctx, h)
}

// b3 is Zipkin's format (github.com/openzipkin/b3-propagation): one field, or
// one for each part. Both are read; multi says which is written.
type b3 struct{ multi bool }

const (
	b3Single  = "b3"
	b3Trace   = "x-b3-traceid"
	b3Span    = "x-b3-spanid"
	b3Sampled = "x-b3-sampled"
	b3Flags   = "x-b3-flags"
	b3Parent  = "x-b3-parentspanid"
)

// Extract implements propagation.TextMapPropagator.
func (b3) Extract(ctx context.Context, h propagation.TextMapCarrier) context.Context {
	var sc trace.SpanContext
	if one := strings.Split(h.Get(b3Single), "-"); len(one) >= 2 {
		state := ""
		if len(one) > 2 {
			state = one[2]
		}
		sc = b3Context(one[0], one[1], state)
	}
	if !sc.IsValid() {
		state := h.Get(b3Sampled)
		if h.Get(b3Flags) == "1" {
			state = "d"
		}
		sc = b3Context(h.Get(b3Trace), h.Get(b3Span), state)
	}
	if !sc.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, sc)
}

// b3Context reads the parts of a context; an invalid one is the zero value. A
// trace id of 64 bits is filled up with zeros on the left. Without a state the
// receiver decides, as for d(ebug), so the trace counts as sampled.
func b3Context(traceID, spanID, state string) trace.SpanContext {
	if len(traceID) == 16 {
		traceID = "0000000000000000" + traceID
	}
	var cfg trace.SpanContextConfig
	if len(traceID) != 32 || len(spanID) != 16 {
		return trace.SpanContext{}
	}
	if _, err := hex.Decode(cfg.TraceID[:], []byte(traceID)); err != nil {
		return trace.SpanContext{}
	}
	if _, err := hex.Decode(cfg.SpanID[:], []byte(spanID)); err != nil {
		return trace.SpanContext{}
	}
	if state != "0" && state != "false" {
		cfg.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(cfg)
}

// Inject implements propagation.TextMapPropagator. Fields of the other form, and
// of the parent's parent, would contradict it: they are taken away.
func (b b3) Inject(ctx context.Context, h propagation.TextMapCarrier) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return
	}
	sampled := "0"
	if sc.IsSampled() {
		sampled = "1"
	}
	written := []string{b3Single}
	if b.multi {
		written = []string{b3Trace, b3Span, b3Sampled}
		h.Set(b3Trace, sc.TraceID().String())
		h.Set(b3Span, sc.SpanID().String())
		h.Set(b3Sampled, sampled)
	} else {
		h.Set(b3Single, sc.TraceID().String()+"-"+sc.SpanID().String()+"-"+sampled)
	}
	for _, name := range (b3{}).Fields() {
		if !slices.Contains(written, name) && h.Get(name) != "" {
			h.Set(name, "")
		}
	}
}

// Fields implements propagation.TextMapPropagator.
func (b3) Fields() []string {
	return []string{b3Single, b3Trace, b3Span, b3Sampled, b3Flags, b3Parent}
}
