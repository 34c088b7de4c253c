package collector

import (
	"encoding/json"
	"time"
)

// Configuration is configuration.json: specdec_bench's command-line options, what
// the server told, and the provenance of the run, in the order in which the file
// has them. A nil value is null. JSON redacts; fill the fields in plain text.
// Source: specdec_bench run.py and utils.py (dump_env).
type Configuration struct {
	// Options of the command line; the names are specdec_bench's.
	Tokenizer            *string  `json:"tokenizer"`
	MTBench              *string  `json:"mtbench"`   // path of the question file
	SpecBench            *string  `json:"specbench"` // path of the question file
	RandomISL            *int     `json:"random_isl"`
	Dataset              *string  `json:"dataset"`
	DatasetPath          *string  `json:"dataset_path"`
	NumRequests          *int     `json:"num_requests"`
	Engine               *string  `json:"engine"` // "VLLM"
	SpeculativeAlgorithm *string  `json:"speculative_algorithm"`
	ModelDir             *string  `json:"model_dir"`
	DraftModelDir        *string  `json:"draft_model_dir"`
	RuntimeParams        any      `json:"runtime_params"` // the parsed YAML, a value of AppendIndented; nil is {}
	Temperature          *float64 `json:"temperature"`
	MaxSeqLen            *int     `json:"max_seq_len"`
	OutputLength         *int     `json:"output_length"` // tokens
	DraftLength          *int     `json:"draft_length"`  // drafts a step
	BlockSize            *int     `json:"block_size"`
	TPSize               *int     `json:"tp_size"` // number of GPUs
	EPSize               *int     `json:"ep_size"`
	Concurrency          *int     `json:"concurrency"`
	TrustRemoteCode      *bool    `json:"trust_remote_code"`
	AATiming             *bool    `json:"aa_timing"`
	IgnoreEOS            *bool    `json:"ignore_eos"`
	ShowProgress         *bool    `json:"show_progress"`
	Completions          *bool    `json:"completions"`
	Postprocess          *string  `json:"postprocess"`
	SaveDir              *string  `json:"save_dir"`

	ServingConfig any `json:"serving_config"` // what the server tells, a value of AppendIndented

	EngineVersion *string  `json:"engine_version"`
	GPU           *string  `json:"gpu"`            // device name
	PythonVersion *string  `json:"python_version"` // null: there is no Python here
	Argv          []string `json:"argv"`

	Provenance

	Extra Object `json:"-"` // our own members, after huggingface_model_id
}

// Provenance says which code, image and checkpoint a run was made with.
type Provenance struct {
	SpecdecBenchVersion *string `json:"specdec_bench_version"`
	SpecdecBenchSHA     *string `json:"specdec_bench_sha"`
	ModelOptVersion     *string `json:"modelopt_version"`
	ModelOptSHA         *string `json:"modelopt_sha"`
	NMMSandboxSHA       *string `json:"nmm_sandbox_sha"`
	ContainerImage      *string `json:"container_image"` // upload_to_s3.py refuses a run without it
	Checkpoint          Object  `json:"-"`               // of Checkpoint; nil is null
	Timestamp           string  `json:"timestamp"`       // of Timestamp
	JiraTicket          *string `json:"jira_ticket"`
	HuggingFaceModelID  *string `json:"huggingface_model_id"`
}

// specdecBenchVersion is what specdec_bench writes where modelopt is not installed.
const specdecBenchVersion = "0.0.0"

// ProvenanceOf reads the provenance from environment variables. An empty one
// counts as unset. now is the start of the run.
func ProvenanceOf(env map[string]string, checkpoint Object, now time.Time) Provenance {
	get := func(name string) *string {
		if v := env[name]; v != "" {
			return &v
		}
		return nil
	}
	version := specdecBenchVersion
	return Provenance{
		SpecdecBenchVersion: &version,
		SpecdecBenchSHA:     get("SPECDEC_BENCH_SHA"),
		ModelOptVersion:     get("MODELOPT_VERSION"),
		ModelOptSHA:         get("MODELOPT_SHA"),
		NMMSandboxSHA:       get("NMM_SANDBOX_SHA"),
		ContainerImage:      get("CONTAINER_IMAGE"),
		Checkpoint:          checkpoint,
		Timestamp:           Timestamp(now),
		JiraTicket:          get("JIRA_TICKET"),
		HuggingFaceModelID:  get("HUGGINGFACE_MODEL_ID"),
	}
}

// Timestamp is Python's datetime.isoformat of a time in UTC: microseconds, left
// out if they are zero, and "+00:00".
func Timestamp(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// JSON is the text of configuration.json: redacted options, serving
// configuration and arguments, then provenance and our own members.
func (c Configuration) JSON() []byte {
	o := Redact(append(c.options(), Member{"serving_config", c.ServingConfig})).(Object)
	o = append(o,
		Member{"engine_version", orNull(c.EngineVersion)},
		Member{"gpu", orNull(c.GPU)},
		Member{"python_version", orNull(c.PythonVersion)},
		Member{"argv", stripArgs(RedactArgs(c.Argv))},
	)
	o = append(o, c.Provenance.members()...)
	return AppendIndented(nil, append(o, Redact(c.Extra).(Object)...))
}

func (c Configuration) options() Object {
	params := c.RuntimeParams
	if params == nil {
		params = Object{}
	}
	return Object{
		{"tokenizer", orNull(c.Tokenizer)},
		{"mtbench", orNull(c.MTBench)},
		{"specbench", orNull(c.SpecBench)},
		{"random_isl", orNull(c.RandomISL)},
		{"dataset", orNull(c.Dataset)},
		{"dataset_path", orNull(c.DatasetPath)},
		{"num_requests", orNull(c.NumRequests)},
		{"engine", orNull(c.Engine)},
		{"speculative_algorithm", orNull(c.SpeculativeAlgorithm)},
		{"model_dir", orNull(c.ModelDir)},
		{"draft_model_dir", orNull(c.DraftModelDir)},
		{"runtime_params", params},
		{"temperature", orNull(c.Temperature)},
		{"max_seq_len", orNull(c.MaxSeqLen)},
		{"output_length", orNull(c.OutputLength)},
		{"draft_length", orNull(c.DraftLength)},
		{"block_size", orNull(c.BlockSize)},
		{"tp_size", orNull(c.TPSize)},
		{"ep_size", orNull(c.EPSize)},
		{"concurrency", orNull(c.Concurrency)},
		{"trust_remote_code", orNull(c.TrustRemoteCode)},
		{"aa_timing", orNull(c.AATiming)},
		{"ignore_eos", orNull(c.IgnoreEOS)},
		{"show_progress", orNull(c.ShowProgress)},
		{"completions", orNull(c.Completions)},
		{"postprocess", orNull(c.Postprocess)},
		{"save_dir", orNull(c.SaveDir)},
	}
}

func (p Provenance) members() Object {
	var checkpoint any
	if p.Checkpoint != nil {
		checkpoint = p.Checkpoint
	}
	return Object{
		{"specdec_bench_version", orNull(p.SpecdecBenchVersion)},
		{"specdec_bench_sha", orNull(p.SpecdecBenchSHA)},
		{"modelopt_version", orNull(p.ModelOptVersion)},
		{"modelopt_sha", orNull(p.ModelOptSHA)},
		{"nmm_sandbox_sha", orNull(p.NMMSandboxSHA)},
		{"container_image", orNull(p.ContainerImage)},
		{"checkpoint", checkpoint},
		{"timestamp", p.Timestamp},
		{"jira_ticket", orNull(p.JiraTicket)},
		{"huggingface_model_id", orNull(p.HuggingFaceModelID)},
	}
}

// orNull is the value that p points to, or nil.
func orNull[T string | int | float64 | bool](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

var _ json.Marshaler = Configuration{}

// MarshalJSON implements json.Marshaler with the redacted text of JSON, so that a
// Configuration cannot be written in plain text by accident.
func (c Configuration) MarshalJSON() ([]byte, error) { return c.JSON(), nil }
