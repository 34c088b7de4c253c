package telemetry

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"spectap/collector"
)

// serverName is the SERVER span's name: {method} {http.route}, never the path.
func serverName(rec *collector.Record) string {
	method := httpMethod(rec.Method)
	if method == "_OTHER" {
		method = "HTTP"
	}
	if route := httpRoute(rec.Route, rec.Path); route != "" {
		return method + " " + route
	}
	return method
}

// serverStart returns the attributes of the SERVER span that are known at its
// start. Host, User-Agent, the query, an unknown method and a path that is no
// route are a client's own, can hold a secret, and stay out.
func serverStart(rec *collector.Record) []attribute.KeyValue {
	method := httpMethod(rec.Method)
	attrs := make([]attribute.KeyValue, 0, 5)
	attrs = append(attrs, attribute.String(attrMethod, method), attribute.String(attrScheme, "http"))
	if route := httpRoute(rec.Route, rec.Path); route != "" {
		attrs = append(attrs, attribute.String(attrRoute, route), attribute.String(attrPath, route))
	}
	for name, value := range rec.Headers { // captured: allowed by name, cut, and UTF-8
		attrs = append(attrs, attribute.StringSlice(attrHeader+name, []string{value}))
	}
	return attrs
}

// clientName is the CLIENT span's name: {operation} {model}.
func clientName(call, model string) string {
	if model == "" {
		return call
	}
	return call + " " + clean(model)
}

// clientStart returns the attributes of the CLIENT span that are known at its
// start, so that a sampler sees them.
func (t *traces) clientStart(call string, rec *collector.Record) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, attribute.String(attrOperation, call), attribute.String(attrProvider, t.provider))
	if rec.Model != "" {
		attrs = append(attrs, text(attrRequestModel, rec.Model))
	}
	if rec.Stream {
		attrs = append(attrs, attribute.Bool(attrRequestStream, true))
	}
	return append(attrs, t.engine...)
}

// endServer gives the SERVER span what the Record says, and ends it with its times.
func endServer(span trace.Span, rec *collector.Record) {
	attrs := make([]attribute.KeyValue, 0, 3)
	if rec.Status > 0 {
		attrs = append(attrs, attribute.Int(attrHTTPStatus, rec.Status))
	}
	switch {
	case rec.ErrorKind == collector.ErrClientGone:
		attrs = append(attrs, attribute.Bool(attrAborted, true), attribute.String(attrErrorType, errorType(rec)))
	case serverFailed(rec):
		attrs = append(attrs, attribute.String(attrErrorType, errorType(rec)))
		span.SetStatus(codes.Error, descriptions[rec.ErrorKind])
	}
	span.SetAttributes(attrs...)
	span.End(trace.WithTimestamp(moment(rec, rec.Done, rec.LastByte)))
}

// serverFailed reports whether the server side failed: a 4xx is the client's
// fault and leaves the status unset (HTTP conventions, span status).
func serverFailed(rec *collector.Record) bool {
	switch rec.ErrorKind {
	case "", collector.ErrNotFinished, collector.ErrHTTPStatus, collector.ErrRequestRejected:
		return rec.Status >= 500
	}
	return true
}

// endClient gives the CLIENT span what the Record says, and ends it with its times.
func (t *traces) endClient(span trace.Span, rec *collector.Record) {
	attrs := make([]attribute.KeyValue, 0, 40)
	attrs = append(attrs, attribute.String(attrID, rec.ID))
	attrs = appendLabels(attrs, rec.Labels)
	attrs = appendSampling(attrs, rec)
	attrs = appendAnswer(attrs, rec)
	attrs = appendSpec(attrs, rec)
	attrs = appendFlight(attrs, rec)
	switch {
	case rec.ErrorKind == collector.ErrClientGone:
		attrs = append(attrs, attribute.Bool(attrAborted, true), attribute.String(attrErrorType, errorType(rec)))
	case rec.ErrorKind != "" || rec.Status >= 400:
		attrs = append(attrs, attribute.String(attrErrorType, errorType(rec)))
		span.SetStatus(codes.Error, descriptions[rec.ErrorKind])
	}
	if rec.Status == 400 || rec.Status == 404 { // the engine does not know the model: names stay few
		span.SetName(operation(rec))
	}
	span.SetAttributes(attrs...)
	t.addEvents(span, rec)
	span.End(trace.WithTimestamp(moment(rec, rec.LastByte, rec.Done)))
}

// moment returns when the first of two Moments that happened was.
func moment(rec *collector.Record, first, second collector.Moment) time.Time {
	if !first.Known {
		first = second
	}
	return rec.Start.Add(first.Offset)
}

func appendLabels(attrs []attribute.KeyValue, l collector.Labels) []attribute.KeyValue {
	for _, one := range [...]struct{ key, value string }{
		{attrRun, l.Run}, {attrPoint, l.Point}, {attrConversation, l.Conversation},
		{attrQuestion, l.Question}, {attrCategory, l.Category},
	} {
		if one.value != "" {
			attrs = append(attrs, text(one.key, one.value))
		}
	}
	if l.HasTurn {
		attrs = append(attrs, attribute.Int(attrTurn, l.Turn))
	}
	return attrs
}

// appendSampling adds what the engine was sent, and what of it is ours. Stop
// sequences are text of the client's and stay out.
func appendSampling(attrs []attribute.KeyValue, rec *collector.Record) []attribute.KeyValue {
	for _, one := range [...]struct{ key, member string }{
		{attrTemperature, "temperature"}, {attrTopP, "top_p"}, {attrFrequencyPenalty, "frequency_penalty"},
		{attrPresencePenalty, "presence_penalty"}, {attrMinP, "min_p"}, {attrRepetition, "repetition_penalty"},
	} {
		if v, ok := number(rec.SamplingSent[one.member]); ok {
			attrs = append(attrs, attribute.Float64(one.key, v))
		}
	}
	limit := "max_tokens"
	if rec.SamplingSent["max_completion_tokens"] != nil { // where both are sent, vLLM takes this one
		limit = "max_completion_tokens"
	}
	for _, one := range [...]struct{ key, member string }{
		{attrTopK, "top_k"}, {attrSeed, "seed"}, {attrMaxTokens, limit},
	} {
		if v, ok := wholeNumber(rec.SamplingSent[one.member]); ok {
			attrs = append(attrs, attribute.Int64(one.key, v))
		}
	}
	if n, ok := wholeNumber(rec.SamplingSent["n"]); ok && n != 1 {
		attrs = append(attrs, attribute.Int64(attrChoices, n))
	}
	if len(rec.Injected) > 0 {
		attrs = append(attrs, texts(attrInjected, rec.Injected))
	}
	return attrs
}

// number reads a JSON number, also one in a string, as engines do.
func number(raw json.RawMessage) (float64, bool) {
	v, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// wholeNumber reads a JSON number without a fraction.
func wholeNumber(raw json.RawMessage) (int64, bool) {
	if n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64); err == nil {
		return n, true
	}
	v, ok := number(raw)
	return int64(v), ok && v == math.Trunc(v) && math.Abs(v) < 1<<53
}

// appendAnswer adds what the engine said of its answer.
func appendAnswer(attrs []attribute.KeyValue, rec *collector.Record) []attribute.KeyValue {
	if rec.ResponseID != "" { // the answer was read, so Model is what it said
		attrs = append(attrs, text(attrResponseID, rec.ResponseID), text(attrResponseModel, rec.Model))
	}
	if rec.Finish != "" {
		attrs = append(attrs, texts(attrFinishReasons, []string{rec.Finish}))
	}
	if rec.StopReason != "" {
		attrs = append(attrs, text(attrStopReason, rec.StopReason))
	}
	if rec.Stream && rec.FirstOutput.Known {
		attrs = append(attrs, attribute.Float64(attrTimeToFirstChunk, rec.FirstOutput.Offset.Seconds()))
	}
	if u := rec.Usage; u != nil {
		attrs = append(attrs, attribute.Int(attrInputTokens, u.PromptTokens), attribute.Int(attrOutputTokens, u.CompletionTokens))
		if u.CachedTokens > 0 {
			attrs = append(attrs, attribute.Int(attrCachedTokens, u.CachedTokens))
		}
		if u.ReasoningTokens > 0 {
			attrs = append(attrs, attribute.Int(attrReasoningTokens, u.ReasoningTokens))
		}
	}
	return attrs
}

// appendSpec adds the statistics of speculative decoding, or why there are none.
func appendSpec(attrs []attribute.KeyValue, rec *collector.Record) []attribute.KeyValue {
	s := rec.Spec
	if s == nil {
		if rec.SpecMissing != "" {
			attrs = append(attrs, attribute.String(attrUnmeasured, rec.SpecMissing))
		}
		return attrs
	}
	attrs = append(attrs, attribute.Int(attrDrafted, s.DraftedTokens), attribute.Int(attrAccepted, s.AcceptedTokens))
	if s.Steps > 0 {
		attrs = append(attrs, attribute.Int(attrSteps, s.Steps),
			attribute.Float64(attrAcceptLength, 1+float64(s.AcceptedTokens)/float64(s.Steps)))
	}
	if s.DraftedTokens > 0 {
		attrs = append(attrs, attribute.Float64(attrAcceptRate, float64(s.AcceptedTokens)/float64(s.DraftedTokens)))
	}
	if s.DraftLength > 0 {
		attrs = append(attrs, attribute.Int(attrDraftLength, s.DraftLength))
	}
	if s.Accepted != nil {
		attrs = append(attrs, attribute.IntSlice(attrHistogram, s.Accepted))
	}
	return attrs
}

// appendFlight adds what the proxy knows of the request's way.
func appendFlight(attrs []attribute.KeyValue, rec *collector.Record) []attribute.KeyValue {
	if rec.Engine != "" {
		attrs = append(attrs, attribute.String(attrEngine, rec.Engine))
	}
	if rec.Status > 0 {
		attrs = append(attrs, attribute.Int(attrHTTPStatus, rec.Status))
	}
	if n := len(rec.Chunks); n > 0 {
		attrs = append(attrs, attribute.Int(attrChunks, n))
	}
	if rec.Retries > 0 {
		attrs = append(attrs, attribute.Int(attrRetries, rec.Retries))
	}
	if rec.ResidenceP50.Known {
		attrs = append(attrs, attribute.Float64(attrResidenceP50, rec.ResidenceP50.Offset.Seconds()))
	}
	if rec.ResidenceMax.Known {
		attrs = append(attrs, attribute.Float64(attrResidenceMax, rec.ResidenceMax.Offset.Seconds()))
	}
	return attrs
}

// addEvents adds the first output and, where they are asked for, the first chunks.
func (t *traces) addEvents(span trace.Span, rec *collector.Record) {
	if rec.FirstOutput.Known {
		span.AddEvent(eventFirstOutput, trace.WithTimestamp(rec.Start.Add(rec.FirstOutput.Offset)))
	}
	for _, c := range rec.Chunks[:min(len(rec.Chunks), t.chunkEvents)] {
		attrs := make([]attribute.KeyValue, 0, 2)
		if c.Tokens > 0 {
			attrs = append(attrs, attribute.Int(attrChunkTokens, c.Tokens))
		}
		if c.Shared {
			attrs = append(attrs, attribute.Bool(attrChunkShared, true))
		}
		span.AddEvent(eventChunk, trace.WithTimestamp(rec.Start.Add(c.At)), trace.WithAttributes(attrs...))
	}
}
