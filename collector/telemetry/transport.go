package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"spectap/collector"
)

// turnName is the name of the span of a question that the sweep itself sends.
const turnName = "turn"

// transport opens a span around every request of a client of ours, from which
// the proxy's SERVER span goes on:
//
//	turn ─▶ SERVER ─▶ CLIENT ─▶ engine
func (t *traces) transport(base http.RoundTripper) http.RoundTripper {
	if t == nil {
		return base
	}
	return turns{t, base}
}

type turns struct {
	*traces
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The span ends with the body.
func (t turns) RoundTrip(req *http.Request) (*http.Response, error) {
	if probePath(req.URL.Path) {
		return t.base.RoundTrip(req)
	}
	ctx, span := t.tracer.Start(req.Context(), ownName(req), clientKind,
		trace.WithAttributes(turnStart(req)...))
	req = req.Clone(ctx)
	t.propagator.Inject(ctx, fields{req.Header})
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		fail(span, req.Context())
		return nil, err
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.Int(attrHTTPStatus, resp.StatusCode))
		if resp.StatusCode >= 400 {
			span.SetAttributes(attribute.String(attrErrorType, strconv.Itoa(resp.StatusCode)))
			span.SetStatus(codes.Error, "")
		}
		resp.Body = &turnBody{ReadCloser: resp.Body, span: span, ctx: req.Context()}
	}
	return resp, nil
}

// ownName names the span of a request of ours. What the sweep asks about the
// server, with GET, is no turn: whoever counts turns counts none too many.
func ownName(req *http.Request) string {
	if req.Method == http.MethodPost {
		return turnName
	}
	return serverName(&collector.Record{Method: req.Method, Path: req.URL.Path})
}

// fail ends a span of a request that got no answer, or not all of it.
func fail(span trace.Span, ctx context.Context) {
	if ctx.Err() == context.Canceled { // given up by us
		span.SetAttributes(attribute.Bool(attrAborted, true))
	} else {
		span.SetAttributes(attribute.String(attrErrorType, "_OTHER"))
		span.SetStatus(codes.Error, "no complete answer")
	}
	span.End()
}

// turnStart returns the attributes of a turn: the labels that its baggage says.
func turnStart(req *http.Request) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String(attrMethod, httpMethod(req.Method)), text(attrPath, req.URL.Path)}
	for member := range strings.SplitSeq(req.Header.Get("Baggage"), ",") {
		member, _, _ = strings.Cut(member, ";")
		key, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		value, err := url.PathUnescape(value)
		if err != nil {
			continue
		}
		switch key {
		case attrRun, attrPoint, attrConversation, attrQuestion, attrCategory:
			attrs = append(attrs, text(key, value))
		case attrTurn:
			if turn, err := strconv.Atoi(value); err == nil {
				attrs = append(attrs, attribute.Int(attrTurn, turn))
			}
		}
	}
	return attrs
}

// turnBody ends a turn's span at the end of its answer, or when nobody reads on.
type turnBody struct {
	io.ReadCloser
	span trace.Span
	ctx  context.Context // of the request
	once sync.Once
}

// Read implements io.Reader.
func (b *turnBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.once.Do(func() { b.span.End() })
	default:
		b.once.Do(func() { fail(b.span, b.ctx) })
	}
	return n, err
}

// Close implements io.Closer.
func (b *turnBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.span.End() })
	return err
}

// fields are the headers of a request of net/http. It implements collector.Headers.
type fields struct{ http.Header }

// Get returns a field's value; of several, the list of all.
func (f fields) Get(name string) string { return strings.Join(f.Values(name), ",") }

// Set replaces all fields of a name; an empty value removes them.
func (f fields) Set(name, value string) {
	if value == "" {
		f.Del(name)
		return
	}
	f.Header.Set(name, value)
}

// Keys lists the names of all fields.
func (f fields) Keys() []string {
	names := make([]string, 0, len(f.Header))
	for name := range f.Header {
		names = append(names, name)
	}
	return names
}
