package proxy

import (
	"errors"
	"fmt"
	"net"

	"github.com/valyala/fasthttp"
)

// refuse answers what is no request: there is no Record of it.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, no *failure) {
	s.counts.refused.Add(1)
	s.log.Warn().Int("status", no.status).Str("error", no.message).Msg("request refused")
	no.write(ctx)
	if no.status != fasthttp.StatusRequestTimeout { // a client that sends nothing is not waited for
		linger(ctx.Conn())
	}
}

// parseFailure answers what fasthttp could not read as a request.
func (s *Server) parseFailure(c net.Conn, err error) *failure {
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return s.bodyTooLarge()
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		return reject(fasthttp.StatusRequestHeaderFieldsTooLarge, "header_too_large",
			fmt.Sprintf("request head is larger than %d bytes; see SPECTAP_MAX_HEAD_BYTES", s.cfg.MaxHeadBytes))
	case isTimeout(err):
		return s.tooSlow(c)
	case brokeOff(err):
		return reject(fasthttp.StatusBadRequest, "bad_request", "connection ended inside the request")
	}
	return reject(fasthttp.StatusBadRequest, "bad_request", "request is not valid HTTP/1.1")
}

func (s *Server) bodyTooLarge() *failure {
	return reject(fasthttp.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("request body is larger than %d bytes; see SPECTAP_MAX_BODY_BYTES", s.cfg.MaxBodyBytes))
}

// tooSlow tells which limit of a client's connection was hit.
func (s *Server) tooSlow(c net.Conn) *failure {
	text := fmt.Sprintf("request head did not come within %s; see SPECTAP_REQUEST_HEAD_TIMEOUT", s.cfg.RequestHeadTimeout)
	if cc, ok := c.(*clientConn); ok && cc.is(inBody) {
		text = fmt.Sprintf("request body brought no data for %s; see SPECTAP_REQUEST_BODY_TIMEOUT", s.cfg.RequestBodyTimeout)
	}
	return reject(fasthttp.StatusRequestTimeout, "request_timeout", text)
}

// expect answers a client that asks before it sends a body (Expect: 100-continue).
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if framedLength(&ctx.Request.Header) <= s.cfg.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	no := s.bodyTooLarge()
	s.refuse(ctx, no)
	return no.status
}

// admit counts a model call in, until leave; or says why there is no room.
func (s *Server) admit(f *flight) *failure {
	if !f.measured || s.cfg.MaxInFlight == 0 {
		return nil
	}
	if s.calls.Add(1) > int64(s.cfg.MaxInFlight) {
		s.calls.Add(-1)
		no := reject(fasthttp.StatusServiceUnavailable, "overloaded",
			fmt.Sprintf("%d model calls are on their way, the most that SPECTAP_MAX_IN_FLIGHT allows; try again later", s.cfg.MaxInFlight))
		no.again = true
		return no
	}
	f.admitted = true
	return nil
}

// leave counts a flight out.
func (s *Server) leave(f *flight) {
	if f.admitted {
		f.admitted = false
		s.calls.Add(-1)
	}
}
