package telemetry

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"spectap/collector"
)

// Attributes of the span gen_ai.client.inference, as in v0.1.0 of
// open-telemetry/semantic-conventions-genai (docs/gen-ai/client-inference.md; a
// test holds them to it). The GenAI conventions left the main repository after
// its v1.41.0 and no Go package has them.
const (
	attrOperation        = "gen_ai.operation.name"
	attrProvider         = "gen_ai.provider.name"
	attrRequestModel     = "gen_ai.request.model"
	attrRequestStream    = "gen_ai.request.stream"
	attrChoices          = "gen_ai.request.choice.count"
	attrSeed             = "gen_ai.request.seed"
	attrTopK             = "gen_ai.request.top_k"
	attrTopP             = "gen_ai.request.top_p"
	attrTemperature      = "gen_ai.request.temperature"
	attrMaxTokens        = "gen_ai.request.max_tokens"
	attrFrequencyPenalty = "gen_ai.request.frequency_penalty"
	attrPresencePenalty  = "gen_ai.request.presence_penalty"
	attrResponseID       = "gen_ai.response.id"
	attrResponseModel    = "gen_ai.response.model"
	attrFinishReasons    = "gen_ai.response.finish_reasons"
	attrTimeToFirstChunk = "gen_ai.response.time_to_first_chunk" // s
	attrInputTokens      = "gen_ai.usage.input_tokens"
	attrOutputTokens     = "gen_ai.usage.output_tokens"
	attrCachedTokens     = "gen_ai.usage.cache_read.input_tokens"
	attrReasoningTokens  = "gen_ai.usage.reasoning.output_tokens"
	attrServerAddress    = "server.address"
	attrServerPort       = "server.port"
	attrErrorType        = "error.type"
)

// Attributes of the HTTP conventions (stable since semantic-conventions v1.23.0).
const (
	attrMethod     = "http.request.method"
	attrRoute      = "http.route"
	attrHTTPStatus = "http.response.status_code"
	attrPath       = "url.path"
	attrScheme     = "url.scheme"
	attrHeader     = "http.request.header." // and the name in lower case; a list of values
)

// Our own: there is no convention for speculative decoding.
const (
	attrID             = "spectap.id" // Record.ID
	attrEngine         = "spectap.engine"
	attrRun            = "spectap.run"
	attrPoint          = "spectap.point"
	attrConversation   = "spectap.conversation"
	attrQuestion       = "spectap.question"
	attrTurn           = "spectap.turn"
	attrCategory       = "spectap.category"
	attrInjected       = "spectap.injected" // names of the sampling members that were added or changed
	attrMinP           = "spectap.request.min_p"
	attrRepetition     = "spectap.request.repetition_penalty"
	attrSteps          = "spectap.step.count" // verify steps
	attrDrafted        = "spectap.draft.token.count"
	attrAccepted       = "spectap.draft.accepted_token.count"
	attrDraftLength    = "spectap.draft.max_length"
	attrAcceptLength   = "spectap.acceptance.length"    // 1 + accepted ÷ steps: tokens a verify step
	attrAcceptRate     = "spectap.acceptance.rate"      // accepted ÷ drafted
	attrHistogram      = "spectap.acceptance.histogram" // [j] = verify steps that accepted exactly j drafts
	attrUnmeasured     = "spectap.unmeasured"           // why there are no such figures
	attrStopReason     = "spectap.stop_reason"
	attrChunks         = "spectap.chunk.count"
	attrChunkTokens    = "spectap.chunk.tokens"
	attrChunkShared    = "spectap.chunk.shared" // arrived in one read with the chunk before it
	attrRetries        = "spectap.retries"
	attrResidenceP50   = "spectap.residence.p50" // s
	attrResidenceMax   = "spectap.residence.max" // s
	attrAborted        = "spectap.aborted"       // the client left; not an error
	eventFirstOutput   = "spectap.first_output"
	eventChunk         = "spectap.chunk"
	instrumentationLib = "spectap"
)

// The values of error.type beside HTTP status codes.
var errorTypes = map[string]string{
	collector.ErrClientGone:       "client_disconnected",
	collector.ErrUpstreamRefused:  "connection_refused",
	collector.ErrUpstreamReset:    "connection_reset",
	collector.ErrUpstreamTimeout:  "timeout",
	collector.ErrUpstreamProtocol: "protocol_error",
	collector.ErrTruncated:        "stream_truncated",
	collector.ErrStalled:          "stream_stalled",
	collector.ErrDrained:          "proxy_stopped",
	collector.ErrInBand:           "in_band_error",
	collector.ErrNotFinished:      "not_finished",
	collector.ErrRequestRejected:  "request_rejected",
	collector.ErrInternal:         "internal",
}

// descriptions are the status descriptions of spans: our words only, because an
// engine's error can quote the prompt. A status code needs none.
var descriptions = map[string]string{
	collector.ErrUpstreamRefused:  "no connection to the engine",
	collector.ErrUpstreamReset:    "the engine closed the connection before its response head",
	collector.ErrUpstreamTimeout:  "the engine did not answer in time",
	collector.ErrUpstreamProtocol: "the engine's answer is not HTTP",
	collector.ErrTruncated:        "the answer was cut off before its end",
	collector.ErrStalled:          "no event within the stall limit",
	collector.ErrDrained:          "the proxy was stopped before the answer's end",
	collector.ErrInBand:           "an error event in the stream",
	collector.ErrNotFinished:      "the answer ended without a finish reason",
	collector.ErrRequestRejected:  "refused by the proxy",
	collector.ErrInternal:         "a panic was recovered in the proxy",
}

// routes are the paths of engines that may stand in a span's name. A path with
// an identifier in it, and one that nobody knows, has no route: names are few.
var routes = map[string]bool{
	"/v1/embeddings": true, "/v1/models": true, "/v1/rerank": true, "/v2/rerank": true, "/v1/score": true,
	"/v1/audio/transcriptions": true, "/v1/audio/translations": true, "/v1/messages/count_tokens": true,
	"/rerank": true, "/score": true, "/classify": true, "/pooling": true, "/embeddings": true, "/embedding": true,
	"/tokenize": true, "/detokenize": true, "/version": true, "/load": true, "/server_info": true,
	"/invocations": true, "/generate": true, "/completion": true, "/completions": true, "/props": true, "/slots": true,
	"/get_model_info": true, "/get_server_info": true, "/model_info": true, "/flush_cache": true,
	"/health": true, "/health_generate": true, "/metrics": true, "/ping": true, "/": true,
}

// httpRoute is http.route: the path without a prefix before /v1, where it is a known one.
func httpRoute(route, path string) string {
	switch route {
	case collector.RouteChat:
		return "/v1/chat/completions"
	case collector.RouteCompletions:
		return "/v1/completions"
	case collector.RouteResponses:
		return "/v1/responses"
	case collector.RouteMessages:
		return "/v1/messages"
	}
	if at := strings.Index(path, "/v1/"); at > 0 {
		path = path[at:]
	}
	if len(path) > 1 {
		path = strings.TrimRight(path, "/")
	}
	if routes[path] {
		return path
	}
	return ""
}

// probePath reports whether a path is asked all day by whoever watches the engine.
func probePath(path string) bool { return path == "/health" || path == "/metrics" || path == "/ping" }

// httpMethod is http.request.method: a known one, or _OTHER.
func httpMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY":
		return method
	}
	return "_OTHER"
}

// text makes an attribute of a text from outside. Bytes that are not UTF-8 would
// make the exporter lose the whole batch.
func text(key, value string) attribute.KeyValue { return attribute.String(key, clean(value)) }

func texts(key string, values []string) attribute.KeyValue {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = clean(value)
	}
	return attribute.StringSlice(key, out)
}
