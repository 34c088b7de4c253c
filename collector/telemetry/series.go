package telemetry

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"spectap/collector"
)

// How many combinations of labels are kept; what comes later is folded into
// model="other", point="other". A full /metrics is some 3 MB.
const (
	maxGroups   = 256  // of model, engine and point
	maxRequests = 4096 // of these with path, status and outcome
	maxGenAI    = 2048 // of model, point, operation and error
	maxDetails  = 8192 // of a group with one more label
)

// options are the prepared attributes of a measurement, in all forms of OpenTelemetry's API.
type options struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe metric.ObserveOption
}

// newOptions takes names and values in turn; an empty value is left out, which
// is the same to Prometheus.
func newOptions(pairs ...string) *options {
	var attrs []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			attrs = append(attrs, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	o := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return &options{add: []metric.AddOption{o}, record: []metric.RecordOption{o}, observe: o}
}

// cache keeps what was prepared for a key, for at most limit keys beside folded ones.
type cache[K comparable, V any] struct {
	limit int
	make  func(K) V

	mu     sync.RWMutex
	kept   map[K]V
	folded uint64 // how often folded was used for want of room
}

func newCache[K comparable, V any](limit int, make_ func(K) V) *cache[K, V] {
	return &cache[K, V]{limit: limit, make: make_, kept: make(map[K]V)}
}

// get returns what is kept for key, or for folded where there is no room. The
// values that folded may have are bounded by the caller.
func (c *cache[K, V]) get(key, folded K) V {
	c.mu.RLock()
	v, ok := c.kept[key]
	c.mu.RUnlock()
	if ok {
		return v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok = c.kept[key]; ok {
		return v
	}
	if len(c.kept) >= c.limit && key != folded {
		c.folded++
		key = folded
		if v, ok = c.kept[key]; ok {
			return v
		}
	}
	v = c.make(key)
	c.kept[key] = v
	return v
}

// lost returns how often folded was used.
func (c *cache[K, V]) lost() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.folded
}

// groupKey are the labels that every figure of speculative decoding has.
type groupKey struct{ model, engine, point string }

func (k groupKey) fold() groupKey { return groupKey{labelOther, k.engine, labelOther} }

// group is what is kept for a groupKey.
type group struct {
	key     groupKey
	options *options

	draftLength atomic.Int64 // the largest k that any Record shows
	reported    atomic.Bool  // any Record has a block
}

// learn keeps what later Records' lengths depend on.
func (g *group) learn(rec *collector.Record, hist []int) {
	g.reported.Store(true)
	k := int64(max(rec.Spec.DraftLength, len(hist)-1))
	for old := g.draftLength.Load(); k > old && !g.draftLength.CompareAndSwap(old, k); old = g.draftLength.Load() {
	}
}

func (g *group) rules() collector.LengthRules {
	return collector.LengthRules{DraftLength: int(g.draftLength.Load()), BlocksReported: g.reported.Load()}
}

type requestKey struct {
	groupKey
	path, status, outcome string
}

type genAIKey struct{ model, point, operation, errorType string }

// detailKey is a group with one more label.
type detailKey struct {
	groupKey
	label, value string
}

// series are all combinations of labels that were seen.
type series struct {
	models, points names

	groups   *cache[groupKey, *group]
	requests *cache[requestKey, *options]
	genAI    *cache[genAIKey, *options]
	details  *cache[detailKey, *options]
}

func newSeries(provider string, models, points int) *series {
	return &series{
		models: names{limit: models},
		points: names{limit: points},
		groups: newCache(maxGroups, func(k groupKey) *group {
			return &group{key: k, options: newOptions("model", k.model, "engine", k.engine, "point", k.point)}
		}),
		requests: newCache(maxRequests, func(k requestKey) *options {
			return newOptions("path", k.path, "status", k.status, "outcome", k.outcome, "model", k.model, "engine", k.engine, "point", k.point)
		}),
		genAI: newCache(maxGenAI, func(k genAIKey) *options {
			return newOptions("gen_ai.operation.name", k.operation, "gen_ai.provider.name", provider,
				"gen_ai.request.model", k.model, "error.type", k.errorType, "point", k.point)
		}),
		details: newCache(maxDetails, func(k detailKey) *options {
			return newOptions(k.label, k.value, "model", k.model, "engine", k.engine, "point", k.point)
		}),
	}
}

// group returns the group of a Record.
func (s *series) group(rec *collector.Record) *group {
	ok := served(rec)
	key := groupKey{s.models.fold(rec.Model, ok), engine(rec), s.points.fold(rec.Labels.Point, ok)}
	return s.groups.get(key, key.fold())
}

// request returns the attributes of spectap.requests.
func (s *series) request(g groupKey, rec *collector.Record) *options {
	key := requestKey{g, pathClass(rec), statusClass(rec.Status), outcome(rec)}
	folded := key
	folded.groupKey = g.fold()
	return s.requests.get(key, folded)
}

// call returns the attributes of gen_ai metrics.
func (s *series) call(g groupKey, operation, errorType string) *options {
	return s.genAI.get(genAIKey{g.model, g.point, operation, errorType}, genAIKey{labelOther, labelOther, operation, errorType})
}

// detail returns the attributes of a group with one more label.
func (s *series) detail(g groupKey, label, value string) *options {
	return s.details.get(detailKey{g, label, value}, detailKey{g.fold(), label, value})
}
