package live

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spectap/collector"
)

// row is what the page shows of one request.
type row struct {
	ended    time.Time
	model    string
	route    string
	point    string
	status   int
	err      string
	stream   bool
	ttft     float64 // seconds, NaN where there is none
	duration float64
	tokens   float64
	al       float64
}

// maxText is the longest text that is kept of a Record, in bytes: a client
// chooses the model's name and the point's.
const maxText = 80

func newRow(rec *collector.Record) row {
	r := row{
		ended: rec.Start.Add(rec.Done.Offset), model: shown(rec.Model), route: shown(rec.Route), point: shown(rec.Labels.Point),
		status: rec.Status, err: shown(rec.ErrorKind), stream: rec.Stream,
		ttft: math.NaN(), duration: math.NaN(), tokens: math.NaN(), al: math.NaN(),
	}
	if d, ok := timeToFirst(rec); ok {
		r.ttft = d.Seconds()
	}
	if rec.Done.Known {
		r.duration = rec.Done.Offset.Seconds()
	}
	if n, ok := outputTokens(rec); ok {
		r.tokens = float64(n)
	}
	if steps, accepted, ok := verified(rec); ok {
		r.al = acceptanceLength(uint64(steps), uint64(accepted))
	}
	return r
}

// shown returns a copy of a text that is short, valid UTF-8, and free of
// characters that steer a terminal or the direction of writing.
func shown(s string) string {
	cut := s
	if len(s) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		cut = s[:end]
	}
	clean := strings.Clone(cut)
	if strings.ContainsFunc(cut, steers) || !utf8.ValidString(cut) {
		clean = strings.Map(func(r rune) rune {
			if steers(r) {
				return utf8.RuneError
			}
			return r
		}, cut)
	}
	if len(cut) < len(s) {
		return clean + "…"
	}
	return clean
}

// steers says that a character is none to look at.
func steers(r rune) bool {
	return r < ' ' || r > '~' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// maxKinds are the kinds that a tally tells apart; later ones count as "other".
const maxKinds = 32

// tally counts by kind.
type tally map[string]*kind

type kind struct {
	count uint64
	last  time.Duration // offset from the start
}

// other is the kind of what a tally does not tell apart.
const other = "other"

func (t tally) add(name string, at time.Duration) {
	k := t[name]
	if k == nil && (len(t) >= maxKinds-1 || name != shown(name)) {
		name = other
		k = t[name]
	}
	if k == nil {
		k = &kind{}
		t[strings.Clone(name)] = k
	}
	k.count++
	k.last = at
}
