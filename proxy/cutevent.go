package proxy

import (
	"bytes"

	"spectap/proxy/tap"
)

// event is what a Cutter has to know of one event. Indices count from the event's first byte.
type event struct {
	filled bool // choices is there and not empty
	empty  bool // choices is []
	finish bool // a choice has a finish reason
	close  int  // closing brace

	hasUsage                  bool // usage is there and not null
	usageFrom, usageTo        int  // the member with the comma that goes with it
	usageValue, usageValueEnd int

	fingerprint, timings []byte // raw values, nil where absent or null
	lacks                lacks
}

// lacks names the members that an event does not have.
type lacks struct{ fingerprint, timings bool }

// isUsage reports whether the event is the one that include_usage adds.
func (e *event) isUsage() bool { return e.empty && e.hasUsage }

// look reads an event. One without exactly one line of data, with a name, or
// whose data is no JSON object is the zero event, which passes unchanged.
func look(unit []byte) event {
	from, to, ok := dataLine(unit)
	if !ok {
		return event{}
	}
	data := unit[:to]
	e := event{lacks: lacks{fingerprint: true, timings: true}}
	last := -1 // end of the member before
	comma := false
	end, err := tap.Members(data, from, func(key, value []byte, start, stop int) bool {
		if comma { // usage was the first member: the comma after it goes
			e.usageTo, comma = start, false
		}
		switch string(key) {
		case "choices":
			e.readChoices(value)
		case "usage":
			if e.hasUsage = string(value) != "null"; e.hasUsage {
				e.usageFrom, e.usageTo = start, stop
				e.usageValue, e.usageValueEnd = stop-len(value), stop
				if comma = last < 0; !comma {
					e.usageFrom = last
				}
			}
		case "system_fingerprint":
			e.fingerprint, e.lacks.fingerprint = set(value), false
		case "timings":
			e.timings, e.lacks.timings = set(value), false
		}
		last = stop
		return true
	})
	if err != nil || tap.Space(data, end) != to {
		return event{}
	}
	e.close = end - 1
	return e
}

// surelyPlain says, at a tenth of look's price, of most events of a stream what
// look would say: nothing about usage, and no finish reason. The texts that it
// looks for cannot stand in a JSON string, where their quotes would be escaped.
func surelyPlain(unit []byte) bool {
	if bytes.Contains(unit, []byte(`"usage"`)) || !bytes.Contains(unit, []byte(`"choices":[{`)) {
		return false
	}
	_, rest, ok := bytes.Cut(unit, []byte(`"finish_reason"`))
	return ok && bytes.HasPrefix(rest, []byte(":null")) && !bytes.Contains(rest, []byte(`"finish_reason"`))
}

func set(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}

func (e *event) readChoices(value []byte) {
	if value[0] != '[' {
		return
	}
	e.empty = value[tap.Space(value, 1)] == ']'
	e.filled = !e.empty
	if e.empty {
		return
	}
	_, _ = tap.Elements(value, 0, func(choice []byte) bool {
		if choice[0] == '{' {
			_, _ = tap.Members(choice, 0, func(key, value []byte, _, _ int) bool {
				if string(key) != "finish_reason" {
					return true
				}
				e.finish = e.finish || len(value) > 2 && value[0] == '"'
				return false
			})
		}
		return !e.finish
	})
}

// dataLine returns where the data of an event stands. ok is false unless the
// event has one line of data and no name.
func dataLine(unit []byte) (from, to int, ok bool) {
	for at := 0; at < len(unit); {
		end, next := lineEnd(unit, at)
		if end < 0 {
			end, next = len(unit), len(unit)
		}
		line := unit[at:end]
		skipped := len(line) - len(bytes.TrimPrefix(line, bom))
		line = line[skipped:]
		switch {
		case bytes.HasPrefix(line, []byte("data:")):
			if ok {
				return 0, 0, false
			}
			from, to, ok = at+skipped+len("data:"), end, true
		case bytes.HasPrefix(line, []byte("event")):
			return 0, 0, false
		case bytes.Equal(line, []byte("data")):
			return 0, 0, false
		}
		at = next
	}
	return from, to, ok
}

// choicesFilled reports whether the beginning of an event shows that its
// choices is not empty, or that its data is no JSON object.
func choicesFilled(part []byte) bool {
	data, ok := bytes.CutPrefix(bytes.TrimPrefix(part, bom), []byte("data:"))
	if !ok {
		return false
	}
	at := tap.Space(data, 0)
	if at == len(data) {
		return false
	}
	if data[at] != '{' {
		return true
	}
	last, filled, found := at+1, false, false
	_, _ = tap.Members(data, at, func(key, value []byte, _, stop int) bool {
		last = stop
		found = string(key) == "choices"
		filled = found && value[0] == '[' && value[tap.Space(value, 1)] != ']'
		return !found
	})
	if found {
		return filled
	}
	return opensFilled(data[last:])
}

// opensFilled reports whether b goes on with a choices member whose list has begun with an element.
func opensFilled(b []byte) bool {
	b = skipByte(b, ',', true)
	b, ok := bytes.CutPrefix(b[tap.Space(b, 0):], []byte(`"choices"`))
	if !ok {
		return false
	}
	b = skipByte(b, ':', false)
	b = skipByte(b, '[', false)
	at := tap.Space(b, 0)
	return b != nil && at < len(b) && b[at] != ']'
}

// skipByte returns b after white space and c; nil where something else stands there and c is not optional.
func skipByte(b []byte, c byte, optional bool) []byte {
	at := tap.Space(b, 0)
	if at < len(b) && b[at] == c {
		return b[at+1:]
	}
	if optional {
		return b
	}
	return nil
}
