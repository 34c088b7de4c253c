package sweep

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spectap/collector"
)

// The engines by the names that Records use.
const (
	engineVLLM     = "vllm"
	engineSGLang   = "sglang"
	engineTRTLLM   = "trtllm"
	engineLlamaCPP = "llamacpp"
)

// server is what the server says of itself.
type server struct {
	model   string
	engine  string          // "" where unknown
	version string          // "" where unknown
	card    json.RawMessage // its entry of /v1/models; nil where there is none
	root    string          // its checkpoint, a path or a hub name, as the server says; "" where it does not

	cache       map[string]string // labels of vllm:cache_config_info; nil where there are none
	draftLength int               // drafts a step, as the first requests show; 0 where they do not
	positions   int               // of a draft, in the counters; 0 where they have none
	block       int               // drafts a step in the statistics of the first requests; 0 where they have none
}

// learn takes from the first requests what the server does not say by itself.
func (srv *server) learn(b before) {
	if b.counters != nil {
		srv.cache, srv.positions = b.counters.CacheConfig, len(b.counters.AcceptedPerPos)
	}
	for _, r := range b.records {
		if r.Spec != nil {
			srv.block = max(srv.block, r.Spec.DraftLength)
		}
	}
	srv.draftLength = max(srv.positions, srv.block)
}

// modelCard is one entry of /v1/models.
type modelCard struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`
	Root    string `json:"root"`
	Parent  string `json:"parent"` // of a LoRA adapter
	text    json.RawMessage
}

// notReady is a state of the server that waiting may change.
type notReady struct{ why string }

// Error implements error.
func (e notReady) Error() string { return e.why }

// maxAnswer limits what is read of a small answer.
const maxAnswer = 16 << 20

// get asks for a path within ten seconds.
func (s *Sweep) get(ctx context.Context, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.BaseURL+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot make request: %w", err)
	}
	s.authorize(req)
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, body, err
}

// authorize adds what the server asks for.
func (s *Sweep) authorize(req *http.Request) {
	if value := s.Plan.Config.Authorization(); value != "" {
		req.Header.Set("Authorization", value)
	}
}

// Authorization is the header of that name for the server: the key, or the user
// and password of the URL; "" where there is neither.
func (c Config) Authorization() string {
	if c.APIKey != "" {
		return "Bearer " + c.APIKey
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

// connect waits until the server is ready, and learns what it is.
func (s *Sweep) connect(ctx context.Context) (server, error) {
	cards, err := s.ready(ctx)
	if err != nil {
		return server{}, err
	}
	return s.identify(ctx, cards)
}

// ready waits until the server is ready, and returns its models.
func (s *Sweep) ready(ctx context.Context) ([]modelCard, error) {
	start, wait := s.now(), s.Plan.Config.Wait
	for {
		cards, err := s.probe(ctx)
		if err == nil {
			return cards, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var not notReady
		if !errors.As(err, &not) {
			return nil, err
		}
		waited := s.now().Sub(start)
		if gone := s.Plan.Config.gone(); gone != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotReachable, gone)
		}
		if waited >= wait {
			return nil, fmt.Errorf("%w: %s at %s after %v; start it, or wait longer with --wait",
				ErrNotReachable, not.why, publicURL(s.Plan.Config.URL), waited.Round(time.Second))
		}
		s.progress.wait(not.why, waited, wait)
		if err := s.sleep(ctx, min(time.Second, wait-waited)); err != nil {
			return nil, err
		}
	}
}

// probe asks once for the health and the models. A notReady error may pass.
func (s *Sweep) probe(ctx context.Context) ([]modelCard, error) {
	status, body, err := s.get(ctx, "/health")
	if err != nil {
		return nil, notReady{"no connection"}
	}
	if status >= 500 {
		return nil, answersWith("/health", status, body)
	}
	status, body, err = s.get(ctx, "/v1/models") // a server without /health answers 404 there
	switch {
	case err != nil:
		return nil, notReady{"no connection"}
	case status == http.StatusOK:
		return parseModels(body)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, s.refused(status)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return nil, nil
	case status >= 500 || status == http.StatusTooManyRequests:
		return nil, answersWith("/v1/models", status, body)
	}
	return nil, fmt.Errorf("%w: /v1/models answers %d, want 200: is --url an OpenAI-compatible server?", ErrUsage, status)
}

// answersWith is the state behind an error status; 502 and 504 are a proxy's words
// for a server that is not there, or that gives the proxy no answer: ours says why.
func answersWith(path string, status int, body []byte) notReady {
	if status != http.StatusBadGateway && status != http.StatusGatewayTimeout {
		return notReady{fmt.Sprintf("%s answers %d", path, status)}
	}
	var said struct {
		Error struct{ Type, Message string }
	}
	kind, ours := "", false
	if json.Unmarshal(body, &said) == nil {
		kind, ours = strings.CutPrefix(said.Error.Type, "spectap_")
	}
	if ours && kind != collector.ErrUpstreamRefused {
		return notReady{"no answer: " + said.Error.Message}
	}
	return notReady{"no connection"}
}

// refused explains a 401 or 403.
func (s *Sweep) refused(status int) error {
	if s.Plan.Config.APIKey == "" {
		return fmt.Errorf("%w: the server answers %d and no key is set: want --api_key or --api_key_file", ErrUsage, status)
	}
	return fmt.Errorf("%w: the server answers %d: it does not take the key of --api_key", ErrUsage, status)
}

func parseModels(body []byte) ([]modelCard, error) {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: /v1/models is not JSON: is --url an OpenAI-compatible server?", ErrUsage)
	}
	var cards []modelCard
	for _, text := range list.Data {
		card := modelCard{text: text}
		if err := json.Unmarshal(text, &card); err != nil || card.ID == "" {
			continue
		}
		cards = append(cards, card)
	}
	return cards, nil
}

// identify chooses the model, and finds engine and version.
func (s *Sweep) identify(ctx context.Context, cards []modelCard) (server, error) {
	var srv server
	if len(cards) > 0 {
		srv.engine = engineOf(cards[0].OwnedBy)
	}
	if srv.engine == "" {
		if status, body, err := s.get(ctx, "/version"); err == nil && status == http.StatusOK && versionIn(body, "version") != "" {
			srv.engine = engineVLLM
		}
	}
	card, err := chooseModel(s.Plan.Config.Model, cards, srv.engine)
	if err != nil {
		return srv, err
	}
	srv.model, srv.card, srv.root = card.ID, card.text, card.Root
	srv.version = s.engineVersion(ctx, srv.engine)
	return srv, ctx.Err()
}

func engineOf(ownedBy string) string {
	return map[string]string{
		"vllm": engineVLLM, "sglang": engineSGLang, "tensorrt_llm": engineTRTLLM, "llamacpp": engineLlamaCPP,
	}[ownedBy]
}

// engineVersion asks where each engine tells its version.
func (s *Sweep) engineVersion(ctx context.Context, engine string) string {
	at, ok := map[string][2]string{
		engineVLLM:     {"/version", "version"},
		engineTRTLLM:   {"/version", "version"},
		engineSGLang:   {"/server_info", "version"},
		engineLlamaCPP: {"/props", "build_info"},
	}[engine]
	if !ok {
		return ""
	}
	status, body, err := s.get(ctx, at[0])
	if err != nil || status != http.StatusOK {
		return ""
	}
	return versionIn(body, at[1])
}

func versionIn(body []byte, key string) string {
	var fields map[string]json.RawMessage
	var version string
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields[key], &version) != nil {
		return ""
	}
	return version
}

// chooseModel returns the model to ask: the one that is named, or the only one.
func chooseModel(name string, cards []modelCard, engine string) (modelCard, error) {
	if name != "" {
		for _, card := range cards {
			if card.ID == name {
				return card, nil
			}
		}
		if len(cards) > 0 && engine == engineVLLM { // others take any name
			return modelCard{}, fmt.Errorf("%w: the server has no model %q (--model): want one of %s", ErrUsage, name, describe(cards))
		}
		return modelCard{ID: name}, nil
	}
	switch len(cards) {
	case 0:
		return modelCard{}, fmt.Errorf("%w: the server lists no model: name one with --model", ErrUsage)
	case 1:
		return cards[0], nil
	}
	return modelCard{}, fmt.Errorf("%w: the server lists several models: choose one with --model: %s", ErrUsage, describe(cards))
}

// describe names models, and says which are adapters or other names of one model.
func describe(cards []modelCard) string {
	var names []string
	firstOf := map[string]string{}
	for _, card := range cards {
		name := fmt.Sprintf("%q", card.ID)
		switch first, seen := firstOf[card.Root]; {
		case card.Parent != "":
			name += fmt.Sprintf(" (adapter of %q)", card.Parent)
		case card.Root != "" && seen:
			name += fmt.Sprintf(" (another name of %q)", first)
		default:
			firstOf[card.Root] = card.ID
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// counters reads the engine's totals; nil where it has none. TensorRT-LLM's
// /metrics is never asked: reading it drains a queue.
func (s *Sweep) counters(ctx context.Context, engine string) *collector.Counters {
	if engine != engineVLLM {
		return nil
	}
	status, body, err := s.get(ctx, "/metrics")
	if err != nil || status != http.StatusOK {
		return nil
	}
	c, err := collector.ParseCounters(body)
	if err != nil {
		s.Log.Warn().Err(err).Msg("cannot read the server's counters")
		return nil
	}
	return &c
}

// settledCounters reads the totals until they count n requests more than base
// and stand still, for about a second at most: vLLM counts a request shortly
// after its answer ends.
func (s *Sweep) settledCounters(ctx context.Context, engine string, base *collector.Counters, n int) *collector.Counters {
	last := s.counters(ctx, engine)
	for try := 0; last != nil && try < 40; try++ {
		if s.sleep(ctx, 25*time.Millisecond) != nil {
			return last
		}
		next := s.counters(ctx, engine)
		if next == nil {
			return last
		}
		still := next.RequestsFinished == last.RequestsFinished && next.GenerationTokens == last.GenerationTokens && next.Drafts == last.Drafts
		enough := base == nil || next.RequestsFinished-base.RequestsFinished >= float64(n)
		if last = next; still && enough {
			return last
		}
	}
	return last
}
