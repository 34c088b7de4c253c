package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the README's generated tables")

const readmePath = "../../README.md"

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README's table of settings is the proxy's configuration struct.
func TestReadmeSettings(t *testing.T) {
	var b strings.Builder
	b.WriteString("| variable | flag | default | unit | meaning |\n|---|---|---|---|---|\n")
	var settings []setting
	for _, each := range new(proxySettings).all() {
		settings = append(settings, settingsOf(each)...)
	}
	for _, s := range settings {
		def := "`" + s.Default + "`"
		if s.Default == "" {
			def = ""
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", s.Var, s.Flag, def, s.Unit, s.Help)
	}
	generated(t, "settings", b.String())
}

// The files that the README names are the files that a sweep and a failed point
// leave behind.
func TestReadmeFiles(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 2), "--concurrency", "32", "--output_length", "8", "--save_dir", dir)
	faulty := fastEngine()
	faulty.Fault = "cut@3/4" // every fourth request, so that the preflight passes
	broken, _ := serveEngine(t, faulty)
	mustSpectap(t, exitFailed, "sweep", "--url", broken, "--mtbench", writeQuestions(t, 2), "--temperature", "1", "--concurrency", "8", "--output_length", "64", "--save_dir", dir)
	rows := regexp.MustCompile("(?m)^\\| (`[^|]*)\\|").FindAllStringSubmatch(section(t, "What appears on disk"), -1)
	named := 0
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named++
			if _, err := os.Stat(filepath.Join(dir, name[1])); err != nil {
				t.Errorf("README.md names a file that a sweep does not write: %v", err)
			}
		}
	}
	if named < 9 {
		t.Errorf("got %d files in the README's table, want at least 9", named)
	}
}

// section returns the README from a phrase to the next headline.
func section(t *testing.T, phrase string) string {
	t.Helper()
	_, rest, ok := strings.Cut(readme(t), phrase)
	if !ok {
		t.Fatalf("README.md does not say %q", phrase)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// Every command line of ours in the README names a command and flags that exist.
func TestReadmeCommands(t *testing.T) {
	blocks := strings.Join(regexp.MustCompile("(?s)```sh.*?```").FindAllString(readme(t), -1), "\n")
	lines := regexp.MustCompile(`(?m)^(?:bin/spectap|go run \./cmd/spectap) (.*)$`).FindAllStringSubmatch(blocks, -1)
	if len(lines) < 4 {
		t.Errorf("got %d command lines in README.md, want at least 4", len(lines))
	}
	for _, line := range lines {
		root := program{}.root()
		args := joinLists(strings.Fields(line[1]), listFlags(root))
		c, rest, err := root.Find(args)
		if err != nil || c == root {
			t.Errorf("%q: got error %v, want a command of spectap", line[1], err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%q: %v", line[1], err)
		}
	}
}

// Every flag that the README mentions exists in some command.
func TestReadmeFlags(t *testing.T) {
	known := map[string]bool{"--truth": true, "--help": true}
	for _, c := range (program{}).root().Commands() {
		for _, f := range flagNames(c) {
			known["--"+f] = true
		}
	}
	foreign := regexp.MustCompile("(?s)```.*?```|(?m)^.*fakevllm.*$|`vllm serve[^`]*`|`--per-request[^`]*`") // engines have flags of their own
	for _, name := range regexp.MustCompile(`--[a-z_]+`).FindAllString(foreign.ReplaceAllString(readme(t), ""), -1) {
		if !known[name] {
			t.Errorf("README.md mentions %s, which no command has", name)
		}
	}
}

func flagNames(c *cobra.Command) []string {
	var names []string
	for _, line := range strings.Split(c.Flags().FlagUsages(), "\n") {
		if m := regexp.MustCompile(`--([a-z_]+)`).FindStringSubmatch(line); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}
