package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spectap/collector"
)

// asked is what a responses file says about a question.
type asked struct {
	hash     string // of its first user message
	category string
}

// The responses files by the metric that writes them.
var responsesFiles = []struct {
	name   string
	metric collector.Metric
}{
	{"mtbench_responses.jsonl", collector.MetricMTBench},
	{"specbench_responses.jsonl", collector.MetricSpecBench},
	{"responses.jsonl", collector.MetricAcceptanceRate},
}

// readResponses reads the questions of a folder's responses file by the name that
// Request_AL gives them. A folder without one has none.
func readResponses(dir string) (map[string]asked, collector.Metric, error) {
	for _, file := range responsesFiles {
		body, err := os.ReadFile(filepath.Join(dir, file.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("cannot read the responses: %w", err)
		}
		questions, err := parseResponses(file.metric, body)
		if err != nil {
			return nil, "", fmt.Errorf("cannot read %s: %w", filepath.Join(dir, file.name), err)
		}
		return questions, file.metric, nil
	}
	return nil, "", nil
}

func parseResponses(m collector.Metric, body []byte) (map[string]asked, error) {
	questions := map[string]asked{}
	for i, line := range strings.Split(strings.TrimRight(string(body), "\n"), "\n") {
		if line == "" {
			continue
		}
		var r struct {
			ID       json.RawMessage `json:"question_id"`
			Category json.RawMessage `json:"category"`
			Turns    []string        `json:"turns"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		id, q := text(r.ID), asked{category: text(r.Category)}
		if n, err := strconv.Atoi(id); m == collector.MetricMTBench && err == nil {
			id = strconv.Itoa(n - mtbenchFirst)
		}
		if len(r.Turns) > 0 {
			q.hash = collector.HashText(nil, r.Turns[0])
		}
		questions[id] = q
	}
	return questions, nil
}

// mtbenchFirst is the question_id of MT-Bench's first question. Source: metric-parity 6.
const mtbenchFirst = 81

// runsOfFiles makes the runs of a folder of specdec_bench's: as many as
// acceptance_rate.json and timing.json hold, since runs are appended there.
func runsOfFiles(dir string) ([]run, error) {
	accepted, err := readResults(filepath.Join(dir, collector.FileAcceptance))
	if err != nil {
		return nil, err
	}
	timed, err := readResults(filepath.Join(dir, collector.FileTiming))
	if err != nil {
		return nil, err
	}
	if len(accepted) == 0 && len(timed) == 0 {
		return nil, fmt.Errorf("%s has neither %s nor %s: the run did not end", dir, collector.FileAcceptance, collector.FileTiming)
	}
	if len(accepted) > 0 && len(timed) > 0 && len(accepted) != len(timed) {
		return nil, fmt.Errorf("%s holds %d results and %s %d: want one of each a run, or one file alone", collector.FileAcceptance, len(accepted), collector.FileTiming, len(timed))
	}
	config, err := readConfiguration(dir)
	if err != nil {
		return nil, err
	}
	questions, metric, err := readResponses(dir)
	if err != nil {
		return nil, err
	}
	runs := make([]run, max(len(accepted), len(timed)))
	for i := range runs {
		r := &runs[i]
		*r = run{folder: dir, metric: metric, view: configText(config, "acceptance"), means: map[string]float64{}, facts: factsOfFiles(config)}
		if r.view == "" {
			r.view = collector.ViewClient
		}
		r.name, r.named = nameOfFiles(config, dir)
		if i < len(accepted) {
			if err := r.accept(accepted[i], config, questions); err != nil {
				return nil, fmt.Errorf("cannot use %s of %s: %w", collector.FileAcceptance, dir, err)
			}
		}
		if i < len(timed) {
			if err := r.timed(timed[i]); err != nil {
				return nil, fmt.Errorf("cannot use %s of %s: %w", collector.FileTiming, dir, err)
			}
		}
		r.facts = append(r.facts, fact{"metric", refuse, string(r.metric)})
	}
	return runs, nil
}

// readResults reads a list of results; a file that is not there has none.
func readResults(path string) ([]collector.Object, error) {
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	v, err := collector.DecodeOrdered(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("cannot read %s: want a list of results with at least one", path)
	}
	var results []collector.Object
	for _, entry := range list {
		o, ok := entry.(collector.Object)
		if !ok {
			return nil, fmt.Errorf("cannot read %s: want a list of objects", path)
		}
		results = append(results, o)
	}
	return results, nil
}

// readConfiguration reads configuration.json; nil where there is none.
func readConfiguration(dir string) (collector.Object, error) {
	path := filepath.Join(dir, collector.FileConfiguration)
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	v, err := collector.DecodeOrdered(body)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	o, ok := v.(collector.Object)
	if !ok {
		return nil, fmt.Errorf("cannot read %s: want an object", path)
	}
	return o, nil
}

// nameOfFiles names a point by its temperature and concurrency, as our own folders
// are named; by its folder where the configuration lacks them.
func nameOfFiles(config collector.Object, dir string) (name string, named bool) {
	t := configText(config, "temperature")
	if t == "" {
		t = configText(config, "runtime_params", "sampling_kwargs", "temperature")
	}
	temperature, errT := strconv.ParseFloat(t, 64)
	if t == "" && config != nil { // specdec_bench's default
		temperature, errT = 0, nil
	}
	concurrency, errC := strconv.Atoi(configText(config, "concurrency"))
	if errT == nil && errC == nil {
		return "t" + strconv.FormatFloat(temperature, 'f', -1, 64) + "_c" + strconv.Itoa(concurrency), true
	}
	return folderName(dir), false
}

func folderName(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return filepath.Base(dir)
}

// accept reads one result of acceptance_rate.json.
func (r *run) accept(o collector.Object, config collector.Object, questions map[string]asked) error {
	v, _ := o.Get("Request_AL")
	requests, ok := v.(collector.Object)
	if !ok || len(requests) == 0 {
		return errors.New("it has no Request_AL")
	}
	if r.metric == "" {
		r.metric = guessMetric(requests, o, config)
	}
	for _, m := range requests {
		c := conversation{id: m.Key, category: questions[m.Key].category, hash: questions[m.Key].hash, pooled: map[string]length{}}
		if index, err := strconv.Atoi(m.Key); r.metric == collector.MetricMTBench && err == nil {
			c.category = mtbenchCategory(index)
		}
		values, byTurn := m.Value.(collector.Object)
		if !byTurn {
			values = collector.Object{m}
		}
		for _, t := range values {
			al, err := number(t.Value)
			if err != nil || al < 1 {
				return fmt.Errorf("the AL of request %s is %v: want a number of at least 1", m.Key, t.Value)
			}
			if byTurn {
				c.turns = append(c.turns, turn{lengths: map[string]length{r.view: {value: al}}})
				continue
			}
			c.pooled[r.view] = length{value: al}
		}
		r.convs = append(r.convs, c)
	}
	r.joint = jointRates(o)
	return nil
}

// guessMetric tells the metric without a responses file: only the generic one lists
// turns, only the others have categories, and MT-Bench's are its own.
func guessMetric(requests, result, config collector.Object) collector.Metric {
	if _, byTurn := requests[0].Value.(collector.Object); byTurn {
		return collector.MetricAcceptanceRate
	}
	if configText(config, "mtbench") != "" || configText(config, "dataset") == "mtbench" {
		return collector.MetricMTBench
	}
	categories, _ := result.Get("Category_AL")
	list, _ := categories.(collector.Object)
	for i, c := range list {
		if i >= len(mtbenchTopics) || c.Key != mtbenchTopics[i] {
			return collector.MetricSpecBench
		}
	}
	return collector.MetricMTBench
}

func jointRates(o collector.Object) jointShares {
	v, _ := o.Get("Joint_Acceptance_Rate")
	list, _ := v.(collector.Object)
	rates := jointShares{}
	for _, m := range list {
		n, errN := strconv.Atoi(m.Key)
		if rate, err := number(m.Value); errN == nil && err == nil {
			rates[n] = rate
		}
	}
	return rates
}

// The quantities that timing.json has, by the names of its blocks.
var timingBlocks = map[string]string{"TTFT Time": QuantityTTFT, "Request Generation Tokens Per Second": QuantityRequestTPS}

// timed reads one result of timing.json.
func (r *run) timed(o collector.Object) error {
	for name, to := range map[string]*float64{"Output TPS": &r.tps, "Output TPS/gpu": &r.tpsPerGPU} {
		v, ok := o.Get(name)
		if !ok {
			continue
		}
		value, err := number(v)
		if err != nil || value <= 0 {
			return fmt.Errorf("%s is %v: want a number above 0", name, v)
		}
		*to = value
	}
	for name, quantity := range timingBlocks {
		v, _ := o.Get(name)
		block, _ := v.(collector.Object)
		mean, ok := block.Get("mean")
		if !ok {
			continue
		}
		value, err := number(mean)
		if err != nil || value < 0 {
			return fmt.Errorf("the mean of %s is %v: want a number", name, mean)
		}
		r.means[quantity] = value
	}
	return nil
}

// number reads a JSON number, or a text that holds one.
func number(v any) (float64, error) {
	s := ""
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
	default:
		return 0, fmt.Errorf("%v is no number", v)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (f != f || f > 1e300 || f < -1e300) {
		err = fmt.Errorf("%s is no finite number", s)
	}
	return f, err
}
