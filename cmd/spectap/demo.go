package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"spectap/proxy/fakevllm"
	"spectap/sweep"
)

// demoQuestions are our own, in MT-Bench's form: ten of its first category and
// two of its second, so that the positional categories are true.
//
//go:embed demo_questions.jsonl
var demoQuestions []byte

func (p program) demoCommand() *cobra.Command {
	var saveDir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "the main job on embedded parts: simulated engine, proxy, sweep",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.demo(c.Context(), saveDir)
		},
	}
	c.Flags().StringVar(&saveDir, "save_dir", "", "folder for the files; default: a new folder in the temporary folder")
	return c
}

// demo runs the sweep of the README against a simulated engine on loopback.
func (p program) demo(ctx context.Context, saveDir string) error {
	engine, address, err := startDemoEngine()
	if err != nil {
		return exitError{exitFailed, err}
	}
	if saveDir == "" {
		if saveDir, err = os.MkdirTemp("", "spectap-demo-"); err != nil {
			return exitError{exitFailed, fmt.Errorf("cannot make a folder for the files: %w; name one with --save_dir", err)}
		}
	}
	fmt.Fprintf(p.stdout, "A simulated engine with speculative decoding listens on %s; the sweep asks it 12 two-turn questions a point through the proxy.\n", address)
	err = p.sweep(ctx, sweep.Config{
		URL:          "http://" + address,
		Questions:    demoQuestions,
		Temperatures: []string{"0", "1"},
		Concurrency:  []string{"1", "4", "8"},
		OutputLength: 96,
		GPUs:         1,
		SaveDir:      saveDir,
		Postprocess:  "base",
		Select:       "auto",
		Measure:      "tokens",
		Acceptance:   "client",
		Wait:         10 * time.Second,
		Argv:         p.argv,
		Env:          p.env,
		Version:      version(),
	}, "warn")
	if closed := engine.Close(); err == nil && closed != nil {
		err = exitError{exitFailed, closed}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, `
Files: %s
Next, against a real server (vLLM >= 0.29.0, started with --speculative-config and --per-request-spec-decode-metrics summary):
  spectap sweep --url http://127.0.0.1:8000 --mtbench question.jsonl --temperature 0 1 --concurrency 1 8 32 --save_dir results
`, saveDir)
	return nil
}

// startDemoEngine serves the simulated engine on a free loopback port.
func startDemoEngine() (*fakevllm.Engine, string, error) {
	engine, err := fakevllm.New(fakevllm.Config{
		Seed:        7,
		DraftLength: 5,
		Prefill:     5 * time.Millisecond,
		Step:        2 * time.Millisecond,
	})
	if err != nil {
		return nil, "", fmt.Errorf("cannot make the simulated engine: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("cannot listen on loopback: %w", err)
	}
	go func() { _ = engine.Serve(listener) }() // its end is Close; a failure shows in the sweep
	return engine, listener.Addr().String(), nil
}

// noArguments refuses positional arguments: a list flag without its name would
// otherwise be dropped silently.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exitError{exitUsage, fmt.Errorf("unexpected argument %q: want flags only; put a list after its flag, as in --temperature 0 1", args[0])}
	}
	return nil
}
