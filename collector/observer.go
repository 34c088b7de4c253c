package collector

// Headers are the header fields of a request on its way upstream. Names are
// read and written without regard to case; Set replaces all fields of a name, and
// with an empty value removes them.
type Headers interface {
	Get(name string) string
	Set(name, value string)
	Keys() []string
}

// Observer is told of every request of a proxy, also of those that no Record is
// kept of (Record.Route is empty).
type Observer interface {
	// Begin is called once a request was read and rewritten, before it goes
	// upstream; what it sets in h goes with it. rec is not complete yet and is read
	// during the call only. end, where it is not nil, is called once, with the
	// complete Record, before the client sees the end of its answer. Neither may wait.
	Begin(rec *Record, h Headers) (end func(*Record))
}
