package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"spectap/collector"
)

// readFiles takes what is known of a point without records from its files, which
// may be specdec_bench's own.
func (p *point) readFiles(dir string) {
	p.filesOnly = true
	p.run.Point = p.name
	p.readConfiguration(filepath.Join(dir, collector.FileConfiguration))
	if p.failed {
		p.reason = reasonOf(dir)
		return
	}
	p.spec = new(collector.Speculation)
	text, err := os.ReadFile(filepath.Join(dir, collector.FileSpeculation))
	if err != nil || json.Unmarshal(text, p.spec) != nil || p.spec.Schema != collector.SchemaSpeculation {
		p.spec = &collector.Speculation{View: collector.ViewClient, Client: collector.ViewAL{NoInterval: "there are no records"}}
	}
	if err := cmp.Or(p.readAcceptance(filepath.Join(dir, collector.FileAcceptance)), p.readTiming(filepath.Join(dir, collector.FileTiming))); err != nil {
		p.failed, p.reason = true, err.Error()
		return
	}
	p.conversations = p.spec.Client.Conversations
	p.warnings = append(slices.Clone(p.spec.Warnings), "its folder has no "+collector.FileRecords+": only what its other files say is shown")
}

// readConfiguration reads what a point was.
func (p *point) readConfiguration(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var c struct {
		Temperature *float64 `json:"temperature"`
		Concurrency *int     `json:"concurrency"`
		GPUs        *int     `json:"tp_size"`
		Model       string   `json:"served_model"`
		ModelDir    string   `json:"model_dir"`
		Engine      string   `json:"engine"`
		Version     string   `json:"engine_version"`
	}
	if json.Valid(text) {
		p.run.Configuration = text
	}
	_ = json.Unmarshal(text, &c) // what it does not say is not known
	p.run.Model, p.run.Engine, p.run.EngineVersion = cmp.Or(c.Model, c.ModelDir), c.Engine, c.Version
	if c.Temperature != nil {
		p.run.Temperature = *c.Temperature
	}
	if c.Concurrency != nil {
		p.run.Concurrency = *c.Concurrency
	}
	if c.GPUs != nil {
		p.run.GPUs = *c.GPUs
	}
}

// lastResult is the last object of a result file's list; nil where there is no file.
func lastResult(path string) (collector.Object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	v, err := collector.DecodeOrdered(bytes.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("its %s could not be read: %w", filepath.Base(path), err)
	}
	if results, ok := v.([]any); ok && len(results) > 0 {
		v = results[len(results)-1]
	}
	o, ok := v.(collector.Object)
	if !ok {
		return nil, fmt.Errorf("its %s has no result", filepath.Base(path))
	}
	return o, nil
}

// value finds a number below names; NaN where there is none. timing.json has texts.
func value(v any, names ...string) float64 {
	for _, name := range names {
		o, ok := v.(collector.Object)
		if !ok {
			return nan
		}
		v = nil
		for _, m := range o {
			if m.Key == name {
				v = m.Value
			}
		}
	}
	f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		return nan
	}
	return f
}

func (p *point) readAcceptance(path string) error {
	o, err := lastResult(path)
	if o == nil {
		return err
	}
	al := value(o, "Average_AL")
	if p.spec.Schema == "" {
		p.spec.Client.AverageAL, p.spec.Server.AverageAL = al, al
	}
	for _, m := range o {
		categories, ok := m.Value.(collector.Object)
		if m.Key != "Category_AL" || !ok {
			continue
		}
		for _, c := range categories {
			p.categories = append(p.categories, category{name: c.Key, average: value(categories, c.Key)})
		}
	}
	return nil
}

func (p *point) readTiming(path string) error {
	o, err := lastResult(path)
	if o == nil {
		return err
	}
	known := func(v float64) float64 {
		if v != v {
			return 0
		}
		return v
	}
	p.tps, p.tpsPerGPU = known(value(o, "Output TPS")), known(value(o, "Output TPS/gpu"))
	p.userTPS = known(value(o, "Request Generation Tokens Per Second", "mean"))
	for i := range p.ttft.at {
		p.ttft.at[i], p.step.at[i] = nan, nan
	}
	p.ttft.at[50] = value(o, "TTFT Time", "quantiles", "0.5")
	return nil
}
