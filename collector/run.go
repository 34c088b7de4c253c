package collector

import "encoding/json"

// Metric names which of specdec_bench's acceptance metrics a data set is measured by.
type Metric string

// The acceptance metrics of specdec_bench (metrics/mtbench.py, specbench.py, acceptance_rate.py).
const (
	MetricMTBench        Metric = "MTBench"
	MetricSpecBench      Metric = "SpecBench"
	MetricAcceptanceRate Metric = "AcceptanceRate"
)

// The two ways to count chunk lengths for acceptance_rate.json (Run.Acceptance).
const (
	ViewClient = "client" // what specdec_bench counts: increments of the stream, EOS removed
	ViewServer = "server" // 1 for the prefill token and j+1 for each verify step of the histogram
)

// Question is one conversation of a data set.
type Question struct {
	ID       json.RawMessage // number or string, as in the data set
	Category string
	System   string   // system message, where the conversation starts with one
	Turns    int      // user turns
	Prompts  []string // the user turns; only in memory, or where texts are kept
	NotAsked bool     // a foreign client left it out: nothing of it is missing
}

// Run describes a point: what was asked, of whom, and how it is counted. It is
// the first line of records.jsonl, so that a collection needs nothing else.
// JSON names and units are in wire.go.
type Run struct {
	ID          string // one sweep
	Point       string // "t0_c32", the name of its folder; of a later run of the point "t0_c32_r2"
	Dataset     string // "mtbench", "specbench", "speed", or another name
	Metric      Metric
	Questions   []Question // in the order in which they were asked
	GPUs        int        // divisor of Output TPS/gpu
	Temperature float64
	Concurrency int       // conversations at a time; 0 in an open loop, and where nobody said
	Schedule    *Schedule // of an open loop, whose points are "t0_q20"; nil: closed, the next conversation begins when one ends
	Repeat      Repeat    // which run of the point, from 0
	Warmup      int       // conversations that were asked before the point, by all shards together; their Records are set apart
	Acceptance  string    // ViewClient or ViewServer
	Measure     string    // "usage" or "tokens"
	Postprocess string    // "base" or "gptoss"
	IgnoreEOS   bool
	NoSpecStats bool  // the server was swept without per-request statistics
	Baseline    bool  // the server does not speculate: times alone are measured, there is no acceptance
	Seed        int64 // of the resamples
	SLO         *SLO  // what requests should keep; nil where nobody asked

	Model         string
	Engine        string
	EngineVersion string

	Before, After *Counters       // the server's counters around the point; nil where it has none
	Configuration json.RawMessage // the text of configuration.json; nil where there is none
	Shard         *Shard          // this run is a part of a point; nil where it is all of it
	Shards        []Shard         // what MergeShards made it of, by index
	Attribution   *Attribution    // what Recognise found out about a foreign client; nil where we asked
}
