package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

// replay is one capture of a real server: what was asked, and the bytes of the answer.
type replay struct {
	request  []byte
	response []byte
	reads    []int // sizes of the socket reads
}

func readReplay(t testing.TB, dir string) replay {
	t.Helper()
	var r replay
	var err error
	if r.request, err = os.ReadFile(filepath.Join(dir, "request.http")); err != nil {
		t.Fatal(err)
	}
	if r.response, err = os.ReadFile(filepath.Join(dir, "response.raw")); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "reads.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(lines) {
		var read struct{ Bytes int }
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		r.reads = append(r.reads, read.Bytes)
	}
	return r
}

// streamed lists the captures whose answer is a whole event stream.
func streamed(t testing.TB) map[string]replay {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("tap", "testdata", "vllm-0.32", "*", "response.raw"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	all := map[string]replay{}
	for _, d := range dirs {
		r := readReplay(t, filepath.Dir(d))
		if bytes.Contains(r.response, []byte("text/event-stream")) && bytes.HasSuffix(r.response, []byte("\r\n"+lastChunk)) &&
			bytes.HasPrefix(r.request, []byte("POST ")) && bytes.Count(r.response, []byte("HTTP/1.1 ")) == 1 {
			all[filepath.Base(filepath.Dir(d))] = r
		}
	}
	if len(all) < 10 {
		t.Fatalf("got %d streamed captures, want 10 or more", len(all))
	}
	return all
}

// replayer is an engine that sends a capture in the given pieces. Each piece is
// one write; the network may still join them.
func replayer(t testing.TB, r replay, cuts []int) *scripted {
	return startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for c.request() != nil {
			rest := r.response
			for _, n := range cuts {
				n = min(n, len(rest))
				c.send(string(rest[:n]))
				rest = rest[n:]
			}
			c.send(string(rest))
		}
	})
}

// through sends a capture's request and returns the body of the answer.
func through(t testing.TB, addr string, request []byte) string {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, addr)
	c.send(post(req.URL.RequestURI(), string(text)))
	resp := c.answer("POST")
	return body(t, resp)
}

func bodyOf(t testing.TB, response []byte) string {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(response)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return body(t, resp)
}

// content is a Record without what depends on the clock or the connection.
func content(r *collector.Record) collector.Record {
	c := *r
	c.ID, c.Start, c.Stamps, c.RequestBytes = "", r.Start.Truncate(1<<62), "", 0
	c.UpstreamWritten, c.ResponseHead, c.FirstOutput = collector.Moment{}, collector.Moment{}, collector.Moment{}
	c.LastByte, c.Done, c.ResidenceP50, c.ResidenceMax = collector.Moment{}, collector.Moment{}, collector.Moment{}, collector.Moment{}
	c.Chunks = nil
	for _, one := range r.Chunks {
		c.Chunks = append(c.Chunks, collector.Chunk{Tokens: one.Tokens, Choice: one.Choice})
	}
	return c
}

// golden reads the Record that package tap's own test expects of a capture.
func golden(t testing.TB, name string) *collector.Record {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("tap", "testdata", "vllm-0.32", name+".record.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct { // package tap writes the fields of a Record by their Go names
		Finish, SpecMissing, ErrorKind string
		Chunks                         []collector.Chunk
		Usage                          *collector.Usage
		Spec                           *collector.Spec
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	rec := collector.Record{Finish: r.Finish, SpecMissing: r.SpecMissing, ErrorKind: r.ErrorKind, Chunks: r.Chunks, Usage: r.Usage, Spec: r.Spec}
	return &rec
}

func TestReplayObserve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, r := range streamed(t) {
		t.Run(name, func(t *testing.T) {
			want := bodyOf(t, r.response)
			ways := map[string][]int{"captured reads": r.reads, "one write": nil}
			var random, tiny []int
			for sum := 0; sum < len(r.response); sum += random[len(random)-1] {
				random = append(random, 1+rng.IntN(200))
			}
			for range min(len(r.response), 2000) {
				tiny = append(tiny, 1)
			}
			ways["random"], ways["byte by byte"] = random, tiny
			var first *collector.Record
			for way, cuts := range ways {
				up := replayer(t, r, cuts)
				p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
				if got := through(t, p.addr, r.request); got != want {
					t.Errorf("%s: body differs (-want +got):\n%s", way, cmp.Diff(want, got))
				}
				rec := p.recs.next(t)
				if rec.ResponseBytes != len(want) {
					t.Errorf("%s: got %d response bytes, want %d", way, rec.ResponseBytes, len(want))
				}
				if first == nil {
					first = rec
				} else if d := cmp.Diff(content(first), content(rec)); d != "" {
					t.Errorf("%s: Record differs:\n%s", way, d)
				}
			}
			agree(t, golden(t, name), first)
		})
	}
}

// agree compares a Record with the one that the tap alone makes of the capture.
func agree(t *testing.T, want, got *collector.Record) {
	t.Helper()
	tokens := func(r *collector.Record) (sum []int) {
		for _, c := range r.Chunks {
			sum = append(sum, c.Tokens)
		}
		return sum
	}
	if d := cmp.Diff(tokens(want), tokens(got)); d != "" {
		t.Errorf("chunks differ:\n%s", d)
	}
	if d := cmp.Diff(want.Spec, got.Spec); d != "" {
		t.Errorf("Spec differs:\n%s", d)
	}
	if d := cmp.Diff(want.Usage, got.Usage); d != "" {
		t.Errorf("Usage differs:\n%s", d)
	}
	if want.Finish != got.Finish || want.SpecMissing != got.SpecMissing || want.ErrorKind != got.ErrorKind {
		t.Errorf("got finish %q, missing %q, kind %q; want %q, %q, %q", got.Finish, got.SpecMissing, got.ErrorKind,
			want.Finish, want.SpecMissing, want.ErrorKind)
	}
}

var idAndCreated = regexp.MustCompile(`"id":"[^"]*"|"created":\d+`)

// What usage mode asks for is cut so that the client gets what the same real
// server sends unasked.
func TestReplayInjected(t *testing.T) {
	f := func(asked, unasked string, measure string) {
		t.Run(measure+" "+asked, func(t *testing.T) {
			all := streamed(t)
			injected, plain := all[asked], all[unasked]
			if injected.request == nil || plain.request == nil {
				t.Fatalf("no captures %q and %q", asked, unasked)
			}
			want := idAndCreated.ReplaceAllString(bodyOf(t, plain.response), "-")
			var cuts [][]int
			cuts = append(cuts, injected.reads, nil)
			for _, n := range []int{1, 7, 100, 333} {
				var c []int
				for sum := 0; sum < len(injected.response); sum += n {
					c = append(c, n)
				}
				cuts = append(cuts, c)
			}
			for _, cut := range cuts {
				cfg := testConfig(t, upstreamOf(replayer(t, injected, cut)))
				cfg.Measure = measure
				cfg.Hold = patience // a slow machine must not make it let go
				p := startProxy(t, cfg, nil)
				got := idAndCreated.ReplaceAllString(through(t, p.addr, plain.request), "-")
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("body differs from the uninjected one:\n%s", d)
				}
				rec := p.recs.next(t)
				if rec.Usage == nil || rec.Spec == nil {
					t.Errorf("got usage %v, spec %v, missing %q: the tap must see what is cut", rec.Usage, rec.Spec, rec.SpecMissing)
				}
				if d := cmp.Diff([]string{"stream_options"}, rec.Injected); d != "" {
					t.Errorf("Injected differs:\n%s", d)
				}
			}
		})
	}
	f("nd-chat-stream-usage", "nd-chat-stream-nousage", "usage")
	f("nd-comp-stream-usage", "nd-comp-stream-nousage", "usage")
	f("nd-chat-stream-cont", "nd-chat-stream-nousage", "tokens")
	f("nd-comp-stream-cont", "nd-comp-stream-nousage", "tokens")
}

// A finish event is held for the event after it, but not for ever.
func TestHoldExpires(t *testing.T) {
	all := streamed(t)
	r := all["nd-chat-stream-usage"]
	text := bodyOf(t, r.response)
	at := strings.Index(text, `"finish_reason":"`)
	end := at + strings.Index(text[at:], "\n\n") + 2
	release := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(text[:end]))
		<-release
		c.send(chunk(text[end:]), lastChunk)
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.Measure = "usage"
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	got := make([]byte, end) // the whole finish event, though nothing followed it
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != text[:end] {
		t.Errorf("got %q, %v; want %q", got, err, text[:end])
	}
	close(release)
	if rest := body(t, resp); rest != doneEvent {
		t.Errorf("got %q after the held event, want [DONE] only", rest)
	}
}

// An event stream with a Content-Length is cut, too, and framed anew.
func TestCutFixedLength(t *testing.T) {
	all := streamed(t)
	asked, plain := bodyOf(t, all["nd-chat-stream-usage"].response), bodyOf(t, all["nd-chat-stream-nousage"].response)
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/event-stream", asked) })
	cfg := testConfig(t, upstreamOf(up))
	cfg.Measure = "usage"
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	for range 2 { // the connection stays usable
		c.send(post(chatPath, chatStream))
		got := idAndCreated.ReplaceAllString(body(t, c.answer("POST")), "-")
		if d := cmp.Diff(idAndCreated.ReplaceAllString(plain, "-"), got); d != "" {
			t.Errorf("body differs from the uninjected one:\n%s", d)
		}
	}
}
