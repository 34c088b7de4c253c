package main

import (
	"errors"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// listAnnotation marks a flag that takes several values as argparse's nargs="+" does.
const listAnnotation = "spectap_list"

// dashes makes --save-dir and --save_dir one flag; specdec_bench's spelling with
// underscores is the name that is shown.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "-", "_"))
}

// listFlags returns the names of all flags of all commands that take lists.
func listFlags(root *cobra.Command) map[string]bool {
	names := make(map[string]bool)
	for _, c := range root.Commands() {
		maps.Copy(names, listsOf(c.Flags()))
	}
	return names
}

// listsOf returns the names of those flags that take lists.
func listsOf(flags *pflag.FlagSet) map[string]bool {
	names := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[listAnnotation] != nil {
			names[f.Name] = true
		}
	})
	return names
}

// joinLists rewrites "--temperature 0 1" to "--temperature=0,1", so that lists
// work as people type them. Cobra would take the 1 for a positional argument.
// Everything after a bare "--" is left alone.
func joinLists(args []string, lists map[string]bool) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		name, value, inline := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "--") || !lists[strings.ReplaceAll(name[2:], "-", "_")] {
			out = append(out, args[i])
			continue
		}
		var values []string
		if inline {
			values = append(values, value)
		}
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			values = append(values, args[i])
		}
		out = append(out, name+"="+strings.Join(values, ","))
	}
	return out
}

// list is the value of a list flag: comma separated, repeated or both.
type list []string

// String implements pflag.Value.
func (l *list) String() string { return strings.Join(*l, ",") }

// Set implements pflag.Value; a repeated flag adds to the list.
func (l *list) Set(text string) error {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(fields) == 0 {
		return errors.New("want one value or more")
	}
	*l = append(*l, fields...)
	return nil
}

// Type implements pflag.Value.
func (l *list) Type() string { return "list" }

// addList adds a list flag.
func addList(flags *pflag.FlagSet, l *list, name, usage string) {
	flags.Var(l, name, usage)
	_ = flags.SetAnnotation(name, listAnnotation, []string{"yes"})
}
