package collector

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// A count of tokens that no reply of that size can have is warned of, by turn.
func TestUnbelievableCounts(t *testing.T) {
	f := func(want string, tokens, bytes int, limit string) {
		t.Helper()
		r := &Record{Labels: Labels{Conversation: "3", Turn: 1, HasTurn: true}, Usage: &Usage{CompletionTokens: tokens}, ResponseBytes: bytes}
		if limit != "" {
			r.SamplingSent = map[string]json.RawMessage{"max_tokens": json.RawMessage(limit)}
		}
		got := Point{Records: []*Record{r, {}}}.recordWarnings()
		if want == "" && slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "cannot be") }) {
			t.Errorf("%d tokens: got %q, want no such warning", tokens, got)
		}
		if want = "the server's token counts of 1 turns cannot be (conversation 3 turn 1: " + want + "): do not believe"; !strings.HasSuffix(want, ": ): do not believe") && !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%d tokens: got %q, want %q", tokens, got, want)
		}
	}
	f("1000000000000000 tokens in 5321 bytes", 1e15, 5321, "4096")
	f("1000000000000000 tokens where at most 4096 were asked for", 1e15, 0, "4096")
	f("", 4096, 90000, "4096")
	f("", 4200, 90000, "4096")
	f("", 100, 0, "")
	f("", 100, 100, "null")
}
