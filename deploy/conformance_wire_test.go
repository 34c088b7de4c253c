package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder stands between spectap and a real server and keeps what passes:
//
//	client ─▶ spectap ─▶ recorder ─▶ vLLM
type recorder struct {
	url string
	ids bool // the server is asked for its token ids, too

	mu  sync.Mutex
	all []*exchange
}

// exchange is a chat request as spectap sent it and the bytes of its answer.
type exchange struct {
	request []byte
	mu      sync.Mutex
	answer  bytes.Buffer
}

type exchangeKey struct{}

// startRecorder serves a recorder until the test ends.
func startRecorder(t *testing.T, server string, ids bool) *recorder {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{ids: ids}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: r.keep,
		FlushInterval:  -1,                                                // each event as it comes
		Transport:      &http.Transport{IdleConnTimeout: 2 * time.Second}, // vLLM closes idle connections after 5 s
	}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && q.URL.Path == "/v1/chat/completions" {
			q = r.note(q)
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(listening.Close)
	r.url = listening.URL
	return r
}

// note keeps the request, and asks for token ids.
func (r *recorder) note(q *http.Request) *http.Request {
	body, err := io.ReadAll(q.Body)
	var members map[string]json.RawMessage
	if err == nil && r.ids && json.Unmarshal(body, &members) == nil {
		members["return_token_ids"] = json.RawMessage("true")
		body, _ = json.Marshal(members) // was just parsed
	}
	x := &exchange{request: body}
	r.mu.Lock()
	r.all = append(r.all, x)
	r.mu.Unlock()
	q = q.WithContext(context.WithValue(q.Context(), exchangeKey{}, x))
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	q.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return q
}

// keep copies the answer as it passes.
func (r *recorder) keep(answer *http.Response) error {
	if x, ok := answer.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(answer.Body, x), answer.Body}
	}
	return nil
}

// Write implements io.Writer.
func (x *exchange) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answer.Write(p)
}

// message is one of a request's, its text as the client sent it.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is the content, which is a text or a list of parts.
func (m message) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(m.Content, &parts) // anything else is no text
	for _, part := range parts {
		text += part.Text
	}
	return text
}

// wireReply is a request and its answer as vLLM has them.
type wireReply struct {
	Messages   []message
	ID         string
	Content    string
	PromptIDs  []int // where they were asked for
	IDs        []int
	Prompt     int // tokens
	Completion int
	Block      *wireBlock // nil: no statistics
}

type wireBlock struct {
	Steps     int   `json:"num_spec_steps"`
	Accepted  int   `json:"num_accepted_draft_tokens"`
	Drafted   int   `json:"num_draft_tokens"`
	Histogram []int `json:"acceptance_histogram"`
}

// wireAnswer is an event, or a whole answer.
type wireAnswer struct {
	ID        string
	PromptIDs []int `json:"prompt_token_ids"`
	Choices   []struct {
		Delta, Message struct{ Content string }
		IDs            []int `json:"token_ids"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Metrics *struct {
		Block *wireBlock `json:"speculative_decoding"`
	}
}

// replies parses all that passed.
func (r *recorder) replies(t *testing.T) (out []wireReply) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		out = append(out, x.reply(t))
	}
	return out
}

func (x *exchange) reply(t *testing.T) wireReply {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	var request struct {
		Messages []message
		Stream   bool
	}
	if err := json.Unmarshal(x.request, &request); err != nil {
		t.Fatalf("cannot read the request %q: %v", x.request, err)
	}
	reply := wireReply{Messages: request.Messages}
	if !request.Stream {
		reply.add(t, x.answer.Bytes())
		return reply
	}
	for line := range strings.Lines(x.answer.String()) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			reply.add(t, []byte(data))
		}
	}
	return reply
}

func (w *wireReply) add(t *testing.T, text []byte) {
	t.Helper()
	var a wireAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("cannot read the answer %q: %v", text, err)
	}
	w.ID = a.ID
	if a.PromptIDs != nil {
		w.PromptIDs = a.PromptIDs
	}
	for _, c := range a.Choices {
		w.Content += c.Delta.Content + c.Message.Content
		w.IDs = append(w.IDs, c.IDs...)
	}
	if a.Usage != nil {
		w.Prompt, w.Completion = a.Usage.Prompt, a.Usage.Completion
	}
	if a.Metrics != nil && a.Metrics.Block != nil {
		w.Block = a.Metrics.Block
	}
}

// question is the index of the question that the request asks, false for another
// request; turn counts from 0.
func (w wireReply) question() (question, turn int, ok bool) {
	turn = -1
	for _, m := range w.Messages {
		if m.Role != "user" {
			continue
		}
		if turn++; turn > 0 {
			continue
		}
		for i, turns := range conformanceQuestions {
			if turns[0] == m.text() {
				question, ok = i, true
			}
		}
	}
	return question, turn, ok
}

// wireSums are the server's counters as its own answers have them.
func wireSums(replies []wireReply) serverCounters {
	c := serverCounters{positions: map[string]float64{}}
	for _, w := range replies {
		c.finished++
		c.generated += float64(w.Completion)
		c.prompts += float64(w.Prompt)
		if w.Block == nil {
			continue
		}
		c.drafts += float64(w.Block.Steps)
		c.drafted += float64(w.Block.Drafted)
		c.accepted += float64(w.Block.Accepted)
		for accepted, steps := range w.Block.Histogram {
			for position := range accepted {
				c.positions[strconv.Itoa(position)] += float64(steps)
			}
		}
	}
	return c
}
