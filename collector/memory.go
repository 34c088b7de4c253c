package collector

import "sync"

// Memory is a Sink that keeps Records by the client's X-Request-ID until they
// are taken. The zero Memory is ready.
type Memory struct {
	mu   sync.Mutex
	byID map[string]*Record
}

// Emit implements Sink. A Record without an X-Request-ID is not kept: nobody could take it.
func (m *Memory) Emit(r *Record) {
	if r.RequestID == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil {
		m.byID = make(map[string]*Record)
	}
	m.byID[r.RequestID] = r
}

// Take removes and returns the Record of a request.
func (m *Memory) Take(requestID string) (*Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.byID[requestID]
	delete(m.byID, requestID)
	return r, ok
}

// TakeAll removes and returns all Records, in no order.
func (m *Memory) TakeAll() []*Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Record, 0, len(m.byID))
	for _, r := range m.byID {
		all = append(all, r)
	}
	clear(m.byID)
	return all
}

// Close implements Sink.
func (m *Memory) Close() error { return nil }
