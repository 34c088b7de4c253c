package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spectap/sweep"
)

func TestSplitWords(t *testing.T) {
	f := func(command string, want ...string) {
		t.Helper()
		if got, err := splitWords(command); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q (%v), want %q", command, got, err, want)
		}
	}
	f("vllm serve", "vllm", "serve")
	f("  a\t b\n", "a", "b")
	f(`a 'b  "c' "d 'e"`, "a", `b  "c`, "d 'e")
	f(`a\ b "c\"d\\e\f" 'g\h'`, "a b", `c"d\e\f`, `g\h`)
	f(`x'y z'"w" ''`, "xy zw", "")
	f(`echo $HOME ~ * {port}`, "echo", "$HOME", "~", "*", "{port}") // nothing is expanded
	for _, bad := range []string{"", " ", "a 'b", `a "b`, `a \`} {
		if got, err := splitWords(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}

// What is shown of a command line is read by a shell, and by us, as its words.
func TestJoinWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "words")
		if got, err := splitWords(joinWords(words)); err != nil || !slices.Equal(got, words) {
			t.Fatalf("got %q (%v), want %q", got, err, words)
		}
	})
}

func TestSplitLaunch(t *testing.T) {
	own := (program{}).launchCommand().Flags()
	f := func(args string, want launchArgs) {
		t.Helper()
		got, err := splitLaunch(strings.Fields(args), own)
		if err != nil || !slices.Equal(got.own, want.own) || !slices.Equal(got.server, want.server) || !slices.Equal(got.sweep, want.sweep) {
			t.Errorf("%s: got %q (%v), want %q", args, got, err, want)
		}
	}
	f("M -- --url u", launchArgs{nil, []string{"M"}, []string{"--url", "u"}})
	f("--stop-grace 3s --server_cmd=x M --port 1 -- a -- b", launchArgs{[]string{"--stop-grace", "3s", "--server_cmd=x"}, []string{"M", "--port", "1"}, []string{"a", "--", "b"}})
	f("--stopgrace 3s --", launchArgs{nil, []string{"--stopgrace", "3s"}, nil}) // none of ours
}

// How the server drafts, in every spelling that vLLM takes, by specdec_bench's names.
func TestSpeculation(t *testing.T) {
	f := func(want sweep.Speculation, args ...string) {
		t.Helper()
		if got := parseOptions(args).speculation(); got != want {
			t.Errorf("%q: got %+v, want %+v", args, got, want)
		}
	}
	f(sweep.Speculation{}, "M", "--port", "1")
	f(sweep.Speculation{Algorithm: "NGRAM", DraftLength: 4}, "M", "--speculative-config", `{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}`)
	f(sweep.Speculation{Algorithm: "EAGLE3", DraftModel: "/d", DraftLength: 2}, "-sc", `{"method":"eagle3","model":"/d","num_speculative_tokens":2}`)
	f(sweep.Speculation{Algorithm: "DFLASH", DraftModel: "/d", DraftLength: 15}, "--speculative_config.method=dflash", "--speculative-config.model", "/d", "--speculative-config.num_speculative_tokens", "15")
	f(sweep.Speculation{Algorithm: "DRAFT_TARGET", DraftModel: "d", DraftLength: 3}, "--spec-method", "draft_model", "--spec-model", "d", "--spec-tokens", "3")
	f(sweep.Speculation{Algorithm: "MTP", DraftLength: 1}, "--speculative-config", `{"method": "deepseek_mtp"}`, "--speculative-config.num_speculative_tokens", "1")
	f(sweep.Speculation{DraftModel: "d"}, "--speculative-config", `{"model": "d"}`) // vLLM finds the method
	f(sweep.Speculation{Algorithm: "NGRAM"}, "--speculative-config", `{"method": "ngram", "model": null}`)
	f(sweep.Speculation{}, "--speculative-config", "None")
}

// The server's command line: as typed, with what is left out.
func TestServing(t *testing.T) {
	config := filepath.Join(t.TempDir(), "vllm.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	const any, statistics = "--port PORT --host 127.0.0.1", "--per-request-spec-decode-metrics summary"
	f := func(typed, added, url string) {
		t.Helper()
		s, err := newServing([]string{"vllm", "serve"}, strings.Fields(typed), env, true)
		if err != nil {
			t.Errorf("%s: %v", typed, err)
			return
		}
		_, port, _ := strings.Cut(s.listen, ":")
		want := strings.Fields("vllm serve " + env["HF_MODEL_CKPT"] + " " + typed + " " + strings.ReplaceAll(added, "PORT", port))
		if !slices.Equal(s.argv, want) || s.url != strings.ReplaceAll(url, "PORT", port) {
			t.Errorf("got %q at %s, want %q at %s", s.argv, s.url, want, url)
		}
	}
	const free = "http://127.0.0.1:PORT"
	f("M", any, free)
	f("--model M", any, free)
	f("--model=M -tp 4", any, free)
	f(`M --speculative-config {"method":"ngram"}`, statistics+" "+any, free)
	f(`M --speculative_config={"method":"ngram"}`, statistics+" "+any, free)
	f(`M --speculative-conf {}`, statistics+" "+any, free) // argparse takes beginnings
	f(`M -sc {}`, statistics+" "+any, free)
	f(`M -sc.method ngram`, statistics+" "+any, free)
	f(`M --speculative-config.method dflash`, statistics+" "+any, free)
	f(`M --speculative_config.method=dflash`, statistics+" "+any, free)
	f(`M --spec-method ngram`, statistics+" "+any, free)
	f(`M --spec_tokens=3`, statistics+" "+any, free)
	f(`M --speculative-config None`, any, free)
	f(`M --specialize-active-lora`, any, free) // another option
	f(`M -sc {} --per-request-spec-decode-metrics detailed`, any, free)
	f(`M -sc {} --per_request_spec_decode_metrics=none`, any, free)
	f("M --port 8123", "", "http://127.0.0.1:8123") // all addresses, as vllm serve
	f("M --port=8123 --host 0.0.0.0", "", "http://127.0.0.1:8123")
	f("M --port 8122 --port 8123 --host=::", "", "http://[::1]:8123")
	f("M --host 10.0.0.7 --port 8123", "", "http://10.0.0.7:8123")
	f("M --host 127.0.0.2", "--port PORT", "http://127.0.0.2:PORT")
	f("M --port 8123 --ssl-certfile c --ssl-keyfile k", "", "https://127.0.0.1:8123")
	f("M --chat-template {port}", any, free)
	write("port: 8123\nspeculative_config: {method: ngram}\nenable-x: true\nhost: localhost\n")
	f("M --config "+config, statistics, "http://localhost:8123")
	f("M --port 8124 --config "+config, statistics, "http://localhost:8124")
	write("model: M\nspeculative-config: null\nper-request-spec-decode-metrics: detailed\n")
	f("--config "+config, any, free)
	env["HF_MODEL_CKPT"] = "/ckpt"
	f("", any, free)
	f("-tp 4 --port 8123", "", "http://127.0.0.1:8123")
	env["HF_MODEL_CKPT"] = ""
	for typed, want := range map[string]string{
		"":                      "no model to serve",
		"-tp 4":                 "no model to serve",
		"M --grpc":              "--grpc",
		"M --headless":          "--headless",
		"M --port":              `--port ""`,
		"M --port x":            `--port "x"`,
		"M --config=/no/such/f": "cannot read the server's --config",
	} {
		if _, err := newServing([]string{"vllm", "serve"}, strings.Fields(typed), env, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", typed, err, want)
		}
	}
	write("- a list\n")
	if _, err := newServing(nil, []string{"M", "--config", config}, env, true); err == nil {
		t.Error("a --config that is a list is taken")
	}
}

// What the command line says of keys and GPUs, and what the sweep does not want.
func TestServingFacts(t *testing.T) {
	f := func(typed string, env map[string]string, key string, gpus int) {
		t.Helper()
		s, err := newServing([]string{"vllm"}, strings.Fields("M "+typed), env, true)
		if err != nil || s.apiKey != key || s.gpus != gpus {
			t.Errorf("%s: got %+v (%v), want key %q and %d GPUs", typed, s, err, key, gpus)
		}
	}
	f("", nil, "", 1)
	f("--api-key a b -tp 4 --pipeline_parallel_size=2 -dp 3", map[string]string{"VLLM_API_KEY": "c"}, "a", 24)
	f("--tensor-parallel-size 4 -tp many", map[string]string{"VLLM_API_KEY": "c"}, "c", 1)
	s, err := newServing([]string{"vllm"}, []string{"M", "-sc", "{}"}, nil, false)
	if err != nil || slices.Contains(s.argv, statisticsFlag) || s.note != "" {
		t.Errorf("got %+v (%v), want no statistics for a sweep that wants none", s, err)
	}
}

func TestRedactWords(t *testing.T) {
	f := func(command, want string) {
		t.Helper()
		words, err := splitWords(command)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(redactWords(words), " "); got != want {
			t.Errorf("%s: got\n%s, want\n%s", command, got, want)
		}
	}
	const x = hidden
	f("vllm serve M --api-key a b --port 1", "vllm serve M --api-key "+x+" "+x+" --port 1")
	f("--api_key=a b", "--api_key="+x+" b")
	f("--hf-token a -- b", "--hf-token "+x+" -- b")
	f("--max-num-batched-tokens 8192 --spec-tokens 3 --tokenizer T --ssl-keyfile F", "--max-num-batched-tokens 8192 --spec-tokens 3 --tokenizer T --ssl-keyfile F")
	f("--speculative-config.num_speculative_tokens 3 --kv-transfer-config.extra.api_key a", "--speculative-config.num_speculative_tokens 3 --kv-transfer-config.extra.api_key "+x)
	f(`--x '{"num_speculative_tokens": 3}' --y '{"a": [{"secret": 1}], "b": 2}'`, `--x {"num_speculative_tokens": 3} --y {"a":[{"secret":"`+x+`"}],"b":2}`)
	f("docker run -e HF_TOKEN=abc -e A=b http://u:p@h/x --url=http://u:p@h", "docker run -e HF_TOKEN="+x+" -e A=b http://h/x --url=http://h")
	f(`launch --server_cmd "env HF_TOKEN=abc vllm serve" M`, "launch --server_cmd env 'HF_TOKEN="+x+"' vllm serve M")
	f(`launch --server-cmd="x --api-key a" M`, "launch --server-cmd=x --api-key '"+x+"' M")
}

func TestSecretsOf(t *testing.T) {
	got := secretsOf([]string{"--api-key", "abcdef", "abcdefgh", "--port", "123456"}, map[string]string{"HF_TOKEN": "hf_123", "OPENAI_API_KEY": "short", "HOME": "/home/x"})
	if want := []string{"abcdefgh", "abcdef", "hf_123"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := hide("abcdefgh abcdef", got); got != hidden+" "+hidden {
		t.Errorf("got %q", got)
	}
}

// A free port is one that a server can listen on, and never one that the kernel
// gives to an outgoing connection.
func TestFreePort(t *testing.T) {
	for range 20 {
		port, err := freePort()
		if err != nil || port < "20000" || port >= "32768" {
			t.Fatalf("got %s (%v), want a port of 20000 to 32767", port, err)
		}
	}
}
