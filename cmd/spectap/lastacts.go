package main

import "sync"

// lastActs are what a process still does when a second signal ends it at once:
// deferred functions do not run then, and a child in a group of its own would
// stay. The zero value is ready; a nil one takes no acts.
type lastActs struct {
	mu   sync.Mutex
	next int
	acts map[int]func()
	soft func() // what the second signal does in place of all this; nil: nothing
}

// soften lets the next signal call act, once, and the process end by itself.
// The returned function takes it back.
func (l *lastActs) soften(act func()) (forget func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soft = act
	return func() { _ = l.softened() }
}

// softened returns the act of soften, if there is one, and forgets it.
func (l *lastActs) softened() (act func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	act, l.soft = l.soft, nil
	return act
}

// add registers an act, which must not block, and returns the function that
// takes it back.
func (l *lastActs) add(act func()) (forget func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acts == nil {
		l.acts = make(map[int]func())
	}
	id := l.next
	l.next++
	l.acts[id] = act
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.acts, id)
	}
}

// run does all acts.
func (l *lastActs) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, act := range l.acts {
		act()
	}
}
