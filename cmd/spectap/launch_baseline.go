package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"spectap/collector/report"
	"spectap/sweep"
)

// isSpeculative tells whether an option makes a server speculate, or report how
// that went: vLLM's of all versions, SGLang's, llama.cpp's. One of the words of its
// name says so, or it is one of the few that do not.
func (o option) isSpeculative() bool {
	if slices.Contains([]string{"-sc", "-md", "spec"}, o.name) || strings.HasPrefix(o.name, "specul") {
		return true // argparse takes beginnings
	}
	if strings.HasPrefix(o.name, "ngram-prompt-lookup") || strings.HasPrefix(o.name, "typical-acceptance-sampler") {
		return true
	}
	if o.is(strings.TrimPrefix(statisticsFlag, "--")) {
		return true
	}
	words := strings.Split(o.name, "-")
	return slices.ContainsFunc(words, func(w string) bool { return w == "speculative" || w == "spec" || w == "draft" })
}

// withoutSpeculation returns a server's command line without its speculative
// options, and these. An option has one value at most: what follows it is another
// one, or the model.
func withoutSpeculation(words []string) (kept, taken []string) {
	for i := 0; i < len(words); i++ {
		all := parseOptions(words[i : i+1])
		if len(all) == 0 || !all[0].isSpeculative() {
			kept = append(kept, words[i])
			continue
		}
		taken = append(taken, words[i])
		inline := strings.Contains(words[i], "=")
		flag := all[0].name == "speculative-disable-mqa-scorer" // the one without a value
		if !inline && !flag && i+1 < len(words) && !isOption(words[i+1]) {
			i++
			taken = append(taken, words[i])
		}
	}
	return kept, taken
}

// forBaseline makes of a launch's command line that of its baseline, where that is
// asked for: the same server without speculation, the same points into a folder of
// their own.
func (l *launch) forBaseline(program, typed []string, cfg *sweep.Config) (words, args []string, err error) {
	if !l.cfg.Baseline {
		return program, typed, nil
	}
	words, first := withoutSpeculation(program)
	args, taken := withoutSpeculation(typed)
	l.taken = append(first, taken...)
	if file, ok := parseOptions(args).get("config"); ok && file.value() != "" {
		inFile, err := readOptionFile(file.value())
		if err != nil {
			return nil, nil, err
		}
		for _, o := range inFile {
			if o.isSpeculative() {
				return nil, nil, fmt.Errorf("cannot take %q out of the server's --config %q for launch --baseline: give it on the command line", o.name, file.value())
			}
		}
	}
	cfg.Baseline, cfg.Acceptance = true, ""
	if cfg.SaveDir != "" { // compare D/baseline D has both
		cfg.SaveDir = filepath.Join(cfg.SaveDir, report.FolderBaseline)
	}
	return words, args, nil
}

// takenText says what launch --baseline took out of the server's arguments.
func (l *launch) takenText() string {
	if len(l.taken) == 0 {
		return "baseline: the server's arguments have no speculative ones to take out"
	}
	return "baseline: taken out of the server's arguments: " + joinWords(redactWords(l.taken))
}
