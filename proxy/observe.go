package proxy

import (
	"bytes"
	"slices"

	"github.com/valyala/fasthttp"

	"spectap/collector"
	"spectap/proxy/tap"
)

// begin tells the observer of a request that goes upstream next. A panic in it
// costs the observation: the request goes on with the headers as they are.
func (s *Server) begin(ctx *fasthttp.RequestCtx, f *flight) {
	if s.Observer == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.counts.panics.Add(1)
			f.observed = nil
		}
	}()
	f.observed = s.Observer.Begin(f.rec, upstreamHeaders{&ctx.Request.Header, &f.replaced})
	f.rec.Traceparent = traceparentOf(&ctx.Request.Header)
}

// observed hands the complete Record to the observer.
func (s *Server) observed(f *flight) {
	if f.observed == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.counts.panics.Add(1)
			s.log.Error().Str("id", f.rec.ID).Msg("an observer panicked and lost a record")
		}
	}()
	f.observed(f.rec)
}

// upstreamHeaders implements collector.Headers.
type upstreamHeaders struct {
	h        *fasthttp.RequestHeader
	replaced *[]string
}

// Get returns a field's value; of several fields of a name, the list of all (RFC 9110 section 5.2).
func (u upstreamHeaders) Get(name string) string {
	return string(bytes.Join(u.h.PeekAll(name), []byte{','}))
}

// Set replaces all fields of a name; an empty value removes them.
func (u upstreamHeaders) Set(name, value string) {
	if !slices.Contains(*u.replaced, name) {
		*u.replaced = append(*u.replaced, name)
	}
	u.h.Del(name)
	if value != "" {
		u.h.Set(name, value)
	}
}

// Keys lists the names of all fields.
func (u upstreamHeaders) Keys() []string {
	var names []string
	for key := range u.h.All() {
		names = append(names, string(key))
	}
	return names
}

// routeName returns Record.Route: what kind of model call a request is, if it is one.
func routeName(rec *collector.Record, route tap.Route) string {
	if rec.Method != fasthttp.MethodPost {
		return ""
	}
	switch route {
	case tap.RouteChat:
		return collector.RouteChat
	case tap.RouteCompletions:
		return collector.RouteCompletions
	case tap.RouteResponses:
		return collector.RouteResponses
	case tap.RouteMessages:
		return collector.RouteMessages
	}
	if generates(rec.Path) {
		return collector.RouteOther
	}
	return ""
}
