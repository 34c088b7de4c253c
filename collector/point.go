package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a point that have one name whatever the data set.
const (
	FileAcceptance    = "acceptance_rate.json"
	FileTiming        = "timing.json"
	FileSpecBench     = "specbench_results.json"
	FileConfiguration = "configuration.json"
	FileSpeculation   = "speculation.json"
	FilePerformance   = "performance.json"
	FileProfile       = "speculation_profile.json"
	FileRecords       = "records.jsonl"
)

// FileBook is a sweep's own file, beside the folders of its points.
const FileBook = "sweep.json"

// UnfinishedReports names the files in a sweep's folder in which a report is
// written before it gets its name. A killed process leaves one.
const UnfinishedReports = ".spectap-report-*"

// Point is one temperature at one concurrency: what was asked and every Record of it.
type Point struct {
	Run     Run
	Records []*Record
	// Lenient leaves conversations out that cannot be measured, counted by
	// reason, instead of refusing to make the files. Summary.Incomplete tells.
	Lenient bool
	// AIPerf is what AIPerf wrote about the same requests, where it drove them.
	AIPerf *AIPerf

	described bool // the Run was read from a run line
	quick     bool // intervals by resampling are left out
}

// results are the objects that the files of a point are made of.
type results struct {
	acceptance, timing Object            // timing is nil where no answer was streamed
	files              map[string][]byte // the files that are never appended to
	summary            Summary
}

// Files returns the text of every file of the Point by its name, as in an empty folder.
func (p Point) Files() (map[string][]byte, Summary, error) {
	return p.filesOver(func(string) ([]byte, error) { return nil, nil })
}

// filesOver returns the files. old returns what a file holds that is appended to, nil where there is none.
func (p Point) filesOver(old func(name string) ([]byte, error)) (map[string][]byte, Summary, error) {
	r, err := p.results()
	if err != nil {
		return nil, Summary{}, err
	}
	for name, object := range map[string]Object{FileAcceptance: r.acceptance, FileTiming: r.timing} {
		if object == nil {
			continue
		}
		before, err := old(name)
		if err != nil {
			return nil, Summary{}, err
		}
		if r.files[name], err = AppendResult(before, object); err != nil {
			return nil, Summary{}, fmt.Errorf("cannot append to %q: %w", name, err)
		}
	}
	return r.files, r.summary, nil
}

func (p Point) results() (results, error) {
	all := p.Records
	p = p.withoutWarmup()
	s := p.selected()
	if err := p.refuse(s); err != nil {
		return results{}, err
	}
	spec, err := p.speculation(s)
	if err != nil {
		return results{}, err
	}
	turns := s.inOrderOfEnd()
	timed := make([]Turn, len(turns))
	for i, t := range turns {
		timed[i] = Turn{Times: t.times, Tokens: t.completion(), Record: t.rec}
	}
	timing, err := Timing(timed, p.Run.GPUs)
	untimed := p.Lenient && errors.Is(err, errNotStreamed)
	if untimed { // acceptance is known without times
		timing.Warnings = []string{FileTiming + " is not written: " + errNotStreamed.Error()}
	} else if err != nil {
		return results{}, err
	}
	spec.CrossCheck = p.crossCheck(timing)
	spec.Warnings = append(append(spec.Warnings, timing.Warnings...), spec.CrossCheck.warnings()...)
	spec.OpenLoop = p.openLoop(s)
	spec.Warnings = append(spec.Warnings, spec.OpenLoop.warnings()...)
	var performance *Performance
	if !untimed {
		performance = new(p.performance(s, timing, p.steady(s, all)))
		spec.Warnings = append(spec.Warnings, performance.Steady.warnings()...)
	}
	convs := s.conversations(p, p.view())
	r := results{summary: p.summary(s, spec, timing)}
	if !untimed {
		r.timing = timing.Object()
		r.summary.Steady, r.summary.Goodput = &performance.Steady, performance.Goodput
	}
	if !p.Run.Baseline {
		if r.acceptance, err = Acceptance(p.Run.Metric, convs); err != nil {
			return results{}, err
		}
	}
	if r.files, err = p.ownFiles(s, convs, spec, performance, r.acceptance); err != nil {
		return results{}, err
	}
	return r, nil
}

// refuse says why the point cannot be made. A lenient point only needs one conversation.
func (p Point) refuse(s selection) error {
	if len(s.convs) == 0 && len(s.failures) == 0 {
		return fmt.Errorf("cannot make point %q: none of its %d records belongs to a conversation", p.Run.Point, len(p.Records))
	}
	if len(s.failures) == 0 || p.Lenient && len(s.convs) > 0 {
		return nil
	}
	return fmt.Errorf("cannot make point %q: %w", p.Run.Point, failuresError(s.failures))
}

// failuresListed bounds how many turns of one reason an error names.
const failuresListed = 5

// failuresError lists failures by reason.
func failuresError(failures []Failure) error {
	byReason := map[string][]Failure{}
	var order []string
	for _, f := range failures {
		if len(byReason[f.Reason]) == 0 {
			order = append(order, f.Reason)
		}
		byReason[f.Reason] = append(byReason[f.Reason], f)
	}
	var parts []string
	for _, why := range order {
		list := byReason[why]
		var names []string
		for _, f := range list[:min(len(list), failuresListed)] {
			names = append(names, fmt.Sprintf("%d/%d", f.Conversation, f.Turn))
		}
		if len(list) > failuresListed {
			names = append(names, "...")
		}
		part := fmt.Sprintf("%d %s (conversation/turn %s)", len(list), why, strings.Join(names, ", "))
		if list[0].Detail != "" {
			part += ": " + list[0].Detail
		}
		parts = append(parts, part)
	}
	return errors.New(strings.Join(parts, "; "))
}

// ownFiles makes the files that hold this run only.
func (p Point) ownFiles(s selection, convs []Conversation, spec Speculation, performance *Performance, acceptance Object) (map[string][]byte, error) {
	files := map[string][]byte{}
	var err error
	if files[FileSpeculation], err = indented(spec); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", FileSpeculation, err)
	}
	if profile := p.profile(spec, spec.WhatIf); profile != nil {
		if files[FileProfile], err = indented(profile); err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", FileProfile, err)
		}
	}
	if performance != nil {
		if files[FilePerformance], err = indented(performance); err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", FilePerformance, err)
		}
	}
	if p.Run.Metric == MetricSpecBench && acceptance != nil {
		files[FileSpecBench] = AppendIndented(nil, acceptance)
	}
	if p.Run.Configuration != nil {
		files[FileConfiguration] = slices.Clone(p.Run.Configuration)
	}
	if !s.hasTexts() {
		return files, nil
	}
	for _, c := range convs {
		for i := range c.Turns {
			if c.Turns[i].Reply, err = Postprocess(p.Run.Postprocess, c.Turns[i].Reply); err != nil {
				return nil, err
			}
		}
	}
	if files[ResponsesFile(p.Run.Metric)], err = Responses(p.Run.Metric, convs); err != nil {
		return nil, err
	}
	return files, nil
}

// hasTexts says that the Record of every measured turn kept its texts. One of
// prompt and reply may be empty by itself, both are empty where they were dropped.
func (s selection) hasTexts() bool {
	for _, c := range s.convs {
		for _, t := range c.turns {
			if t.rec.Prompt == "" && t.rec.Reply == "" {
				return false
			}
		}
	}
	return true
}

// indented is encoding/json's text with four spaces a level, as the other files of a point have.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Write writes the files of the Point into dir, which exists, and syncs them.
// acceptance_rate.json and timing.json are appended to where they exist. Nothing
// is written where the point cannot be made.
func (p Point) Write(dir string) (Summary, error) {
	files, summary, err := p.filesOver(func(name string) ([]byte, error) {
		old, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return old, err
	})
	if err != nil {
		return Summary{}, err
	}
	for name, text := range files {
		if err := writeSynced(filepath.Join(dir, name), text); err != nil {
			return Summary{}, err
		}
	}
	return summary, syncFolder(dir)
}

// WriteRecords writes the run line and all Records to a new file at path and syncs it.
func (p Point) WriteRecords(path string, texts Texts) error {
	var b bytes.Buffer
	line, err := encodeRun(p.Run, texts == KeepTexts)
	if err != nil {
		return fmt.Errorf("cannot encode run: %w", err)
	}
	b.Write(line)
	for _, r := range p.Records {
		if line, err = encodeRecord(r, texts == KeepTexts); err != nil {
			return fmt.Errorf("cannot encode record %q: %w", r.ID, err)
		}
		b.Write(line)
	}
	return writeSynced(path, b.Bytes())
}

// Texts says what happens to prompts and replies on the way to a file.
type Texts int

// The two choices of Texts. The zero Texts drops them.
const (
	DropTexts Texts = iota
	KeepTexts
)
