package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"spectap/sweep"
)

// readLaunch checks all there is to check before a server is started, which may
// take minutes.
func (p program) readLaunch(own *pflag.FlagSet, args []string) (*launch, error) {
	cut, err := splitLaunch(args, own)
	if err != nil {
		return nil, err
	}
	l := &launch{p: p, startingGrace: startingGrace}
	if err := own.Parse(cut.own); err != nil {
		return nil, err
	}
	errs := []error{l.readSettings(own)}
	flags, f, err := p.readSweepArgs(cut.sweep)
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	cfg := f.read(p, flags)
	words, err := splitWords(l.cfg.ServerCmd)
	if err != nil {
		errs = append(errs, fmt.Errorf("cannot use --server_cmd %q: %w", l.cfg.ServerCmd, err))
	} else if words, cut.server, err = l.forBaseline(words, cut.server, &cfg); err != nil {
		errs = append(errs, err)
	} else if l.serving, err = newServing(words, cut.server, p.env, !cfg.NoSpecStats && !cfg.Baseline); err != nil {
		errs = append(errs, err)
	} else if err := l.join(&cfg, flags); err != nil {
		errs = append(errs, err)
	}
	l.secrets, l.logLevel = secretsOf(append(append(words, cut.server...), "--api-key", cfg.APIKey), p.env), f.logLevel
	if l.serving == nil {
		cfg.URL = "http://127.0.0.1" // so that all other problems are told
	}
	l.plan, err = sweep.NewPlan(cfg)
	return l, errors.Join(append(errs, err)...)
}

// readSettings reads launch's own settings.
func (l *launch) readSettings(own *pflag.FlagSet) error {
	env := maps.Clone(l.p.env)
	var errs []error
	if text := env[startupVar]; text != "" && env["SPECTAP_STARTUP_TIMEOUT"] == "" {
		if n, err := strconv.ParseFloat(text, 64); err != nil || !(n > 0 && n < 1e9) {
			errs = append(errs, fmt.Errorf("cannot use %s %q: want a number of seconds", startupVar, text))
		} else {
			env["SPECTAP_STARTUP_TIMEOUT"] = strconv.FormatFloat(n, 'f', -1, 64) + "s"
		}
	}
	errs = append(errs, parseSettings(env, own, &l.cfg))
	if l.cfg.StartupTimeout <= 0 {
		errs = append(errs, fmt.Errorf("cannot use --startup_timeout %v: want more than 0", l.cfg.StartupTimeout))
	}
	if l.cfg.StopGrace < 0 {
		errs = append(errs, fmt.Errorf("cannot use --stop_grace %v: want 0 or more", l.cfg.StopGrace))
	}
	return errors.Join(errs...)
}

// readSweepArgs parses the arguments behind -- as spectap sweep does.
func (p program) readSweepArgs(args []string) (*pflag.FlagSet, *sweepFlags, error) {
	f := &sweepFlags{}
	flags := pflag.NewFlagSet("sweep", pflag.ContinueOnError)
	flags.SetNormalizeFunc(dashes)
	flags.SetOutput(p.stdout)
	f.add(flags)
	if err := flags.Parse(joinLists(args, listsOf(flags))); err != nil {
		return nil, nil, err
	}
	return flags, f, noArguments(nil, flags.Args())
}

// join fits the sweep's settings to the server.
func (l *launch) join(cfg *sweep.Config, flags *pflag.FlagSet) error {
	if cfg.URL != "" {
		typed, err := url.Parse(cfg.URL)
		ours, _ := url.Parse(l.serving.url)
		if err != nil || typed.Port() != ours.Port() {
			return fmt.Errorf("cannot use --url of the sweep's arguments: want port %s, where the server will listen; leave --url out, or give the server that --port", ours.Port())
		}
	} else {
		cfg.URL = l.serving.url
	}
	if cfg.APIKey == "" {
		cfg.APIKey = l.serving.apiKey
	}
	if !flags.Changed("num_gpus") && l.serving.gpus > 0 {
		cfg.GPUs = l.serving.gpus
	}
	cfg.Argv = redactWords(cfg.Argv)
	cfg.ServerCommand, cfg.Speculation = redactWords(l.serving.argv), l.serving.drafts
	return nil
}
