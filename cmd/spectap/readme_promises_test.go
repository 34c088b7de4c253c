package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The tests that the README names beside its promises exist.
func TestReadmePromises(t *testing.T) {
	names := regexp.MustCompile("`([a-z/]+)/((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)`").FindAllStringSubmatch(section(t, "What spectap promises"), -1)
	if len(names) < 25 {
		t.Errorf("got %d tests in the README's table, want at least 25", len(names))
	}
	for _, name := range names {
		files, err := filepath.Glob(filepath.Join("../..", name[1], "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in folder %s: %v", name[1], err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "\nfunc "+name[2]+"(")
		}
		if !found {
			t.Errorf("README.md names %s in %s, which does not exist", name[2], name[1])
		}
	}
}

// The README's table of error kinds is the constants of collector.Record.
func TestReadmeErrorKinds(t *testing.T) {
	var b strings.Builder
	b.WriteString("| error_kind | what happened |\n|---|---|\n")
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../collector/record.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") || len(spec.Values) != 1 {
			return true
		}
		kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		n++
		fmt.Fprintf(&b, "| `%s` | %s |\n", kind, strings.TrimSpace(spec.Comment.Text()))
		return true
	})
	if n < 10 {
		t.Fatalf("got %d error kinds in collector/record.go, want at least 10", n)
	}
	generated(t, "error kinds", b.String())
}

// generated holds the README's text between two marks against want; -update writes it.
func generated(t *testing.T, mark, want string) {
	t.Helper()
	text := readme(t)
	begin, end := "<!-- "+mark+": begin -->\n", "<!-- "+mark+": end -->"
	from, to := strings.Index(text, begin)+len(begin), strings.Index(text, end)
	if from < len(begin) || to < from {
		t.Fatalf("README.md has no marks for %s", mark)
	}
	if text[from:to] == want {
		return
	}
	if !*update {
		t.Fatalf("README.md's %s differ from the code; run go test ./cmd/spectap -run Readme -update\ngot\n%s\nwant\n%s", mark, text[from:to], want)
	}
	if err := os.WriteFile(readmePath, []byte(text[:from]+want+text[to:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
