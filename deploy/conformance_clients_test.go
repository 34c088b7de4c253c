package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// realClient is a program that asks the questions, and how.
type realClient struct {
	name     string
	piece    []string // its program in the kit; nil: spectap itself
	optional bool     // the kit may lack it
	turns    int      // that it asks of a question
	stream   bool
	aiperf   bool // AIPerf is the sweep's driver, its figures are cross-checked
	// command is run under `spectap exec`; nil: spectap sweeps. {url} is the proxy.
	command func(k kit, program, questions string) []string
}

var realClients = []realClient{
	{name: "builtin", turns: 2, stream: true},
	{name: "aiperf", piece: []string{"aiperf", "venv", "bin", "aiperf"}, turns: 2, stream: true, aiperf: true},
	{name: "aiperf unstreamed", piece: []string{"aiperf", "venv", "bin", "aiperf"}, turns: 2, command: aiperfCommand},
	{name: "openai", piece: []string{"openai", "venv", "bin", "python"}, turns: 2, stream: true, command: openaiCommand()},
	{name: "openai unstreamed", piece: []string{"openai", "venv", "bin", "python"}, turns: 2, command: openaiCommand("--no-stream")},
	{name: "vllm bench serve", piece: []string{"vllm", "venv", "bin", "vllm"}, turns: 1, stream: true, command: benchCommand}, // it streams always, and asks one turn
	{name: "guidellm", piece: []string{"guidellm", "venv", "bin", "guidellm"}, optional: true, turns: 2, stream: true, command: guidellmCommand(true)},
	{name: "guidellm unstreamed", piece: []string{"guidellm", "venv", "bin", "guidellm"}, optional: true, turns: 2, command: guidellmCommand(false)},
}

// program returns the client's own, false where it may be missing and is.
func (c realClient) program(t *testing.T, k kit) (string, bool) {
	t.Helper()
	if c.piece == nil {
		return "", true
	}
	if c.optional {
		if _, err := os.Stat(filepath.Join(k.root, c.piece[0])); err != nil {
			return "", false
		}
	}
	return k.piece(t, c.piece...), true
}

// arguments are those of spectap.
func (c realClient) arguments(k kit, program, url, questions string) []string {
	dataset := "--mtbench"
	if c.turns == 1 {
		dataset = "--specbench" // whose questions may have one turn
	}
	args := []string{"--url", url, dataset, questions, "--temperature", "0", "--concurrency", strconv.Itoa(conformanceConcurrency)}
	if c.command != nil {
		args = append([]string{"exec"}, append(args, "--max_tokens", strconv.Itoa(conformanceTokens), "--skip_special_tokens", "false", "--")...)
		return append(args, c.command(k, program, questions)...)
	}
	args = append([]string{"sweep"}, append(args, "--output_length", strconv.Itoa(conformanceTokens))...)
	if c.aiperf {
		args = append(args, "--driver", "aiperf", "--aiperf", program, "--tokenizer", k.tokenizer())
	}
	return args
}

// tokenizer is a folder with the model's tokenizer.
func (k kit) tokenizer() string { return filepath.Join(k.root, "aiperf", "tokenizer") }

func openaiCommand(more ...string) func(kit, string, string) []string {
	return func(_ kit, program, questions string) []string {
		script, err := filepath.Abs(filepath.Join("conformance", "openai_client.py"))
		if err != nil {
			panic(err) // there is no working directory
		}
		return append(append([]string{program, script}, more...), "--model", servedModel,
			"--max-tokens", strconv.Itoa(conformanceTokens), "--concurrency", strconv.Itoa(conformanceConcurrency), questions)
	}
}

// aiperfCommand asks without --streaming, which the sweep's driver never does.
func aiperfCommand(k kit, program, questions string) []string {
	input := conversations(questions, func(turns []string) any {
		var out []map[string]string
		for _, text := range turns {
			out = append(out, map[string]string{"text": text})
		}
		return map[string]any{"turns": out}
	})
	return []string{
		"env", "-u", "HF_HUB_OFFLINE", program, "profile", "--model", servedModel, "--tokenizer", k.tokenizer(), "--url", "{url}",
		"--endpoint-type", "chat", "--concurrency", strconv.Itoa(conformanceConcurrency),
		"--input-file", input, "--custom-dataset-type", "multi_turn", "--num-conversations", strconv.Itoa(len(conformanceQuestions)),
		"--dataset-sampling-strategy", "sequential", "--extra-inputs", `{"max_tokens":` + strconv.Itoa(conformanceTokens) + `}`,
		"--no-gpu-telemetry", "--no-server-metrics", "--ui", "none", "--output-artifact-dir", filepath.Join(filepath.Dir(questions), "aiperf"),
	}
}

// benchCommand asks the first turns.
func benchCommand(k kit, program, questions string) []string {
	input := conversations(questions, func(turns []string) any { return map[string]string{"prompt": turns[0]} })
	return []string{
		"env", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", program, "bench", "serve", "--backend", "openai-chat", "--base-url", "{url}", "--endpoint", "/v1/chat/completions",
		"--model", servedModel, "--tokenizer", filepath.Join(k.root, "vllm", "models", servedModel), "--dataset-name", "custom", "--dataset-path", input,
		"--num-prompts", strconv.Itoa(len(conformanceQuestions)), "--custom-output-len", strconv.Itoa(conformanceTokens), "--skip-chat-template",
		"--disable-shuffle", "--max-concurrency", strconv.Itoa(conformanceConcurrency), "--temperature", "0",
	}
}

func guidellmCommand(stream bool) func(kit, string, string) []string {
	return func(k kit, program, questions string) []string {
		input := conversations(questions, func(turns []string) any { return map[string]string{"prompt_0": turns[0], "prompt_1": turns[1]} })
		dir := filepath.Dir(questions)
		return []string{
			"env", "HF_HOME=" + filepath.Join(dir, "hf"), program, "run", "--disable-console-interactive",
			"--backend", fmt.Sprintf("kind=openai_http,target={url},model=%s,request_format=/v1/chat/completions,stream=%v", servedModel, stream),
			"--tokenizer", "kind=huggingface_auto,model=" + k.tokenizer(), "--data", "kind=json_file,path=" + input,
			"--profile", fmt.Sprintf("kind=concurrent,streams=%d", conformanceConcurrency),
			"--constraint", fmt.Sprintf("kind=max_requests,count=%d", 2*len(conformanceQuestions)),
			"--output", "kind=json,path=" + filepath.Join(dir, "guidellm.json"),
		}
	}
}

// conversations writes the questions in a client's own form beside the file and
// returns the path.
func conversations(questions string, line func(turns []string) any) string {
	path := filepath.Join(filepath.Dir(questions), "input.jsonl")
	file, err := os.Create(path)
	if err != nil {
		panic(err) // a folder of the test is gone
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for _, turns := range conformanceQuestions {
		if err := lines.Encode(line(turns)); err != nil {
			panic(err) // texts and maps can be encoded
		}
	}
	return path
}
