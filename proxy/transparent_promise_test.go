package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomBytes are bytes of all values.
func randomBytes(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// randomFields are fields of names that mean nothing, of one hop or not.
func randomFields(rng *rand.Rand) (text string) {
	for range rng.IntN(12) {
		name := strings.Split("x-a X-B x-C accept-language authorization cache-control ETag X-Request-ID baggage x_d", " ")[rng.IntN(10)]
		value := strings.Trim(strings.Map(func(r rune) rune { return ' ' + r%95 }, randomBytes(rng, rng.IntN(40))), " ")
		text += name + ": " + value + "\r\n"
	}
	return text
}

// framed puts a body behind a head, with its length or in chunks of any size.
func framed(rng *rand.Rand, head, body string) string {
	if rng.IntN(2) == 0 {
		return fmt.Sprintf("%scontent-length: %d\r\n\r\n%s", head, len(body), body)
	}
	head += "transfer-encoding: chunked\r\n\r\n"
	for len(body) > 0 {
		n := 1 + rng.IntN(len(body))
		head, body = head+chunk(body[:n]), body[n:]
	}
	return head + lastChunk
}

// Promise 1: body bytes are unchanged in both directions, whatever they are, and
// so are header fields, save the rows of testdata/differences.txt.
func TestPromiseBytesUnchanged(t *testing.T) {
	rows := readAllowances(t)
	th := openTheatre(t)
	rng := rand.New(rand.NewPCG(6, 1))
	for _, mode := range []string{"observe", "usage", "tokens"} {
		cfg := testConfig(t, upstreamOf(th.scripted))
		cfg.Measure = mode
		p := startProxy(t, cfg, nil)
		for i := range 40 {
			path := []string{chatPath, "/v1/completions", "/v1/embeddings", "/any"}[i%4]
			request := framed(rng, "POST "+path+" HTTP/1.1\r\nHost: h\r\n"+randomFields(rng), randomBytes(rng, rng.IntN(1<<(2+i/2))))
			kind := []string{"application/json", "text/event-stream", "application/octet-stream"}[i%3]
			answer := reply{head: framed(rng, "HTTP/1.1 200 OK\r\ncontent-type: "+kind+"\r\n"+randomFields(rng), randomBytes(rng, rng.IntN(1<<(2+i/2))))}
			sc := scene{name: "random", request: []string{request}, answer: fixed(answer)}
			direct, through := th.play(t, th.ln.Addr().String(), &sc, waits{patience, patience}), th.play(t, p.addr, &sc, waits{patience, patience})
			for _, d := range compareViews(direct, through) {
				if allowedBy(rows, "random in "+mode, d) == nil {
					t.Errorf("%s, %.200q answered by %.200q: %s", mode, request, answer.head, d)
				}
			}
		}
	}
}

// Promise 2: the events of a stream keep their order and their boundaries. Each
// event that is written alone arrives alone, in one chunk, before the next is
// sent; one that is written in pieces is not taken for several.
func TestPromiseEventsKept(t *testing.T) {
	th := openTheatre(t)
	rng := rand.New(rand.NewPCG(6, 2))
	for _, mode := range []string{"observe", "usage", "tokens"} {
		cfg := testConfig(t, upstreamOf(th.scripted))
		cfg.Measure = mode
		p := startProxy(t, cfg, nil)
		var events []string
		var sizes []int
		for i := range 400 {
			event := tokenEvent(strings.Repeat("x", rng.IntN(20)))
			switch {
			case i%50 == 7:
				event = tokenEvent(strings.Repeat("x", 3000)) // below one read
			case i%20 == 3:
				event = ": keep-alive\n\n"
			case i%20 == 5:
				event = "event: x\ndata: " + fmt.Sprint(i) + "\n\n"
			}
			events, sizes = append(events, event), append(sizes, len(event))
		}
		events, sizes = append(events, doneEvent), append(sizes, len(doneEvent))
		sc := scene{name: "events", request: []string{post(chatPath, chatStream)}, answer: fixed(reply{head: streamHead, parts: events, chunked: true, tail: lastChunk})}
		v := th.play(t, p.addr, &sc, waits{patience, patience})
		if v.late {
			t.Errorf("%s: an event waited for the next", mode)
		}
		if got := v.answers[0]; got.body != strings.Join(events, "") || !slices.Equal(got.chunks, sizes) {
			t.Errorf("%s: got %d bytes in chunks of %v, want one chunk an event: %v", mode, len(got.body), got.chunks, sizes)
		}
	}
}
