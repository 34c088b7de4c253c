package collector

import "encoding/json"

// Turn is one turn as specdec_bench's metric classes see it.
type Turn struct {
	Lengths []int     // chunk lengths: tokens of each engine step, positive; order has no influence
	Tokens  int       // tokens of the turn for timing.json
	Times   []float64 // seconds; Times[0] is the start, one more for each token-bearing event
	// Intended is when the turn was to begin, on the axis of Times: its moment in the
	// schedule of an open loop, else Times[0].
	Intended float64
	Prompt   string
	Reply    string  // postprocessed, special tokens kept
	Record   *Record // what it was measured from; nil where it was not
}

// Conversation is one request of specdec_bench: all turns of one question.
type Conversation struct {
	Index      int             // position in the data set, from 0
	QuestionID json.RawMessage // the data set's id: JSON number, string or null
	Category   json.RawMessage // the data set's category: JSON string, number or null
	System     *string         // system message; nil where there is none, which is not an empty one
	Turns      []Turn
}
