package tap

import "strings"

// Route says which API a request is for, as far as the tap can read its answer.
type Route int

// The routes.
const (
	RouteOther       Route = iota // passed on, not measured
	RouteChat                     // /v1/chat/completions
	RouteCompletions              // /v1/completions
	RouteResponses                // /v1/responses: times, usage and end only
	RouteMessages                 // /v1/messages (Anthropic's API): times, usage and end only
)

// RouteOf returns the route of a request path. A query, slashes at the end and
// a prefix before /v1 make no difference, and chat also stands without /v1 (as
// on llama.cpp and behind gateways); llama.cpp's own /completions is another API.
func RouteOf(path string) Route {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return RouteChat
	case strings.HasSuffix(path, "/v1/completions"):
		return RouteCompletions
	case strings.HasSuffix(path, "/v1/responses"):
		return RouteResponses
	case strings.HasSuffix(path, "/v1/messages"):
		return RouteMessages
	}
	return RouteOther
}
