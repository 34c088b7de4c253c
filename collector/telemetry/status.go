package telemetry

// Status is what telemetry tells of itself at /status.
type Status struct {
	Traces        []string `json:"traces_exporters"`     // protocol and endpoint, without userinfo and query; empty: off
	SpansExported uint64   `json:"spans_exported_total"` // the collector took them
	SpansFailed   uint64   `json:"spans_failed_total"`   // an export failed, or the collector refused them
	SpansDropped  uint64   `json:"spans_dropped_total"`  // a queue was full
	LastFailure   string   `json:"last_failure,omitempty"`
}

// Status returns what telemetry did so far.
func (t *Telemetry) Status() Status {
	n := t.traces.counts()
	st := Status{Traces: []string{}, SpansExported: n.Exported, SpansFailed: n.Failed, SpansDropped: n.Dropped}
	if t.traces == nil {
		return st
	}
	for _, way := range t.traces.ways {
		st.Traces = append(st.Traces, way.String())
	}
	st.LastFailure = t.traces.failures.lastKind()
	return st
}
