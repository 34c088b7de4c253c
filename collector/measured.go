package collector

// MeasuredTurn is a turn that is in the figures of a Point, with what they are made of.
type MeasuredTurn struct {
	Conversation int // position in the data set, from 0
	Turn         int // from 0
	Category     string
	Last         bool // of its conversation
	Record       *Record
	Client       TurnLengths
	Server       TurnLengths
	Times        []float64 // seconds; the first is the start, one more for each event with tokens
	Tokens       int       // of the reply, EOS included
}

// MeasuredTurns returns the turns that are in the figures of the Point, in the
// order of the data set, and what cannot be measured.
func (p Point) MeasuredTurns() ([]MeasuredTurn, []Failure) {
	s := p.selected()
	var turns []MeasuredTurn
	for _, c := range s.convs {
		for i, t := range c.turns {
			turns = append(turns, MeasuredTurn{
				Conversation: c.index, Turn: i, Category: c.question.Category, Last: i == len(c.turns)-1,
				Record: t.rec, Client: t.client, Server: t.server, Times: t.times, Tokens: t.completion(),
			})
		}
	}
	return turns, s.failures
}
