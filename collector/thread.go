package collector

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// What named a conversation (Record.NamedBy).
const (
	NamedByBaggage     = "baggage" // spectap.conversation
	NamedByCorrelation = "x-correlation-id"
	NamedByAffinity    = "x-session-affinity"
)

// Thread holds hashes of a request's messages, by which Recognise joins the turns
// of a conversation that nobody named. The user messages alone make the chain: a
// client may go on after a failed turn without a reply, may put reasoning into its
// history or change a reply, but what the user said stays.
type Thread struct {
	Users  string `json:"users"`            // ChainHash of all user messages, in their order
	Before string `json:"before,omitempty"` // the same without the last: Users of the turn before; "" on a first turn
	// Answer is ReplyHash of the assistant message between the last two user
	// messages; "" where there is none. It equals Reply or Thought of the turn before
	// where the client replays that, and tells equal conversations apart.
	Answer  string `json:"answer,omitempty"`
	Reply   string `json:"reply,omitempty"`   // ReplyHash of the reply's content; "" where it has none
	Thought string `json:"thought,omitempty"` // ReplyHash of reasoning and content joined, as AIPerf replays them; "" without reasoning
}

// HashText returns the hex form of the first 16 bytes of a text's SHA-256, or of
// its HMAC where there is a key.
func HashText(key []byte, text string) string {
	if key == nil {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:16])
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// ChainHash returns the hash of a chain of messages that goes on with a text:
// H(m1) for the first, H(chain + " " + H(m)) for each one more. So the chain of a
// first turn is HashText of its message.
func ChainHash(key []byte, before, text string) string {
	hash := HashText(key, text)
	if before == "" {
		return hash
	}
	return HashText(key, before+" "+hash)
}

// ReplyHash is HashText of a reply without the white space around it, which some
// clients take off; "" for one that has nothing else.
func ReplyHash(key []byte, text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return HashText(key, text)
}
