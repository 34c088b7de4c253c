package collector

import "errors"

// Sink is where Records go. Emit is called from many goroutines, once a
// request, before the client sees the end of its answer, so it must not block
// on a disk or a network. Close writes what is queued; no Emit follows it.
type Sink interface {
	Emit(*Record)
	Close() error
}

// Tee sends every Record to all of its sinks, in order.
type Tee []Sink

// Emit implements Sink.
func (t Tee) Emit(r *Record) {
	for _, s := range t {
		s.Emit(r)
	}
}

// Close closes all sinks and joins their errors.
func (t Tee) Close() error {
	var errs []error
	for _, s := range t {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
