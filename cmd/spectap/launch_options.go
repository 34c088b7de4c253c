package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// option is one option of vllm serve's command line, as its parser reads it.
type option struct {
	name   string   // "speculative-config", "-sc": dashes for underscores, no leading --
	member string   // "method" of --speculative-config.method; "": the option itself
	values []string // what follows, up to the next option
}

// value is the first value, or "".
func (o option) value() string {
	if len(o.values) == 0 {
		return ""
	}
	return o.values[0]
}

// is tells whether the option is one of the named. As Python's argparse does, an
// unambiguous beginning of a long name counts: no option of vLLM's is the
// beginning of one that is asked for here.
func (o option) is(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return o.name == name || len(o.name) >= 3 && o.name[0] != '-' && strings.HasPrefix(name, o.name)
	})
}

// options are in the order in which vLLM reads them; the last of a name counts.
type options []option

// parseOptions reads arguments; those before the first option are left out.
func parseOptions(args []string) options {
	var all options
	for _, arg := range args {
		if !isOption(arg) {
			if n := len(all) - 1; n >= 0 {
				all[n].values = append(all[n].values, arg)
			}
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		name, member, _ := strings.Cut(name, ".")
		o := option{name: name, member: member}
		if long, ok := strings.CutPrefix(name, "--"); ok {
			o.name = strings.ReplaceAll(long, "_", "-")
		}
		if inline {
			o.values = []string{value}
		}
		all = append(all, o)
	}
	return all
}

// isOption tells an option from a value: a negative number is a value.
func isOption(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !strings.ContainsRune("0123456789.", rune(arg[1]))
}

// get returns the option that counts.
func (all options) get(names ...string) (option, bool) {
	for _, o := range slices.Backward(all) {
		if o.is(names...) {
			return o, true
		}
	}
	return option{}, false
}

// speculates tells whether the server is told to speculate: without, it refuses
// to start if it shall report how that went.
func (all options) speculates() bool {
	return slices.ContainsFunc(all, func(o option) bool {
		if !o.is("speculative-config", "spec-method", "spec-model", "spec-tokens") && o.name != "-sc" {
			return false
		}
		return o.member != "" || !slices.Contains([]string{"", "None", "null"}, o.value())
	})
}

// readOptionFile reads the YAML file of vLLM's --config, whose members are
// options that its parser reads before those of the command line.
func readOptionFile(path string) (options, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the server's --config: %w", err)
	}
	var members map[string]any
	if err := yaml.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("cannot read the server's --config %q: want YAML with the names of its options: %w", path, err)
	}
	var all options
	for name, value := range members {
		o := option{name: strings.ReplaceAll(name, "_", "-")}
		switch v := value.(type) {
		case bool:
			if !v {
				continue
			}
		case nil:
			o.values = []string{"None"}
		case []any:
			for _, each := range v {
				o.values = append(o.values, fmt.Sprint(each))
			}
		case map[string]any:
			object, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("cannot read %q of the server's --config %q: %w", name, path, err)
			}
			o.values = []string{string(object)}
		default:
			o.values = []string{fmt.Sprint(v)}
		}
		all = append(all, o)
	}
	return all, nil
}
