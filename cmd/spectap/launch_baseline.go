package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"spectap/collector/report"
	"spectap/sweep"
)

// speculativeOptions are those that name no family of speculativeFamilies: vLLM's of
// all versions, llama.cpp's.
var speculativeOptions = []string{
	"-sc", "spec", "num-speculative-tokens", "disable-logprobs-during-spec-decoding", // vLLM
	"draft", "lookup-cache-static", "lookup-cache-dynamic", "-lcs", "-lcd", // llama.cpp
	"-md", "-cd", "-td", "-tbd", "-ngld", "-devd", "-otd", "-ctkd", "-ctvd", "-hfd", "-hfrd", "-cmoed", "-ncmoed",
}

// speculativeFamilies are beginnings of names that only speculation has: vLLM's,
// SGLang's, llama.cpp's and the simulated engine's. TensorRT-LLM's are in its YAML file.
var speculativeFamilies = []string{"speculative-", "spec-", "draft-", "ngram-prompt-lookup-", "typical-acceptance-sampler-"}

// isSpeculative tells whether an option makes a server speculate, or report how
// that went. One that turns it off does not (--no_spec): it has to stay.
func (o option) isSpeculative() bool {
	if slices.Contains(speculativeOptions, o.name) || strings.HasPrefix(o.name, "specul") { // argparse takes beginnings
		return true
	}
	if o.is(strings.TrimPrefix(statisticsFlag, "--")) {
		return true
	}
	begins := func(family string) bool { return strings.HasPrefix(o.name, family) }
	return slices.ContainsFunc(speculativeFamilies, begins) || strings.HasSuffix(o.name, "-draft") && !strings.HasPrefix(o.name, "no-") // llama.cpp's --ctx-size-draft
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
