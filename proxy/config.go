package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"spectap/collector"
)

// Config holds every setting of the proxy, save KeepTexts. Flag, variable, default, unit and
// meaning of each come from the struct tags, so that --help and the README's
// table cannot differ from the code. FlagName names the flag of a variable.
type Config struct {
	Listen   string `env:"SPECTAP_LISTEN" envDefault:":8000" unit:"host:port or unix:/path" help:"where clients connect; every path is the engine's"`
	Upstream string `env:"SPECTAP_UPSTREAM" envDefault:"http://127.0.0.1:8001" unit:"URL or unix:/path" help:"the engine: http or https, an optional base path, or a unix socket"`
	Admin    string `env:"SPECTAP_ADMIN" envDefault:":9464" unit:"host:port or unix:/path" help:"live page, metrics, livez, readyz, status; off turns it off"`

	Measure string `env:"SPECTAP_MEASURE" envDefault:"usage" unit:"observe, usage or tokens" help:"what a streamed request is asked for beyond what the client wants: nothing, the final usage event, or token counts on every event; cut out of the answer again"`
	Engine  string `env:"SPECTAP_ENGINE" envDefault:"auto" unit:"auto, vllm, sglang, trtllm or llamacpp" help:"the engine; auto asks it"`

	Temperature       string `env:"SPECTAP_TEMPERATURE" unit:"number" help:"temperature where the client sets none"`
	TopP              string `env:"SPECTAP_TOP_P" unit:"number" help:"top_p where the client sets none"`
	TopK              string `env:"SPECTAP_TOP_K" unit:"number" help:"top_k where the client sets none"`
	MinP              string `env:"SPECTAP_MIN_P" unit:"number" help:"min_p where the client sets none"`
	RepetitionPenalty string `env:"SPECTAP_REPETITION_PENALTY" unit:"number" help:"repetition_penalty where the client sets none"`
	Seed              string `env:"SPECTAP_SEED" unit:"integer" help:"seed where the client sets none"`
	MaxTokens         string `env:"SPECTAP_MAX_TOKENS" unit:"tokens" help:"token limit where the client sets none"`
	SkipSpecialTokens string `env:"SPECTAP_SKIP_SPECIAL_TOKENS" unit:"true or false" help:"skip_special_tokens where the client sets none"`
	Set               string `env:"SPECTAP_SET" unit:"JSON object" help:"any other request members, filled in where the client sets none"`
	Override          bool   `env:"SPECTAP_OVERRIDE" envDefault:"false" unit:"true or false" help:"the parameters above win over the client's own"`

	Records         string `env:"SPECTAP_RECORDS" unit:"file" help:"append one JSON line a request to this file"`
	RecordsMaxBytes int64  `env:"SPECTAP_RECORDS_MAX_BYTES" envDefault:"0" unit:"bytes from 65536, 0 = no limit" help:"a record that would make the records file longer begins a new one; the full file is set aside beside it, with the time in its name"`
	RecordsKeep     int    `env:"SPECTAP_RECORDS_KEEP" envDefault:"0" unit:"files, 0 = all" help:"full records files that are kept, the newest ones"`
	Capture         string `env:"SPECTAP_CAPTURE" unit:"list of prompt, reply, reasoning, header:NAME" help:"content that is kept, and nothing else: the last user message, the first choice's reply or reasoning, or a request header; texts in the records only, headers in spans too; headers that can hold credentials are refused"`
	CaptureBytes    int    `env:"SPECTAP_CAPTURE_BYTES" envDefault:"4096" unit:"bytes" help:"longest value that is captured; the rest is cut, and the record warns of it"`
	HashUser        bool   `env:"SPECTAP_HASH_USER" envDefault:"false" unit:"true or false" help:"keep hashes of the user messages and of the reply in the records: of the first one as the question of requests without a label, of all to join the turns of a conversation; they recognise a question file's questions, and let anyone who has a text check for it"`

	StallTimeout   time.Duration `env:"SPECTAP_STALL_TIMEOUT" envDefault:"0s" unit:"duration, 0 = none" help:"give up on an answer that brings no data for so long; keep-alive comments do not count"`
	ConnectTimeout time.Duration `env:"SPECTAP_CONNECT_TIMEOUT" envDefault:"5s" unit:"duration" help:"limit of one connection attempt to the engine"`
	HeadTimeout    time.Duration `env:"SPECTAP_HEAD_TIMEOUT" envDefault:"0s" unit:"duration, 0 = none" help:"limit of the wait for the response head"`
	IdleTimeout    time.Duration `env:"SPECTAP_IDLE_TIMEOUT" envDefault:"120s" unit:"duration" help:"how long an idle client connection is kept"`
	ClientTimeout  time.Duration `env:"SPECTAP_CLIENT_TIMEOUT" envDefault:"120s" unit:"duration, 0 = the system's" help:"close a client's connection that acknowledges nothing for so long: its host or its network is gone, or it reads nothing of an answer"`

	RequestHeadTimeout time.Duration `env:"SPECTAP_REQUEST_HEAD_TIMEOUT" envDefault:"60s" unit:"duration, 0 = none" help:"how long a client may take from the first byte of a request to the end of its head"`
	RequestBodyTimeout time.Duration `env:"SPECTAP_REQUEST_BODY_TIMEOUT" envDefault:"60s" unit:"duration, 0 = none" help:"give up on a request body that brings no data for so long; every byte starts it anew"`
	MaxHeadBytes       int           `env:"SPECTAP_MAX_HEAD_BYTES" envDefault:"131072" unit:"bytes" help:"largest head of a request or an answer"`
	MaxInFlight        int           `env:"SPECTAP_MAX_IN_FLIGHT" envDefault:"0" unit:"requests, 0 = no limit" help:"most model calls on their way at once; the next is answered 503. Other requests, as /health, always pass"`

	UpstreamIdle   time.Duration `env:"SPECTAP_UPSTREAM_IDLE" envDefault:"3s" unit:"duration" help:"how long an idle connection to the engine is kept; vLLM closes its own after 5 s"`
	DrainTimeout   time.Duration `env:"SPECTAP_DRAIN_TIMEOUT" envDefault:"30s" unit:"duration" help:"how long running requests may go on after a stop signal"`
	MaxBodyBytes   int           `env:"SPECTAP_MAX_BODY_BYTES" envDefault:"104857600" unit:"bytes" help:"largest request body; it is held whole until the engine answers"`
	MaxBodiesBytes int           `env:"SPECTAP_MAX_BODIES_BYTES" envDefault:"1073741824" unit:"bytes" help:"most bytes that the bodies of all requests take together, counted as they arrive; a body beyond it is answered 503"`
	Hold           time.Duration `env:"SPECTAP_HOLD" envDefault:"50ms" unit:"duration" help:"how long at most an event is held to undo an injection"`

	KeepTexts bool // whole prompts, replies and reasoning, for sinks in this process; no setting

	LogLevel  string `env:"SPECTAP_LOG_LEVEL" envDefault:"info" unit:"debug, info, warn or error" help:"least severe log line"`
	LogFormat string `env:"SPECTAP_LOG_FORMAT" envDefault:"auto" unit:"auto, json or console" help:"auto: readable on a terminal, else JSON"`
}

// maxUpstreamIdle is the longest wait that stays clear of vLLM's own limit of
// 5.0 s for idle connections.
const maxUpstreamIdle = 4 * time.Second

// leastRecordsBytes is the shortest limit of a records file: below it every few
// records would have a file of their own.
const leastRecordsBytes = 64 << 10

// minHeadBytes is the smallest limit of a head: common clients send up to 2 KiB.
const minHeadBytes = 4 << 10

// FlagName returns the flag of an environment variable: SPECTAP_TOP_P is --top_p.
func FlagName(variable string) string {
	return "--" + strings.ToLower(strings.TrimPrefix(variable, "SPECTAP_"))
}

// Validate returns all problems of the settings at once, each with the value,
// what was wanted, and the variable and flag to change.
func (c Config) Validate() error {
	var v validation
	v.listen("SPECTAP_LISTEN", c.Listen)
	if c.Admin != "" && c.Admin != "off" {
		v.listen("SPECTAP_ADMIN", c.Admin)
	}
	to, err := parseUpstream(c.Upstream)
	if err == nil && isOwnAddress(c.Listen, to) {
		v.add("SPECTAP_UPSTREAM", c.Upstream, "want another address than SPECTAP_LISTEN: the proxy would forward to itself")
	}
	if err != nil {
		public, _, _ := strings.Cut(collector.StripUserinfo(c.Upstream), "?") // either part may hold a key
		v.add("SPECTAP_UPSTREAM", public, err.Error())
	}
	v.oneOf("SPECTAP_MEASURE", c.Measure, "observe", "usage", "tokens")
	v.oneOf("SPECTAP_ENGINE", c.Engine, "auto", "vllm", "sglang", "trtllm", "llamacpp")
	v.oneOf("SPECTAP_LOG_LEVEL", c.LogLevel, "debug", "info", "warn", "error")
	v.oneOf("SPECTAP_LOG_FORMAT", c.LogFormat, "auto", "json", "console")
	c.validateParameters(&v)
	c.validateLimits(&v)
	return errors.Join(v.errs...)
}

// isOwnAddress says that the engine's address is the one that the proxy listens
// on: the same text, or a loopback name of a port that listens on every address.
func isOwnAddress(listen string, to endpoint) bool {
	if listen == to.address || listen == "unix:"+to.address {
		return true
	}
	host, port, err := net.SplitHostPort(listen)
	toHost, toPort, toErr := net.SplitHostPort(to.address)
	if err != nil || toErr != nil || port != toPort || port == "0" {
		return false
	}
	ip, toIP := net.ParseIP(host), net.ParseIP(toHost)
	everywhere := host == "" || ip != nil && ip.IsUnspecified()
	local := toHost == "localhost" || toIP != nil && (toIP.IsLoopback() || toIP.IsUnspecified())
	return local && (everywhere || host == "localhost" || ip != nil && ip.IsLoopback() && toHost == "localhost")
}

func (c Config) validateParameters(v *validation) {
	v.number("SPECTAP_TEMPERATURE", c.Temperature, 0, 1e9)
	v.number("SPECTAP_TOP_P", c.TopP, 0, 1)
	v.integer("SPECTAP_TOP_K", c.TopK)
	v.number("SPECTAP_MIN_P", c.MinP, 0, 1)
	v.number("SPECTAP_REPETITION_PENALTY", c.RepetitionPenalty, 0, 1e9)
	v.integer("SPECTAP_SEED", c.Seed)
	if v.integer("SPECTAP_MAX_TOKENS", c.MaxTokens) && strings.HasPrefix(c.MaxTokens, "-") {
		v.add("SPECTAP_MAX_TOKENS", c.MaxTokens, "want 0 or more tokens")
	}
	if c.SkipSpecialTokens != "" {
		v.oneOf("SPECTAP_SKIP_SPECIAL_TOKENS", c.SkipSpecialTokens, "true", "false")
	}
	if c.Set != "" {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(c.Set), &members) != nil || members == nil {
			v.add("SPECTAP_SET", c.Set, `want a JSON object, as {"stop": ["###"]}`)
		}
		for _, name := range []string{"messages", "prompt", "stream"} { // a client that leaves them out means that
			if _, ok := members[name]; ok {
				v.add("SPECTAP_SET", c.Set, "want no "+name+" in it: what is asked, and in what form the answer comes, is the client's")
			}
		}
	}
}

func (c Config) validateLimits(v *validation) {
	v.atLeast("SPECTAP_CLIENT_TIMEOUT", c.ClientTimeout, 0)
	v.atLeast("SPECTAP_STALL_TIMEOUT", c.StallTimeout, 0)
	v.atLeast("SPECTAP_CONNECT_TIMEOUT", c.ConnectTimeout, time.Millisecond)
	v.atLeast("SPECTAP_HEAD_TIMEOUT", c.HeadTimeout, 0)
	v.atLeast("SPECTAP_IDLE_TIMEOUT", c.IdleTimeout, time.Second)
	v.atLeast("SPECTAP_UPSTREAM_IDLE", c.UpstreamIdle, time.Millisecond)
	v.atLeast("SPECTAP_DRAIN_TIMEOUT", c.DrainTimeout, 0)
	v.atLeast("SPECTAP_HOLD", c.Hold, time.Millisecond)
	v.atLeast("SPECTAP_REQUEST_HEAD_TIMEOUT", c.RequestHeadTimeout, 0)
	v.atLeast("SPECTAP_REQUEST_BODY_TIMEOUT", c.RequestBodyTimeout, 0)
	if c.MaxHeadBytes < minHeadBytes {
		v.add("SPECTAP_MAX_HEAD_BYTES", strconv.Itoa(c.MaxHeadBytes), fmt.Sprintf("want at least %d bytes", minHeadBytes))
	}
	if c.MaxInFlight < 0 {
		v.add("SPECTAP_MAX_IN_FLIGHT", strconv.Itoa(c.MaxInFlight), "want 0 (no limit) or more requests")
	}
	if c.MaxBodyBytes < 1 {
		v.add("SPECTAP_MAX_BODY_BYTES", strconv.Itoa(c.MaxBodyBytes), "want at least 1 byte")
	}
	if c.MaxBodiesBytes < c.MaxBodyBytes {
		v.add("SPECTAP_MAX_BODIES_BYTES", strconv.Itoa(c.MaxBodiesBytes), fmt.Sprintf("want at least the %d bytes of one body (SPECTAP_MAX_BODY_BYTES)", c.MaxBodyBytes))
	}
	if c.RecordsMaxBytes < 0 || c.RecordsMaxBytes > 0 && c.RecordsMaxBytes < leastRecordsBytes {
		v.add("SPECTAP_RECORDS_MAX_BYTES", strconv.FormatInt(c.RecordsMaxBytes, 10), fmt.Sprintf("want 0 or at least %d bytes", leastRecordsBytes))
	}
	if c.RecordsKeep < 0 {
		v.add("SPECTAP_RECORDS_KEEP", strconv.Itoa(c.RecordsKeep), "want 0 or more files")
	}
	if c.CaptureBytes < 1 {
		v.add("SPECTAP_CAPTURE_BYTES", strconv.Itoa(c.CaptureBytes), "want at least 1 byte; to capture nothing, empty SPECTAP_CAPTURE")
	}
	parseCapture(c.Capture, c.CaptureBytes, func(word, wanted string) { v.add("SPECTAP_CAPTURE", word, wanted) })
}

// Warnings returns what is allowed but will probably hurt.
func (c Config) Warnings() []string {
	var w []string
	if c.UpstreamIdle >= maxUpstreamIdle {
		w = append(w, fmt.Sprintf("SPECTAP_UPSTREAM_IDLE (%s) is %s: vLLM closes idle connections after 5 s, so keep it below %s",
			FlagName("SPECTAP_UPSTREAM_IDLE"), c.UpstreamIdle, maxUpstreamIdle))
	}
	if c.Records == "" && (c.RecordsKeep > 0 || c.RecordsMaxBytes > 0) {
		w = append(w, "SPECTAP_RECORDS_KEEP and SPECTAP_RECORDS_MAX_BYTES are about a records file, and there is none: set SPECTAP_RECORDS (--records)")
	}
	if words := c.captures().words(); len(words) > 0 {
		w = append(w, fmt.Sprintf("SPECTAP_CAPTURE (%s) is on: PRIVATE CONTENT IS KEPT of every request (%s), up to %d bytes of each",
			FlagName("SPECTAP_CAPTURE"), strings.Join(words, ", "), c.CaptureBytes))
		if c.Records == "" && len(words) > len(c.captures().headers) {
			w = append(w, "SPECTAP_CAPTURE keeps texts in records only, and there are none: set SPECTAP_RECORDS (--records)")
		}
	}
	return w
}

// captures returns what may be kept of a request; Validate tells the words that are wrong.
func (c Config) captures() captures {
	return parseCapture(c.Capture, c.CaptureBytes, func(string, string) {})
}

// validation collects the problems of a Config.
type validation struct{ errs []error }

func (v *validation) add(variable, value, wanted string) {
	v.errs = append(v.errs, fmt.Errorf("cannot use %s (%s) %q: %s", variable, FlagName(variable), value, wanted))
}

func (v *validation) oneOf(variable, value string, words ...string) {
	if !slices.Contains(words, value) {
		v.add(variable, value, "want one of "+strings.Join(words, ", "))
	}
}

func (v *validation) atLeast(variable string, d, least time.Duration) {
	if d < least {
		v.add(variable, d.String(), "want "+least.String()+" or more")
	}
}

func (v *validation) number(variable, text string, low, high float64) {
	if text == "" {
		return
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !json.Valid([]byte(text)) {
		v.add(variable, text, "want a number as JSON spells it, as 0.7")
	} else if f < low || f > high {
		v.add(variable, text, fmt.Sprintf("want %g to %g", low, high))
	}
}

func (v *validation) integer(variable, text string) bool {
	if text == "" {
		return false
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil || !json.Valid([]byte(text)) {
		v.add(variable, text, "want an integer")
		return false
	}
	return true
}

func (v *validation) listen(variable, value string) {
	if path, ok := strings.CutPrefix(value, "unix:"); ok {
		if path == "" {
			v.add(variable, value, "want unix:/path")
		}
		return
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		v.add(variable, value, "want host:port, :port or unix:/path")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.add(variable, value, "want a port of 0 to 65535")
	}
}
