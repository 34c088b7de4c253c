package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"
)

// settingPrefix starts the name of every environment variable of ours; a flag
// is the rest of the name in lower case.
const settingPrefix = "SPECTAP_"

// setting is one field of a configuration struct, as its tags describe it.
type setting struct {
	Var, Flag, Default, Unit, Help string
	Bool                           bool
}

// settingsOf lists the settings of a configuration struct in its order: the
// tags env and envDefault are caarlos0/env's, unit and help are shown to people.
func settingsOf(config any) []setting {
	t := reflect.Indirect(reflect.ValueOf(config)).Type()
	var out []setting
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("env"), ",")
		if name == "" {
			continue
		}
		kind := t.Field(i).Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		out = append(out, setting{
			Var:     name,
			Flag:    strings.ToLower(strings.TrimPrefix(name, settingPrefix)),
			Default: tag.Get("envDefault"),
			Unit:    tag.Get("unit"),
			Help:    tag.Get("help"),
			Bool:    kind.Kind() == reflect.Bool,
		})
	}
	return out
}

// addSettings adds one flag for each setting. The flags hold text; parseSettings
// reads flag and variable alike, so that both obey one set of rules.
func addSettings(flags *pflag.FlagSet, config any) {
	for _, s := range settingsOf(config) {
		flags.String(s.Flag, "", s.Help)
		if s.Bool {
			flags.Lookup(s.Flag).NoOptDefVal = "true"
		}
	}
}

// parseSettings fills config: flag, then environment, then default. All bad
// values are reported at once.
func parseSettings(environ map[string]string, flags *pflag.FlagSet, config any) error {
	merged := make(map[string]string, len(environ))
	for key, value := range environ {
		if strings.HasPrefix(key, settingPrefix) && value != "" {
			merged[key] = value
		}
	}
	for _, s := range settingsOf(config) {
		if f := flags.Lookup(s.Flag); f != nil && f.Changed {
			merged[s.Var] = f.Value.String()
		}
	}
	err := env.ParseWithOptions(config, env.Options{Environment: merged})
	var all env.AggregateError
	if errors.As(err, &all) {
		err = errors.Join(all.Errors...)
	}
	if err != nil {
		return fmt.Errorf("cannot read the settings: %w", err)
	}
	return nil
}

// printSettings writes the table of --help: flag, variable, default, unit, meaning.
func printSettings(w io.Writer, config any) {
	for _, s := range settingsOf(config) {
		facts := s.Var
		if s.Unit != "" {
			facts += ", " + s.Unit
		}
		if s.Default != "" {
			facts += ", default " + s.Default
		}
		fmt.Fprintf(w, "  --%s (%s)\n        %s\n", s.Flag, facts, s.Help)
	}
}
