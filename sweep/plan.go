package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"spectap/collector"
)

// Plan is a checked sweep: what is asked at which points. Nothing of it can be
// refused any more without asking the server.
type Plan struct {
	Config    Config // with defaults, URL in its normal form
	Dataset   string
	Metric    collector.Metric
	Questions []collector.Question // in the order in which they are asked; those of other shards are NotAsked
	Points    []PlannedPoint       // in the order in which they run
	Shard     Shard                // the part that is asked here
	TopP      float64
	TopK      int
	SLO       *collector.SLO // nil: nothing is judged
	Warnings  []string

	params        runtimeParams
	datasetPath   string
	questionsHash string // of the whole data set
	kept          kept   // with Resume: what is complete
}

// PlannedPoint is one temperature at one load.
type PlannedPoint struct {
	Name        string // "t0.6_c32", the name of its folder; "t0.6_c32_r2" of its second run
	Temperature float64
	Concurrency int     // of all shards together; 0 in an open loop
	Own         int     // this sweep's part of it
	Rate        float64 // of an open loop, whose points are "t0.6_q20": conversations per second of all shards together; else 0
	Repeat      collector.Repeat
}

// NewPlan reads the files and checks everything that can be checked without
// the server. Its error joins all problems and is an ErrUsage.
func NewPlan(cfg Config) (*Plan, error) {
	cfg = cfg.withDefaults()
	p := &Plan{}
	errs := cfg.check()
	url, err := normalURL(cfg.URL)
	errs = append(errs, err)
	cfg.URL = url
	if p.params, err = readRuntimeParams(cfg.RuntimeParams); err != nil {
		errs = append(errs, err)
	}
	p.Config, p.Warnings = cfg, slices.Clone(p.params.warnings)
	p.TopP, p.TopK = sampling(cfg, p.params)
	if p.SLO, err = collector.ParseSLO(cfg.SLO, cfg.SLOShare); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, p.plotPoints()...)
	errs = append(errs, p.repeatPoints())
	errs = append(errs, p.loadQuestions())
	if cfg.SaveDir != "" && cfg.Shard != "" { // of the folder above the shard's
		errs = append(errs, checkNoRun(cfg.SaveDir)...)
	}
	errs = append(errs, p.divide()...)
	p.Warnings = append(p.Warnings, p.warmupWarning()...)
	errs = append(errs, p.checkFiles()...)
	if cfg.SaveDir != "" {
		errs = append(errs, p.checkFolders()...)
	}
	if cfg.SaveDir != "" && !cfg.Resume && slices.ContainsFunc(p.Points, func(point PlannedPoint) bool { return checkPointFolder(p.Config.SaveDir, point.Name) != nil }) {
		errs = append(errs, errors.New("to keep the points that are complete and run the others, add --resume"))
	}
	if cfg.Driver == DriverAIPerf {
		errs = append(errs, p.checkAIPerf()...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrUsage, err)
	}
	return p, nil
}

// sampling merges flags over the YAML over specdec_bench's defaults.
func sampling(cfg Config, params runtimeParams) (topP float64, topK int) {
	topP = 1
	for _, v := range []*float64{params.topP, cfg.TopP} {
		if v != nil {
			topP = *v
		}
	}
	for _, v := range []*int{params.topK, cfg.TopK} {
		if v != nil {
			topK = *v
		}
	}
	return topP, topK
}

// plotPoints makes the points: for each temperature all loads.
func (p *Plan) plotPoints() []error {
	typed := p.Config.Temperatures
	ts, errs := temperatures(typed)
	if len(typed) == 0 {
		ts = []float64{0}
		if p.params.temperature != nil {
			ts = []float64{*p.params.temperature}
		}
	}
	loads, more := p.loads()
	errs = append(errs, more...)
	seen := map[string]int{}
	for _, t := range ts {
		for _, point := range loads {
			point.Name, point.Temperature = "t"+shortest(t)+point.Name, t
			if seen[point.Name]++; seen[point.Name] == 2 {
				errs = append(errs, fmt.Errorf("two points are equal: temperature %s at %s is asked for more than once", shortest(t), point.loadName()))
			}
			if seen[point.Name] == 1 {
				p.Points = append(p.Points, point)
			}
		}
	}
	return errs
}

// loads are the points of one temperature, which their names lack.
func (p *Plan) loads() ([]PlannedPoint, []error) {
	var loads []PlannedPoint
	cs, errs := concurrencies(p.Config.Concurrency)
	for _, c := range cs {
		loads = append(loads, PlannedPoint{Name: "_c" + strconv.Itoa(c), Concurrency: c, Own: c})
	}
	rates, more := requestRates(p.Config.RequestRate)
	for _, r := range rates {
		loads = append(loads, PlannedPoint{Name: "_q" + shortest(r), Rate: r})
	}
	return loads, append(errs, more...)
}

// loadQuestions reads the data set.
func (p *Plan) loadQuestions() error {
	src, err := p.Config.findDataset()
	if err != nil {
		return err
	}
	p.Dataset, p.Metric, p.datasetPath = src.name, src.metric, src.path
	want := wanted{n: p.Config.NumRequests, from: "--num_requests"}
	if want.n == nil && p.params.numSamples != nil {
		want = wanted{n: p.params.numSamples, from: "num_samples of --runtime_params", lax: true}
	}
	p.Questions, err = src.load(p.Config.Select, want)
	p.questionsHash = collector.QuestionsHash(p.Questions)
	return err
}

// Turns returns the number of requests of one point.
func (p *Plan) Turns() int {
	n := 0
	for _, q := range p.Questions {
		if !q.NotAsked {
			n += q.Turns
		}
	}
	return n
}

// Conversations returns the number of conversations of one point.
func (p *Plan) Conversations() int {
	n := 0
	for _, q := range p.Questions {
		if !q.NotAsked {
			n++
		}
	}
	return n
}

// checkFolders refuses a save_dir whose points exist, or were measured otherwise
// where the sweep is resumed, or that cannot be written.
func (p *Plan) checkFolders() []error {
	dir := p.Config.SaveDir
	errs := checkNoRun(dir)
	if p.Config.Resume {
		var err error
		p.kept, err = p.findKept()
		errs = append(errs, err)
	} else {
		for _, point := range p.Points {
			errs = append(errs, checkPointFolder(dir, point.Name))
		}
	}
	if !p.Config.DryRun {
		errs = append(errs, checkWritable(dir))
	}
	return errs
}

// checkNoRun refuses a folder that uploaders take for a single run.
func checkNoRun(dir string) []error {
	var errs []error
	for _, name := range collector.RunMarks() {
		if exists(filepath.Join(dir, name)) {
			errs = append(errs, fmt.Errorf("--save_dir %q holds %s of a single run, which would hide the point folders from upload_to_s3.py: choose another folder", dir, name))
		}
	}
	return errs
}

// checkPointFolder refuses a point that ran before, and says how to go on.
func checkPointFolder(dir, name string) error {
	for _, found := range []struct{ path, what, how string }{
		{filepath.Join(dir, name), "is complete", "leave this point out, or choose another --save_dir"},
		{filepath.Join(dir, name+collector.FailedSuffix), "failed", "remove the folder to run the point again, or choose another --save_dir"},
		{filepath.Join(dir, "."+name+".partial"), "is running, or was killed", "remove the folder if no sweep runs, or choose another --save_dir"},
	} {
		if exists(found.path) {
			return fmt.Errorf("point folder %q exists: the point %s; %s%s", found.path, found.what, found.how, lastHolder(dir))
		}
	}
	return nil
}

// lastHolder names the process of the lock file in dir; "" where there is none,
// because the sweeps there have ended by themselves.
func lastHolder(dir string) string {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return ""
	}
	defer f.Close()
	return fmt.Sprintf(" (the last sweep there did not end, or still runs: %s)", readHolder(f))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkWritable writes and removes a file in dir or, where dir does not exist,
// in the nearest folder above it that does.
func checkWritable(dir string) error {
	at := filepath.Clean(dir)
	for !exists(at) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, trialPattern)
	if err != nil {
		return fmt.Errorf("cannot write to --save_dir %q: %w", dir, err)
	}
	err = os.Remove(f.Name())
	if errors.Is(err, fs.ErrNotExist) { // a sweep that resumes removes what it finds
		err = nil
	}
	return errors.Join(f.Close(), err)
}

// removeTrials removes the files of sweeps that were killed in checkWritable, or
// while their report was written.
func removeTrials(dir string) {
	names, _ := fs.Glob(os.DirFS(dir), trialPattern)
	for _, name := range names {
		file := filepath.Join(dir, name)
		report, _ := filepath.Match(collector.UnfinishedReports, name)
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && (report || info.Size() == 0) {
			_ = os.Remove(file)
		}
	}
}

// trialPattern names the files of checkWritable.
const trialPattern = ".spectap-*"

// runtimeText returns the YAML as configuration.json of a point records it.
func (p *Plan) runtimeText(point PlannedPoint) json.RawMessage {
	var temperature, samples json.RawMessage
	if len(p.Config.Temperatures) > 0 {
		temperature = pythonFloat(point.Temperature)
	}
	if p.Config.NumRequests != nil {
		samples = number(*p.Config.NumRequests)
	}
	return p.params.text(temperature, samples)
}
