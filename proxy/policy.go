package proxy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"spectap/collector"
	"spectap/proxy/tap"
)

// Measure says how far a request may be touched for the sake of measuring.
type Measure string

// The ways to measure (SPECTAP_MEASURE).
const (
	MeasureObserve Measure = "observe" // touch nothing
	MeasureUsage   Measure = "usage"   // ask for the final usage event where the client left it open
	MeasureTokens  Measure = "tokens"  // ask for token counts on every event too
)

// Policy says what is changed in a request before it goes upstream.
type Policy struct {
	Measure  Measure
	Fill     map[string]json.RawMessage // members to set where the client left them unset or null
	Override bool                       // Fill and MaxTokens win over the client
	// MaxTokens limits the reply where the client did not; 0 sets nothing. Its
	// name is max_completion_tokens on chat and max_tokens on completions, and
	// on chat the client has set it by either name.
	MaxTokens int
	KeepText  bool   // fill Request.Prompt
	HashUser  bool   // fill Request.UserHash and Thread
	HashKey   []byte // of the hashes; nil: none
}

var bom = []byte("\xef\xbb\xbf")

// Apply returns the body to send upstream and what it says. Where nothing is
// changed, out is body itself, otherwise dst with the new body appended. Only
// chat and completions are rewritten; a body that is no JSON object is sent as
// it came and Request.Problem says so. A byte order mark, which vLLM accepts,
// is kept. Applying a policy to its own output changes nothing more.
func (p Policy) Apply(dst, body []byte, route tap.Route, engine Engine) (out []byte, req Request) {
	text := bytes.TrimPrefix(body, bom)
	var room [32]member
	m, err := readMembers(room[:0], text, p.wants)
	p.describe(&req, m, route)
	if route != tap.RouteChat && route != tap.RouteCompletions {
		return body, req
	}
	if err != nil {
		if p.Measure != MeasureObserve || len(p.Fill) > 0 || p.MaxTokens > 0 {
			req.Problem = "request body is not a JSON object"
		}
		return body, req
	}
	edits := p.fills(m, route, engine)
	sent := withEdits(m, edits)
	req.Stream, req.Choices = isTrue(sent.get("stream")), choices(sent)
	if p.asks(route, engine, req, sent) {
		if value, asked := askUsage(sent.get("stream_options"), p.Measure, route, engine); value != nil {
			edits = append(edits, Edit{"stream_options", value})
			sent = withEdits(sent, edits[len(edits)-1:])
			req.Asked = asked
		}
	}
	if len(edits) == 0 {
		return body, req
	}
	out, err = Splice(append(dst, body[:len(body)-len(text)]...), text, edits)
	if err != nil { // readMembers read the same bytes, so this cannot be
		req.Problem, req.Asked = "request body is not a JSON object", Asked{}
		return body, req
	}
	req.Rewritten = true
	req.SamplingSent = sampling(sent)
	req.Injected = names(edits)
	return out, req
}

// wants reports whether the policy or the Request needs a top-level member.
func (p Policy) wants(name string) bool {
	if samplingMember(name) {
		return true
	}
	switch name {
	case "model", "messages", "prompt", "prompt_embeds":
		return true
	}
	_, ok := p.Fill[name]
	return ok
}

// describe fills what the client's members say.
func (p Policy) describe(req *Request, m members, route tap.Route) {
	req.Stream, req.Choices = isTrue(m.get("stream")), choices(m)
	if model := m.get("model"); len(model) > 1 && model[0] == '"' {
		req.Model = bounded(unescape(model[1:len(model)-1]), longestName)
	}
	req.SamplingClient = sampling(m)
	req.SamplingSent = req.SamplingClient
	user := readUser(m, route)
	req.UserTurns = user.count
	if p.HashUser && user.count > 0 {
		req.Thread = p.thread(m, route, user)
		req.UserHash = collector.HashText(p.HashKey, textOf(user.first))
	}
	if p.KeepText {
		req.Prompt = textOf(user.last)
	}
}

// fills returns the edits that set Fill and MaxTokens, in the order of their names.
func (p Policy) fills(m members, route tap.Route, engine Engine) []Edit {
	var edits []Edit
	for name, value := range p.Fill {
		if engine.May(name) && p.open(m, name, route) {
			edits = append(edits, Edit{name, value})
		}
	}
	if name := limitName(route); p.MaxTokens > 0 && p.Fill[name] == nil && p.open(m, name, route) {
		edits = append(edits, Edit{name, strconv.AppendInt(nil, int64(p.MaxTokens), 10)})
	}
	slices.SortFunc(edits, func(a, b Edit) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	edits = dropRivals(edits, m, route)
	return slices.DeleteFunc(edits, func(e Edit) bool {
		one, ok := m.find(e.Key)
		return ok && one.times == 1 && bytes.Equal(one.value, e.Value)
	})
}

// open reports whether a member may be set: the client left it unset, or the policy wins.
func (p Policy) open(m members, name string, route tap.Route) bool {
	if p.Override {
		return true
	}
	if other := rivalName(name, route); other != "" && m.get(other) != nil {
		return false
	}
	return m.get(name) == nil
}

// dropRivals deletes the client's other spelling of a token limit that is set,
// because an engine would take one of the two by its own rule.
func dropRivals(edits []Edit, m members, route tap.Route) []Edit {
	for _, e := range edits {
		other := rivalName(e.Key, route)
		if _, ok := m.find(other); ok && other != "" && editOf(edits, other) < 0 {
			return append(edits, Edit{Key: other})
		}
	}
	return edits
}

// rivalName returns the other name of the token limit on a route that knows both.
func rivalName(name string, route tap.Route) string {
	switch {
	case route != tap.RouteChat:
		return ""
	case name == "max_tokens":
		return "max_completion_tokens"
	case name == "max_completion_tokens":
		return "max_tokens"
	}
	return ""
}

func limitName(route tap.Route) string {
	if route == tap.RouteChat {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// withEdits returns the members as they stand after edits.
func withEdits(m members, edits []Edit) members {
	if len(edits) == 0 {
		return m
	}
	sent := slices.Clone(m)
	for _, e := range edits {
		sent = slices.DeleteFunc(sent, func(one member) bool { return one.key == e.Key })
		if e.Value != nil {
			sent = append(sent, member{key: e.Key, value: e.Value, times: 1})
		}
	}
	return sent
}

func names(edits []Edit) []string {
	list := make([]string, len(edits))
	for i, e := range edits {
		list[i] = e.Key
	}
	slices.Sort(list)
	return list
}
