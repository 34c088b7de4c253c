package collector

import (
	"bytes"
	"strings"
	"time"
)

// Answered is when a client that reads a stream up to [DONE] had its answer: with
// the last chunk. It may ask again at once, a few milliseconds before the end of the
// body, which is Done. Where there was no [DONE] it is Done.
func (r *Record) Answered() time.Time {
	if n := len(r.Chunks); n > 0 && r.SawDone {
		return r.Start.Add(r.Chunks[n-1].At)
	}
	return r.Start.Add(r.Done.Offset)
}

// ReplyText is the reply as specdec_bench decodes it: special tokens kept, the
// tokenizer's EOS at its end left out. A server leaves EOS out by itself, unless
// include_stop_str_in_output asks for the text of whatever stopped the reply. How
// EOS is spelled is not known here: a last "<...>" without white space is taken
// for it, the shape of <|im_end|>, </s>, <end_of_turn> and the like.
// Source: metric-parity 9.1.
func (r *Record) ReplyText() string {
	atEOS := r.Finish == "stop" && r.StopReason == ""
	if !atEOS || !bytes.Equal(r.SamplingSent["include_stop_str_in_output"], []byte("true")) {
		return r.Reply
	}
	start := strings.LastIndexByte(r.Reply, '<')
	if start < 0 || !strings.HasSuffix(r.Reply, ">") || strings.ContainsAny(r.Reply[start:], " \t\r\n") {
		return r.Reply
	}
	return r.Reply[:start]
}
