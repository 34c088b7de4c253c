package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is taken out of a server's arguments for a baseline, and what stays.
func TestWithoutSpeculation(t *testing.T) {
	f := func(typed, kept string) {
		t.Helper()
		got, taken := withoutSpeculation(strings.Fields(typed))
		if strings.Join(got, " ") != kept || len(got)+len(taken) != len(strings.Fields(typed)) {
			t.Errorf("%s:\ngot  %q, taken %q\nwant %q", typed, got, taken, kept)
		}
	}
	f(`M -tp 4 --speculative-config {"method":"ngram"} --port 8000`, "M -tp 4 --port 8000")
	f(`M --speculative_config={"method":"ngram"} --max-model-len 8192`, "M --max-model-len 8192")
	f("M --speculative-config.method dflash --speculative-config.model /d --speculative_config.num_speculative_tokens=3 -tp 2", "M -tp 2")
	f("M -sc {} -sc.method ngram --speculative-conf {} --specul {} --seed 1", "M --seed 1")
	f("M --spec-method ngram --spec_tokens=3 --spec-model /d --per-request-spec-decode-metrics summary --per_request_spec_decode_metrics=detailed --seed -1", "M --seed -1")
	f("M --per-request-spec summary --enforce-eager", "M --enforce-eager")
	// vLLM before 0.9
	f("M --speculative-model [ngram] --num-speculative-tokens 5 --ngram-prompt-lookup-max 4 --ngram_prompt_lookup_min=1 --speculative-disable-mqa-scorer"+
		" --spec-decoding-acceptance-method rejection_sampler --typical-acceptance-sampler-posterior-alpha 0.3 --disable-logprobs-during-spec-decoding false --dtype auto", "M --dtype auto")
	f("--speculative-disable-mqa-scorer M", "M")
	f("--speculative-model /d M", "M")
	// SGLang, llama.cpp
	f("--model-path M --speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 3 --speculative-eagle-topk 1 --tp 2", "--model-path M --tp 2")
	f("-m M.gguf --model-draft d.gguf --draft-max 16 -md d.gguf --ctx-size-draft 4096 -ngl 99", "-m M.gguf -ngl 99")
	f("-m M.gguf --spec-type ngram-simple --draft 16 --n-gpu-layers-draft 99 -ngld 99 -cd 4096 -devd none --lookup-cache-static l.bin -c 8192", "-m M.gguf -c 8192")
	// What turns speculation off stays, and so does what only sounds like it.
	f("--port 8000 --no_spec --draft_length 3 --drop_blocks 0.3", "--port 8000 --no_spec --drop_blocks 0.3")
	f("M --no-spec --no-speculative-decoding --disable-speculative --without-draft-model --disable-spec-decode --enable-draft-logprobs", "M --no-spec --no-speculative-decoding --disable-speculative --without-draft-model --disable-spec-decode --enable-draft-logprobs")
	for _, all := range []string{"M --specialize-active-lora --prompt-tokens-details --tokenizer spec --special x", "M", "", "--model draft --served-model-name speculative -- x"} {
		f(all, all)
	}
}

// launch --baseline starts the same server without its speculative arguments and
// sweeps the same points into a folder of their own, beside the others.
func TestLaunchBaseline(t *testing.T) {
	r := newRig(t, "serve")
	r.env["STAND_IN_HONEST"] = "yes"
	args := append([]string{"M", "--speculative-config.method", "dflash", "--max-model-len", "2048", "-sc.num_speculative_tokens", "3", "--per-request-spec-decode-metrics", "summary"},
		r.sweepArgs("--concurrency", "1", "2", "--acceptance", "server")...)
	r.want(r.run(background, args...), 0, "PASS: spectap launch: 2 of 2 points complete in "+r.save)
	r.want(r.run(background, append([]string{"--baseline"}, args...)...), 0, "PASS: spectap launch: 2 of 2 points complete in "+filepath.Join(r.save, "baseline"))
	r.says("baseline: taken out of the server's arguments: --speculative-config.method dflash -sc.num_speculative_tokens 3 --per-request-spec-decode-metrics summary\n")
	if got := r.argv(); len(got) < 4 || !slices.Equal(got[:4], []string{"serve", "M", "--max-model-len", "2048"}) || slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "spec") }) {
		t.Errorf("got the server's arguments %q", got)
	}
	for _, point := range []string{"t0_c1", "t0_c2"} {
		for _, name := range []string{filepath.Join(point, "acceptance_rate.json"), filepath.Join(point, "timing.json"), filepath.Join("baseline", point, "timing.json"), filepath.Join("baseline", "server.log")} {
			if _, err := os.Stat(filepath.Join(r.save, name)); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(r.save, "baseline", point, "acceptance_rate.json")); err == nil {
			t.Errorf("the baseline of %s has an acceptance_rate.json", point)
		}
	}
	text, _ := mustSpectap(t, 0, "compare", filepath.Join(r.save, "baseline"), r.save)
	for _, want := range []string{"Speed-up", "t0_c1", "t0_c2"} {
		if !strings.Contains(text, want) {
			t.Errorf("compare does not say %q:\n%s", want, text)
		}
	}
	config := filepath.Join(t.TempDir(), "vllm.yaml")
	if err := os.WriteFile(config, []byte("speculative_config: {method: ngram}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code := r.run(background, append([]string{"--baseline", "M", "--config", config}, r.sweepArgs("--concurrency", "4")...)...); code != 2 {
		t.Errorf("got exit code %d, want 2", code)
	}
	r.says(`cannot take "speculative-config" out of the server's --config`)
}

// A signal that ended the server before it reached us is ours, too.
func TestInterruptedSoon(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	if interruptedSoon(ctx, time.Millisecond) {
		t.Error("got an interruption, want none")
	}
	go cancel()
	if !interruptedSoon(ctx, time.Minute) {
		t.Error("got no interruption")
	}
}

// Slurm sends its signal to every process of a job: the exit code is the signal's,
// though the server ended first.
func TestLaunchSignalledWithServer(t *testing.T) {
	f := func(mode string, reached func(r *rig) bool) {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode)
			r.env["STAND_IN_SLOW"] = "yes"
			c := r.startMain(append([]string{"M"}, r.sweepArgs()...)...)
			r.until("the start", func() bool { return reached(r) })
			pids := standInPids(r.dir)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
			r.until("the end of the server", func() bool { return !slices.ContainsFunc(pids, runs) })
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != 143 {
				t.Errorf("got exit code %d, want 143\nstdout: %s\nstderr: %s", code, r.out.String(), r.errs.String())
			}
		})
	}
	f("mute", func(r *rig) bool { return len(standInPids(r.dir)) == 1 })
	f("serve", func(r *rig) bool { return r.requests() >= 3 })
}
