package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// aiperfFolder holds what AIPerf was given and what it wrote, in a point's folder.
const aiperfFolder = "aiperf"

// installAIPerf says how to get the version that this driver knows.
const installAIPerf = "install it with pip install aiperf==0.13.0 (Python 3.10 or later, 1.2 GB), and put it on PATH or name it with --aiperf"

// aiperfTool is the aiperf program that was found.
type aiperfTool struct {
	path    string
	version string // "0.13.0"
}

// checkAIPerf returns what stands against driving this plan with AIPerf. It
// runs nothing: the version is looked at by prepareDriver.
func (p *Plan) checkAIPerf() []error {
	cfg := p.Config
	var errs []error
	refuse := func(flag, why string) {
		errs = append(errs, fmt.Errorf("cannot use %s with --driver aiperf: %s; leave it out, or use --driver builtin", flag, why))
	}
	if cfg.Completions {
		refuse("--completions", "AIPerf's conversations are chats")
	}
	if cfg.Postprocess != "base" {
		refuse("--postprocess "+cfg.Postprocess, "AIPerf puts replies into the history as they came")
	}
	if cfg.IncludeStop {
		refuse("--include_stop_str_in_output", "AIPerf would put the text of EOS into the history")
	}
	for _, q := range p.Questions {
		for turn, prompt := range q.Prompts {
			if prompt == "" {
				errs = append(errs, fmt.Errorf("cannot ask question %s with --driver aiperf: its turn %d is empty, which AIPerf does not send", questionText(q.ID), turn))
			}
		}
	}
	if err := p.checkTokenizer(); err != nil {
		errs = append(errs, err)
	}
	if _, err := findAIPerf(cfg); err != nil && !cfg.DryRun {
		errs = append(errs, err)
	}
	return errs
}

// checkTokenizer wants a folder; a name of a hub is left to AIPerf, which needs
// the network for it.
func (p *Plan) checkTokenizer() error {
	name := p.Config.Tokenizer
	if name == "" {
		return errors.New("--tokenizer is not set: AIPerf counts tokens by itself and wants a folder with the model's tokenizer, such as the checkpoint's")
	}
	info, err := os.Stat(name)
	if err != nil {
		if filepath.IsAbs(name) || strings.HasPrefix(name, ".") {
			return fmt.Errorf("cannot use --tokenizer %q: %w; want a folder with the model's tokenizer", name, err)
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("--tokenizer %q is no folder here: AIPerf will ask the network for it", name))
		return nil
	}
	for _, file := range []string{"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tekken.json", "vocab.json"} {
		if exists(filepath.Join(name, file)) {
			return nil
		}
	}
	if !info.IsDir() {
		return fmt.Errorf("cannot use --tokenizer %q: want the folder that the tokenizer is in, not a file", name)
	}
	return fmt.Errorf("cannot use --tokenizer %q: the folder has none of tokenizer.json, tokenizer_config.json, tokenizer.model", name)
}

// findAIPerf returns the program of --aiperf, or the one on PATH.
func findAIPerf(cfg Config) (string, error) {
	if cfg.AIPerf != "" {
		path, err := exec.LookPath(cfg.AIPerf)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return "", fmt.Errorf("cannot run --aiperf %q: %w; %s", cfg.AIPerf, err, installAIPerf)
		}
		return filepath.Abs(path)
	}
	for _, dir := range filepath.SplitList(cfg.Env["PATH"]) {
		if dir == "" {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "aiperf")); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("cannot find aiperf on PATH, which --driver aiperf runs: %s", installAIPerf)
}

// prepareDriver finds another program that drives the load and checks its version.
func (s *Sweep) prepareDriver(ctx context.Context) error {
	if s.Plan.Config.Driver != DriverAIPerf {
		return nil
	}
	if s.LoadURL == "" {
		return errors.New("BUG: --driver aiperf needs the measuring proxy on a TCP port")
	}
	path, err := findAIPerf(s.Plan.Config)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = aiperfEnv(s.Plan.Config.Env, "")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: cannot ask %q for its version: %w; %s", ErrUsage, path, err, installAIPerf)
	}
	s.aiperf = aiperfTool{path: path, version: versionText(out)}
	warning, err := checkVersion(s.aiperf)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if warning != "" {
		s.Plan.Warnings = append(s.Plan.Warnings, warning)
		s.Log.Warn().Msg(warning)
	}
	return nil
}

// versionText returns the last word of the output of --version.
func versionText(out []byte) string {
	words := bytes.Fields(out)
	if len(words) == 0 {
		return ""
	}
	return string(words[len(words)-1])
}

// checkVersion knows 0.13. Earlier versions send system turns as requests
// (aiperf#1061) and export no statistics of speculative decoding (aiperf#1191);
// later ones may have other flags and files, which is a warning.
func checkVersion(tool aiperfTool) (warning string, err error) {
	parts := strings.Split(tool.version, ".")
	major, majorErr := strconv.Atoi(parts[0])
	minor := 0
	minorErr := errors.New("no minor version")
	if len(parts) > 1 {
		minor, minorErr = strconv.Atoi(parts[1])
	}
	switch {
	case majorErr != nil || minorErr != nil:
		return "", fmt.Errorf("cannot use %q: it says %q for its version, want 0.13; %s", tool.path, tool.version, installAIPerf)
	case major == 0 && minor < 13:
		return "", fmt.Errorf("cannot use AIPerf %s (%q): want 0.13; %s", tool.version, tool.path, installAIPerf)
	case major == 0 && minor == 13:
		return "", nil
	}
	return fmt.Sprintf("AIPerf %s is not the version that this driver was tried with: want 0.13; look at the cross-check before its figures are used", tool.version), nil
}

// driverName is the driver as the files name it.
func (s *Sweep) driverName() string {
	if s.aiperf.version != "" {
		return DriverAIPerf + " " + s.aiperf.version
	}
	return s.Plan.Config.Driver
}

// aiperfEnv is the environment of AIPerf: ours without the variables that break
// a tokenizer from a folder (aiperf#1339) and without our key, and with a folder
// of its own for temporary files, which it leaves some of behind.
func aiperfEnv(env map[string]string, temporary string) []string {
	list := []string{}
	for name, value := range env {
		switch name {
		case "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "SPECTAP_API_KEY":
		case "TMPDIR":
			if temporary == "" {
				list = append(list, name+"="+value)
			}
		default:
			list = append(list, name+"="+value)
		}
	}
	if temporary != "" {
		list = append(list, "TMPDIR="+temporary)
	}
	return list
}
