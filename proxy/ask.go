package proxy

import (
	"spectap/proxy/tap"
)

// Asked says what the proxy asked for on its own account, so that a Cutter
// takes it out of the answer again. The zero Asked leaves the answer as it is.
type Asked struct {
	Usage      bool // the final usage event
	Continuous bool // the usage members of the events before it
	NullUsage  bool // without Continuous the engine writes "usage":null, so that is put back
	KeepEvents bool // usage members of events are the client's own wish, and no sign of a server that always sends usage
}

// asks reports whether usage can be asked for at all: a stream is a must (vLLM
// answers 400 otherwise), and with several choices no statistics would come
// while every finish event carries a fingerprint of its own. A request without
// messages or prompt is refused, by vLLM with the number of its members.
func (p Policy) asks(route tap.Route, engine Engine, req Request, sent members) bool {
	return sent.any("messages", "prompt", "prompt_embeds") && (p.Measure == MeasureUsage || p.Measure == MeasureTokens) &&
		(route == tap.RouteChat || route == tap.RouteCompletions) &&
		req.Stream && req.Choices == 1 && engine.May("stream_options")
}

// askUsage returns the stream_options to send for the client's own (nil: absent
// or null), and what then has to be cut. nil means: leave them. The rules for
// what the client would have got are those of wire-formats.md 1.2:
//
//	include_usage explicitly false   the client's decision
//	include_usage true               the final event is the client's; tokens adds the counts on events
//	absent, null, {}                 asked for and cut
//	continuous_usage_stats alone     yields nothing on vLLM, so both are cut; on SGLang it works by itself
func askUsage(options []byte, measure Measure, route tap.Route, engine Engine) ([]byte, Asked) {
	if options != nil && options[0] != '{' {
		return nil, Asked{} // the server will refuse it
	}
	given := options != nil
	if !given {
		options = []byte("{}")
	}
	m, err := readMembers(nil, options, func(string) bool { return true })
	if err != nil {
		return nil, Asked{}
	}
	usage, continuous := m.get("include_usage"), m.get("continuous_usage_stats")
	_, said := m.find("include_usage")
	if engine == EngineTRTLLM && given && !said {
		usage = []byte("true") // its default where stream_options is there
	}
	var edits []Edit
	var asked Asked
	if usage == nil {
		edits = append(edits, Edit{"include_usage", []byte("true")})
		asked.Usage = true
	} else if !isTrue(usage) {
		return nil, Asked{}
	}
	if isTrue(continuous) {
		asked, ok := ownContinuous(asked, engine)
		if !ok || !asked.Usage {
			return nil, Asked{}
		}
		return spliceOptions(options, edits), asked
	}
	if measure == MeasureTokens && continuous == nil && engine.May("continuous_usage_stats") {
		edits = append(edits, Edit{"continuous_usage_stats", []byte("true")})
		asked.Continuous = true
		asked.NullUsage = writesNullUsage(engine, route)
	}
	if len(edits) == 0 {
		return nil, Asked{}
	}
	return spliceOptions(options, edits), asked
}

// ownContinuous decides for a client that asked for counts on events itself
// but not for the final event. ok is false where nobody can say what it would have got.
func ownContinuous(asked Asked, engine Engine) (Asked, bool) {
	switch engine {
	case EngineVLLM:
		asked.Continuous = asked.Usage
		return asked, true
	case EngineSGLang:
		asked.KeepEvents = true
		return asked, true
	case EngineLlamaCpp:
		return asked, true
	}
	return asked, false
}

// writesNullUsage reports whether an engine writes "usage":null on events that
// carry no usage: SGLang always, TensorRT-LLM on completions.
func writesNullUsage(engine Engine, route tap.Route) bool {
	return engine == EngineSGLang || engine == EngineTRTLLM && route == tap.RouteCompletions
}

func spliceOptions(options []byte, edits []Edit) []byte {
	out, err := Splice(make([]byte, 0, len(options)+64), options, edits)
	if err != nil {
		return nil
	}
	return out
}
