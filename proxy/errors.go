package proxy

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// failure is an answer of our own: an OpenAI-shaped error that never carries
// content, header values or a query.
type failure struct {
	status  int
	kind    string // collector.Err constant
	code    string // "type" of the error is "spectap_" + code
	message string
	again   bool // another attempt soon may succeed
	unread  bool // the request was not read to its end
}

// Error implements error.
func (f *failure) Error() string { return f.message }

// ends says whether the connection ends with the answer: what follows a request
// that was not understood, or not read, could be anything.
func (f *failure) ends() bool {
	return f.kind == collector.ErrRequestRejected && (f.unread || !f.again)
}

func reject(status int, code, message string) *failure {
	return &failure{status: status, kind: collector.ErrRequestRejected, code: code, message: message}
}

// write answers with the failure.
func (f *failure) write(ctx *fasthttp.RequestCtx) {
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": f.message, "type": "spectap_" + f.code, "param": nil, "code": f.status,
	}})
	if err != nil {
		panic("BUG: cannot encode an error: " + err.Error())
	}
	ctx.Response.Reset()
	ctx.Response.Header.SetNoDefaultContentType(true)
	ctx.SetStatusCode(f.status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(body)
	if f.again {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if f.ends() {
		ctx.SetConnectionClose()
	}
}

// upstreamFailure says in our words why no answer came. The cause may quote
// bytes of the answer, so its text is passed on for dial errors only.
func upstreamFailure(f *flight, stage string, err error) *failure {
	switch cause := f.cancelled(); {
	case cause == errClientGone:
		return &failure{status: 499, kind: collector.ErrClientGone, code: "client_gone", message: "client closed its connection before the answer"}
	case cause == errDrained:
		return &failure{status: fasthttp.StatusServiceUnavailable, kind: collector.ErrDrained, code: "draining", message: "proxy is shutting down"}
	}
	timeout := isTimeout(err)
	switch {
	case stage == stageDial && timeout:
		return &failure{status: fasthttp.StatusGatewayTimeout, kind: collector.ErrUpstreamTimeout, code: "upstream_timeout", message: "cannot connect to the upstream in time; see SPECTAP_CONNECT_TIMEOUT"}
	case stage == stageDial && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)):
		return &failure{status: fasthttp.StatusServiceUnavailable, kind: collector.ErrUpstreamRefused, code: "overloaded", again: true,
			message: "cannot connect to the upstream: the proxy has no free file descriptor; raise its limit of open files (ulimit -n)"}
	case stage == stageDial:
		return &failure{status: fasthttp.StatusBadGateway, kind: collector.ErrUpstreamRefused, code: "upstream_refused", message: "cannot connect to the upstream: " + dialCause(err)}
	case timeout:
		return &failure{status: fasthttp.StatusGatewayTimeout, kind: collector.ErrUpstreamTimeout, code: "upstream_timeout", message: "upstream sent no response head in time; see SPECTAP_HEAD_TIMEOUT"}
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		return &failure{status: fasthttp.StatusBadGateway, kind: collector.ErrUpstreamProtocol, code: "upstream_protocol", message: "upstream's response head is larger than SPECTAP_MAX_HEAD_BYTES"}
	case stage == stageProtocol:
		return &failure{status: fasthttp.StatusBadGateway, kind: collector.ErrUpstreamProtocol, code: "upstream_protocol", message: "upstream's answer is not HTTP/1.1"}
	}
	return &failure{status: fasthttp.StatusBadGateway, kind: collector.ErrUpstreamReset, code: "upstream_reset", message: "upstream closed the connection before its response head"}
}

// dialCause returns the system's words without the addresses.
func dialCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout) || errors.As(err, &ne) && ne.Timeout()
}
