package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

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
		if s := settingOf(t.Field(i)); s.Var != "" {
			out = append(out, s)
		}
	}
	return out
}

// settingOf reads the tags of one field; a field without a variable is no setting.
func settingOf(field reflect.StructField) setting {
	name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
	kind := field.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	return setting{
		Var:     name,
		Flag:    strings.ToLower(strings.TrimPrefix(name, settingPrefix)),
		Default: field.Tag.Get("envDefault"),
		Unit:    field.Tag.Get("unit"),
		Help:    field.Tag.Get("help"),
		Bool:    kind.Kind() == reflect.Bool,
	}
}

// addSettings adds one flag for each setting. The flags hold text; parseSettings
// reads flag and variable alike, so that both obey one set of rules. The flags of
// without are left out.
func addSettings(flags *pflag.FlagSet, config any, without ...string) {
	for _, s := range settingsOf(config) {
		if slices.Contains(without, s.Flag) {
			continue
		}
		flags.String(s.Flag, "", s.Help)
		if s.Bool {
			flags.Lookup(s.Flag).NoOptDefVal = "true"
		}
	}
}

// parseSettings fills config: flag, then environment, then default. All bad
// values are reported at once, and their fields get the defaults, so that the
// other settings can be looked at too. An empty variable is as none, an empty
// flag is an empty text.
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
	var bad []error
	err := env.ParseWithOptions(config, env.Options{Environment: merged})
	var all env.AggregateError
	if errors.As(err, &all) {
		for _, each := range all.Errors {
			bad = append(bad, settingError(each, merged, config))
		}
		err = env.ParseWithOptions(config, env.Options{Environment: merged})
	}
	clearEmptied(config, flags)
	return errors.Join(append(bad, err)...)
}

// settingError names the variable and flag of a value that its field does not
// take, and removes it from the environment.
func settingError(err error, environ map[string]string, config any) error {
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	field, ok := reflect.TypeOf(config).Elem().FieldByName(parse.Name)
	if !ok {
		return err
	}
	s := settingOf(field)
	value := environ[s.Var]
	delete(environ, s.Var)
	return fmt.Errorf("cannot use %s (--%s) %q: want %s", s.Var, s.Flag, value, wanted(field.Type))
}

// wanted describes the values of a type.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration with its unit, as 50ms, 5s or 2m"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}

// clearEmptied empties the text settings whose flag was given an empty value;
// the parser takes an empty value for none and fills in the default.
func clearEmptied(config any, flags *pflag.FlagSet) {
	v := reflect.ValueOf(config).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.String {
			continue
		}
		f := flags.Lookup(settingOf(v.Type().Field(i)).Flag)
		if f != nil && f.Changed && f.Value.String() == "" {
			v.Field(i).SetString("")
		}
	}
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
