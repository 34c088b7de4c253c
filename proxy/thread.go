package proxy

import (
	"spectap/collector"
	"spectap/proxy/tap"
)

// thread hashes the messages of a chat, or the prompt of a completions request.
func (p Policy) thread(m members, route tap.Route, user userTexts) *collector.Thread {
	t := &collector.Thread{}
	add := func(content []byte) {
		t.Before = t.Users
		t.Users = collector.ChainHash(p.HashKey, t.Before, textOf(content))
	}
	if route == tap.RouteCompletions {
		add(user.first)
		return t
	}
	answer := ""
	_, _ = tap.Elements(m.get("messages"), 0, func(message []byte) bool {
		switch content, role := roleAndContent(message); role {
		case "user":
			add(content)
			t.Answer, answer = answer, ""
		case "assistant":
			answer = collector.ReplyHash(p.HashKey, textOf(content))
		}
		return true
	})
	return t
}

// KeyHashes makes the hashes of messages ones that nobody without the key can
// check a text against. It is called before Serve.
func (s *Server) KeyHashes(key []byte) { s.policy.HashKey = key }

// hashReply hashes the texts of a reply into its Record's Thread. What is not to
// be kept of them is dropped by captures.texts.
func (s *Server) hashReply(rec *collector.Record) {
	if t := rec.Thread; t != nil {
		t.Reply = collector.ReplyHash(s.policy.HashKey, rec.Reply)
		if rec.Reasoning != "" {
			t.Thought = collector.ReplyHash(s.policy.HashKey, rec.Reasoning+rec.Reply)
		}
	}
}
