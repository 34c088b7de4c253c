package deploy

import (
	"bytes"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// The demo's own Dockerfile builds the engine from what .dockerignore leaves, by
// the Go that the Dockerfile above names. Its base image is not fetched.
func TestComposeEngineImage(t *testing.T) {
	parse := func(text []byte) []instructions.Stage {
		parsed, err := parser.Parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		stages, _, err := instructions.Parse(parsed.AST, nil)
		if err != nil {
			t.Fatal(err)
		}
		return stages
	}
	e := composed(t, "demo.yaml", "").Services["fakevllm"]
	stages, main := parse([]byte(e.Build.DockerfileInline)), parse(read(t, "../Dockerfile"))
	if len(stages) != 2 || stages[0].BaseName != main[0].BaseName || stages[0].Platform != main[0].Platform || stages[1].BaseName != "scratch" {
		t.Fatalf("got stages %+v, want %s and scratch", stages, main[0].BaseName)
	}
	d := dockerfile{source: t.TempDir(), out: t.TempDir(), given: map[string]string{"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH}}
	copyTree(t, d.source)
	for _, stage := range stages {
		d.args = map[string]string{}
		for _, c := range stage.Commands {
			d.do(t, c)
		}
	}
	checkStatic(t, read(t, d.out, "fakevllm"), runtime.GOARCH)
	if d.config.User != "65532:65532" || strings.Join(d.config.Entrypoint, " ") != "/fakevllm" {
		t.Errorf("got user %s and entrypoint %q", d.config.User, d.config.Entrypoint)
	}
	runIn(t, ".", nil, filepath.Join(d.out, "fakevllm"), append(e.Command, "--help")...)
}
