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
	Intended     float64   // when it was to begin, on the axis of Times: the first of them in a closed loop
	Tokens       int       // of the reply, EOS included
}

// Measured is a Point whose Records were sorted into turns and measured, once for
// all that is made of them.
type Measured struct {
	point Point
	all   []*Record // those of a warm-up among them
	s     selection
}

// Measure sorts the Records of a Point into turns and measures them.
func (p Point) Measure() Measured {
	all := p.Records
	p = p.withoutWarmup()
	return Measured{point: p, all: all, s: p.selected()}
}

// Judged is the same with the requests judged by an SLO.
func (m Measured) Judged(slo *SLO) Measured {
	m.point.Run.SLO = slo
	return m
}

// Conversations are those of Point.Conversations.
func (m Measured) Conversations(view string) []Conversation { return m.s.conversations(m.point, view) }

// Turns returns the turns that are in the figures of the Point, in the order of
// the data set, and what cannot be measured.
func (m Measured) Turns() ([]MeasuredTurn, []Failure) {
	var turns []MeasuredTurn
	for _, c := range m.s.convs {
		for i, t := range c.turns {
			turns = append(turns, MeasuredTurn{
				Conversation: c.index, Turn: i, Category: c.question.Category, Last: i == len(c.turns)-1,
				Record: t.rec, Client: t.client, Server: t.server, Times: t.times, Intended: t.intended, Tokens: t.completion(),
			})
		}
	}
	return turns, m.s.failures
}
