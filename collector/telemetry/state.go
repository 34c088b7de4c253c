package telemetry

import (
	"context"
	"runtime"

	"go.opentelemetry.io/otel/metric"
)

// stateInstruments are read at the time of a scrape.
type stateInstruments struct {
	inFlight, clients, idle         metric.Int64ObservableUpDownCounter
	retries, refused, panics, drops metric.Int64ObservableCounter
	folded, exports, spans          metric.Int64ObservableCounter
	build                           metric.Int64ObservableUpDownCounter
}

func newStateInstruments(b *builder) stateInstruments {
	gauge := func(name, unit, help string, labels ...string) metric.Int64ObservableUpDownCounter {
		return b.gauge(definition{name: "spectap." + name, unit: unit, help: help, labels: labels})
	}
	total := func(name, unit, help string, labels ...string) metric.Int64ObservableCounter {
		return b.total(definition{name: "spectap." + name, unit: unit, help: help, labels: labels})
	}
	return stateInstruments{
		inFlight: gauge("requests.in_flight", unitRequests, "Requests that are not answered to their end."),
		clients:  gauge("client.connections", "{connection}", "Connections of clients."),
		idle:     gauge("idle_upstream.connections", "{connection}", "Connections to the engine that wait for a request."),
		retries:  total("upstream.retries", "{retry}", "Requests that were sent again, because an idle connection turned out closed."),
		refused:  total("refused.requests", unitRequests, "Requests that were refused before anything was read of them: not HTTP, or too large."),
		panics:   total("recovered.panics", "{panic}", "Panics that were recovered; each lost a measurement."),
		drops:    total("dropped.records", "{record}", "Records that a sink lost, because its queue was full or its disk failed."),
		folded:   total("folded.requests", unitRequests, "Served requests whose model or point is shown as other, because the label, or the number of combinations, is full.", "label"),
		exports:  total("metric.exports", "{export}", "Pushes of metrics over OTLP, by result (ok, failed).", "result"),
		spans:    total("spans", "{span}", "Sampled spans by what became of them (exported, failed, dropped).", "result"),
		build:    gauge("build.info", "", "Version of spectap, and of Go; the value is 1.", "version", "go_version"),
	}
}

// register has what others count observed at every collection.
func (m *metrics) register(meter metric.Meter, cfg Config, spans func() spanCounts) error {
	i := &m.instruments.stateInstruments
	one := func(pairs ...string) metric.ObserveOption { return newOptions(pairs...).observe }
	version := one("version", clean(cfg.Version), "go_version", runtime.Version())
	model, point, combination := one("label", "model"), one("label", "point"), one("label", "combination")
	pushed, unpushed := one("result", "ok"), one("result", "failed")
	exported, failed, dropped := one("result", "exported"), one("result", "failed"), one("result", "dropped")
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(i.build, 1, version)
		o.ObserveInt64(i.folded, int64(m.series.models.lost()), model)
		o.ObserveInt64(i.folded, int64(m.series.points.lost()), point)
		o.ObserveInt64(i.folded, int64(m.series.groups.lost()+m.series.requests.lost()), combination)
		o.ObserveInt64(i.exports, m.exports.ok.Load(), pushed)
		o.ObserveInt64(i.exports, m.exports.failed.Load(), unpushed)
		n := spans()
		o.ObserveInt64(i.spans, int64(n.Exported), exported)
		o.ObserveInt64(i.spans, int64(n.Failed), failed)
		o.ObserveInt64(i.spans, int64(n.Dropped), dropped)
		if cfg.State == nil {
			return nil
		}
		s := cfg.State()
		o.ObserveInt64(i.inFlight, int64(s.InFlight))
		o.ObserveInt64(i.clients, int64(s.ClientConnections))
		o.ObserveInt64(i.idle, int64(s.IdleUpstream))
		o.ObserveInt64(i.retries, int64(s.Retries))
		o.ObserveInt64(i.refused, int64(s.Refused))
		o.ObserveInt64(i.panics, int64(s.Panics))
		o.ObserveInt64(i.drops, int64(s.SinkDrops))
		return nil
	}, i.build, i.folded, i.exports, i.spans, i.inFlight, i.clients, i.idle, i.retries, i.refused, i.panics, i.drops)
	return err
}
