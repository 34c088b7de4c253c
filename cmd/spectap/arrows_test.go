package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows is the import table of the house: which packages of ours a package may
// import, and which outside packages; a name that ends in / stands for all below
// it. Test files are not counted.
var arrows = map[string]struct{ ours, outside []string }{
	"spectap/collector":          {ours: []string{"spectap/collector/estimate"}},
	"spectap/collector/estimate": {},
	"spectap/collector/compare":  {ours: []string{"spectap/collector", "spectap/collector/estimate"}},
	"spectap/collector/columns":  {ours: []string{"spectap/collector"}, outside: []string{"github.com/parquet-go/parquet-go"}},
	"spectap/collector/live":     {ours: []string{"spectap/collector"}, outside: []string{"github.com/HdrHistogram/hdrhistogram-go"}},
	"spectap/collector/report":   {ours: []string{"spectap/collector", "spectap/collector/compare", "spectap/collector/estimate"}},
	"spectap/collector/telemetry": {
		ours:    []string{"spectap/collector"},
		outside: []string{"github.com/rs/zerolog", "github.com/prometheus/client_golang/", "github.com/prometheus/otlptranslator", "go.opentelemetry.io/"},
	},
	"spectap/collector/upload": {ours: []string{"spectap/collector"}, outside: []string{"github.com/minio/minio-go/"}},
	"spectap/proxy/tap":        {ours: []string{"spectap/collector"}},
	"spectap/proxy/fakevllm":   {},
	"spectap/proxy": {
		ours:    []string{"spectap/collector", "spectap/proxy/tap"},
		outside: []string{"github.com/valyala/fasthttp", "github.com/rs/zerolog", "golang.org/x/sys/unix"},
	},
	"spectap/sweep": {
		ours:    []string{"spectap/collector"},
		outside: []string{"github.com/rs/zerolog", "github.com/parquet-go/parquet-go", "go.yaml.in/yaml/v4", "github.com/jedib0t/go-pretty/v6/table", "github.com/jedib0t/go-pretty/v6/text"},
	},
	"spectap/cmd/fakevllm": {ours: []string{"spectap/proxy/fakevllm"}, outside: []string{"github.com/spf13/pflag", "github.com/spf13/cobra"}},
	"spectap/cmd/spectap": {
		ours: []string{"spectap/collector", "spectap/collector/columns", "spectap/collector/compare", "spectap/collector/live", "spectap/collector/report", "spectap/collector/telemetry", "spectap/collector/upload", "spectap/proxy", "spectap/proxy/fakevllm", "spectap/sweep"},
		outside: []string{
			"github.com/caarlos0/env/v11", "github.com/rs/zerolog", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys/unix", "golang.org/x/term",
			"go.yaml.in/yaml/v4",
		},
	},
}

func TestArrowsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "spectap/...").Output()
	if err != nil {
		t.Fatalf("cannot list the packages: %v", err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		allowed, ok := arrows[pkg.ImportPath]
		if !ok {
			t.Errorf("package %s is not in the table of arrows", pkg.ImportPath)
		}
		for _, imported := range pkg.Imports {
			switch {
			case strings.HasPrefix(imported, "spectap/"):
				if !slices.Contains(allowed.ours, imported) {
					t.Errorf("%s imports %s: not an arrow of the house", pkg.ImportPath, imported)
				}
			case strings.Contains(strings.SplitN(imported, "/", 2)[0], "."):
				if !slices.ContainsFunc(allowed.outside, func(o string) bool {
					return o == imported || strings.HasSuffix(o, "/") && strings.HasPrefix(imported, o)
				}) {
					t.Errorf("%s imports %s: keep that dependency in the packages that need it", pkg.ImportPath, imported)
				}
			}
		}
	}
	if seen != len(arrows) {
		t.Errorf("got %d packages, want the %d of the table", seen, len(arrows))
	}
}
