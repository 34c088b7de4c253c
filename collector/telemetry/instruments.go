package telemetry

import (
	"errors"
	"strings"

	"go.opentelemetry.io/otel/metric"
)

// Metric describes one metric as Prometheus shows it.
type Metric struct {
	Name   string
	Kind   string // counter, gauge or histogram
	Unit   string
	Labels []string
	Help   string
}

// Catalog lists every metric of ours in the order of the README.
func Catalog() []Metric {
	var b builder
	newInstruments(&b)
	return b.catalog
}

// builder makes instruments and describes them. Without a meter it only describes.
type builder struct {
	meter   metric.Meter
	catalog []Metric
	errs    []error
}

// definition is what an instrument is made of.
type definition struct {
	name, unit, help string
	labels           []string
	buckets          []float64
}

// describe adds an instrument to the catalog, with Prometheus' spelling of its name.
func (b *builder) describe(d definition, kind string) {
	name := strings.ReplaceAll(d.name, ".", "_")
	unit := strings.Trim(d.unit, "{}")
	if d.unit == unitSeconds {
		name, unit = name+"_seconds", "seconds"
	}
	if kind == "counter" {
		name += "_total"
	}
	labels := make([]string, len(d.labels))
	for i, label := range d.labels {
		labels[i] = strings.ReplaceAll(label, ".", "_")
	}
	b.catalog = append(b.catalog, Metric{name, kind, unit, labels, d.help})
}

func (b *builder) counter(d definition) metric.Int64Counter {
	b.describe(d, "counter")
	if b.meter == nil {
		return nil
	}
	i, err := b.meter.Int64Counter(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.help))
	b.errs = append(b.errs, err)
	return i
}

func (b *builder) histogram(d definition) metric.Float64Histogram {
	b.describe(d, "histogram")
	if b.meter == nil {
		return nil
	}
	i, err := b.meter.Float64Histogram(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.help), metric.WithExplicitBucketBoundaries(d.buckets...))
	b.errs = append(b.errs, err)
	return i
}

// gauge makes an instrument of what is there at the time of a scrape: it can be summed over proxies.
func (b *builder) gauge(d definition) metric.Int64ObservableUpDownCounter {
	b.describe(d, "gauge")
	if b.meter == nil {
		return nil
	}
	i, err := b.meter.Int64ObservableUpDownCounter(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.help))
	b.errs = append(b.errs, err)
	return i
}

// total makes an instrument of what others count.
func (b *builder) total(d definition) metric.Int64ObservableCounter {
	b.describe(d, "counter")
	if b.meter == nil {
		return nil
	}
	i, err := b.meter.Int64ObservableCounter(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.help))
	b.errs = append(b.errs, err)
	return i
}

func (b *builder) err() error { return errors.Join(b.errs...) }

// The units of UCUM that the names of Prometheus depend on.
const (
	unitSeconds  = "s"
	unitTokens   = "{token}"
	unitRequests = "{request}"
)

// groupLabels are the labels of a groupKey, after others.
func groupLabels(first ...string) []string { return append(first, "model", "engine", "point") }

// genAILabels are the labels of a genAIKey.
func genAILabels(more ...string) []string {
	return append([]string{"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "point"}, more...)
}

// instruments are all instruments.
type instruments struct {
	genAIInstruments
	specInstruments
	requestInstruments
	stateInstruments
}

func newInstruments(b *builder) *instruments {
	return &instruments{newGenAIInstruments(b), newSpecInstruments(b), newRequestInstruments(b), newStateInstruments(b)}
}

// genAIInstruments are those of the GenAI conventions v0.1.0
// (open-telemetry/semantic-conventions-genai, docs/gen-ai), with finer and longer buckets.
type genAIInstruments struct {
	duration, ttft, tpot                              metric.Float64Histogram
	inputTokens, outputTokens, cachedTokens, thoughts metric.Int64Counter
}

func newGenAIInstruments(b *builder) genAIInstruments {
	usage := func(name, help string) metric.Int64Counter {
		return b.counter(definition{name: "gen_ai.client.inference.usage." + name, unit: unitTokens, labels: genAILabels(), help: help})
	}
	return genAIInstruments{
		duration: b.histogram(definition{name: "gen_ai.server.request.duration", unit: unitSeconds, labels: genAILabels("error.type"), buckets: durationBuckets,
			help: "Time from the request's last byte to the engine's last one, to the end where none came."}),
		ttft: b.histogram(definition{name: "gen_ai.server.time_to_first_token", unit: unitSeconds, labels: genAILabels(), buckets: firstTokenBuckets,
			help: "Time from the request's last byte to the first event with output, of streams that brought some."}),
		tpot: b.histogram(definition{name: "gen_ai.server.time_per_output_token", unit: unitSeconds, labels: genAILabels(), buckets: perTokenBuckets,
			help: "Time from the first event with output to the engine's last byte, by output token after the first, of streams that succeeded."}),
		inputTokens:  usage("input_tokens", "Tokens of prompts, as the engine says."),
		outputTokens: usage("output_tokens", "Tokens of replies, as the engine says."),
		cachedTokens: usage("cache_read.input_tokens", "Tokens of prompts that came from the engine's prefix cache."),
		thoughts:     usage("reasoning.output_tokens", "Tokens of replies that were reasoning."),
	}
}

// specInstruments are those of speculative decoding. Any window's acceptance
// length is a quotient of two of them:
//
//	server view  1 + accepted tokens / verify steps
//	client view  client step tokens / client steps
//
// They differ by the steps without drafts, the prefill's token, what the end of
// a reply cut off, and EOS (collector.LengthRules).
type specInstruments struct {
	verifySteps, draftTokens, acceptedTokens, acceptedPerPosition metric.Int64Counter
	clientSteps, clientStepTokens, clientViews                    metric.Int64Counter
	measured, unmeasured                                          metric.Int64Counter
}

func newSpecInstruments(b *builder) specInstruments {
	count := func(name, unit, help string, more ...string) metric.Int64Counter {
		return b.counter(definition{name: "spectap." + name, unit: unit, labels: groupLabels(more...), help: help})
	}
	return specInstruments{
		verifySteps:         count("verify.steps", "{step}", "Decode steps that verified drafts, by the engine's statistics blocks."),
		draftTokens:         count("draft.tokens", unitTokens, "Drafted tokens, by the engine's statistics blocks."),
		acceptedTokens:      count("accepted.tokens", unitTokens, "Accepted draft tokens, by the engine's statistics blocks."),
		acceptedPerPosition: count("accepted.tokens.per_position", unitTokens, "Accepted draft tokens by position in the draft, from 0; over verify steps it is the rate by position.", "position"),
		clientSteps:         count("client.steps", "{step}", "Steps as a client counts them, those without drafts included, of requests whose events show each step."),
		clientStepTokens:    count("client.step.tokens", unitTokens, "Tokens of the steps as a client counts them, without EOS."),
		clientViews:         count("client.view.requests", unitRequests, "Requests by what the client's steps are known from; only exact and events are counted as steps.", "source"),
		measured:            count("measured.requests", unitRequests, "Model calls with a statistics block."),
		unmeasured:          count("unmeasured.requests", unitRequests, "Model calls without a statistics block, by reason.", "reason"),
	}
}

// requestInstruments are those of requests and of the proxy's own time.
type requestInstruments struct {
	requests, chunks, silent         metric.Int64Counter
	residenceMedian, residenceLimits metric.Float64Histogram
}

func newRequestInstruments(b *builder) requestInstruments {
	return requestInstruments{
		requests: b.counter(definition{name: "spectap.requests", unit: unitRequests, labels: groupLabels("path", "status", "outcome"),
			help: "Requests that ended, by path, class of status, and outcome."}),
		chunks: b.counter(definition{name: "spectap.output.chunks", unit: "{chunk}", labels: groupLabels(),
			help: "Events of streams that brought output."}),
		silent: b.counter(definition{name: "spectap.streams.without_output", unit: unitRequests, labels: groupLabels(),
			help: "Streamed requests that ended before any output: they are in no time to first token."}),
		residenceMedian: b.histogram(definition{name: "spectap.residence.median", unit: unitSeconds, buckets: residenceBuckets,
			help: "Time from the arrival of a read to its write to the client: the median of each request."}),
		residenceLimits: b.histogram(definition{name: "spectap.residence.max", unit: unitSeconds, buckets: residenceBuckets,
			help: "Time from the arrival of a read to its write to the client: the longest of each request."}),
	}
}
