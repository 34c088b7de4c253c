package deploy

import (
	"encoding/json"
	"slices"
	"testing"
)

// endOfReply is the model's EOS token.
const endOfReply = 2

// conformHistory: with token ids asked for, the prompt of a second turn is, token
// for token, what specdec_bench sends: the template on the history with the
// decoded reply, EOS alone left out.
func conformHistory(t *testing.T, k kit, server realServer) {
	for _, c := range realClients {
		if c.turns < 2 || c.command != nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			program, _ := c.program(t, k)
			through := startRecorder(t, server.url, true)
			dir := runSpectap(t, k, c.arguments(k, program, through.url, writeConformanceQuestions(t, c.turns)))
			readRealPoint(t, dir).complete(t, c)
			server.histories(t, through.replies(t), c.turns)
		})
	}
}

// histories looks at the prompts of all turns of all questions.
func (s realServer) histories(t *testing.T, replies []wireReply, turns int) {
	t.Helper()
	type place struct{ question, turn int }
	asked := map[place]wireReply{}
	for _, w := range replies {
		if question, turn, ok := w.question(); ok {
			asked[place{question, turn}] = w
		}
	}
	if want := turns * len(conformanceQuestions); len(asked) != want {
		t.Errorf("got %d turns of the questions, want %d", len(asked), want)
	}
	byIDs, atEOS, tokens := 0, 0, 0
	for at, w := range asked {
		history := []message{user(at.question, 0)}
		if at.turn > 0 {
			before := asked[place{at.question, at.turn - 1}]
			history = append(slices.Clone(history), quoted("assistant", s.decoded(t, before)), user(at.question, 1))
			if n := len(before.IDs); n > 0 && before.IDs[n-1] == endOfReply {
				atEOS++
			}
		}
		want := s.tokenize(t, history)
		if got := s.tokenize(t, w.Messages); !slices.Equal(got, want) {
			t.Errorf("question %d, turn %d: the messages sent are tokens %v, want %v", at.question, at.turn, got, want)
		}
		if w.Prompt != len(want) {
			t.Errorf("question %d, turn %d: the server counted %d tokens of the prompt, want %d", at.question, at.turn, w.Prompt, len(want))
		}
		if w.PromptIDs != nil {
			byIDs++
			if !slices.Equal(w.PromptIDs, want) {
				t.Errorf("question %d, turn %d: the server's prompt is %v, want %v", at.question, at.turn, w.PromptIDs, want)
			}
		}
		tokens += len(want)
	}
	t.Logf("%d prompts of %d tokens as specdec_bench sends them", len(asked), tokens)
	if byIDs > 0 {
		t.Logf("%d of them held against the server's token ids, %d after a reply that ended at EOS", byIDs, atEOS)
	}
}

// decoded is the reply as specdec_bench decodes it; without token ids, as it came.
func (s realServer) decoded(t *testing.T, w wireReply) string {
	t.Helper()
	ids := w.IDs
	if len(ids) == 0 {
		return w.Content
	}
	if ids[len(ids)-1] == endOfReply {
		ids = ids[:len(ids)-1]
	}
	var answer struct{ Prompt string }
	s.ask(t, "/detokenize", map[string]any{"model": servedModel, "tokens": ids}, &answer)
	return answer.Prompt
}

// tokenize applies the chat template.
func (s realServer) tokenize(t *testing.T, messages []message) []int {
	t.Helper()
	var answer struct{ Tokens []int }
	s.ask(t, "/tokenize", map[string]any{"model": servedModel, "messages": messages, "add_generation_prompt": true}, &answer)
	return answer.Tokens
}

func user(question, turn int) message { return quoted("user", conformanceQuestions[question][turn]) }

func quoted(role, text string) message {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can be encoded
	}
	return message{role, content}
}
