package collector

import (
	"encoding/json"
	"testing"
)

// Only the EOS that include_stop_str_in_output brought is left out.
func TestReplyText(t *testing.T) {
	f := func(include, finish, stopReason, reply, want string) {
		t.Helper()
		r := &Record{Finish: finish, StopReason: stopReason, Reply: reply}
		if include != "" {
			r.SamplingSent = map[string]json.RawMessage{"include_stop_str_in_output": json.RawMessage(include)}
		}
		if got := r.ReplyText(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f("true", "stop", "", "a <b> c<|im_end|>", "a <b> c")
	f("true", "stop", "", "<|start|>a</s>", "<|start|>a")
	f("true", "stop", "", "a<｜end▁of▁sentence｜>", "a")
	f("true", "stop", "", "<|im_end|>", "")
	f("true", "stop", "token:9", "a<|eom_id|>", "a<|eom_id|>") // another stop token is replayed by specdec_bench too
	f("true", "length", "", "a<|im_end|>", "a<|im_end|>")
	f("true", "stop", "", "a < b and c>", "a < b and c>")
	f("true", "stop", "", "a", "a")
	f("false", "stop", "", "a<|x|>", "a<|x|>")
	f("", "stop", "", "a<|x|>", "a<|x|>") // the server left EOS out
}
