package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	servesWithin = 5 * time.Minute  // from the start of vLLM to its first answer
	endsWithin   = 20 * time.Second // from SIGTERM to the end of vLLM's processes
)

// realServer is a running vLLM.
type realServer struct{ url string }

// serve runs a real vLLM until the test ends.
func (k kit) serve(t *testing.T, drafts string, more ...string) realServer {
	t.Helper()
	k.piece(t, "vllm", "venv", "bin", "vllm")
	k.piece(t, "vllm", "models", servedModel+"-draft", "config.json")
	address := refused(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command("nice", append([]string{"-n", "5", "conformance/serve.sh", k.root, drafts, port}, more...)...)
	out := newOutput()
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(nil), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // the signal, if a test's time limit ends us
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start vLLM: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is of no interest: it is asked to
		close(ended)
	}()
	t.Cleanup(func() {
		endGroup(cmd.Process.Pid, ended)
		if t.Failed() {
			t.Logf("vLLM printed:\n%s", out.tail(8<<10))
		}
	})
	server := realServer{"http://" + address}
	for deadline := time.Now().Add(servesWithin); ; time.Sleep(time.Second) {
		if answer, err := client.Get(server.url + "/health"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return server
			}
		}
		select {
		case <-ended:
			t.Fatalf("vLLM ended before it served: %v", cmd.ProcessState)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("vLLM did not serve within %v", servesWithin)
		}
	}
}

// endGroup ends the processes of a group: vLLM leaves some behind where only its
// first is killed, and may hang at SIGTERM.
func endGroup(group int, ended <-chan struct{}) {
	_ = syscall.Kill(-group, syscall.SIGTERM) // fails only if they have ended
	for deadline := time.Now().Add(endsWithin); time.Now().Before(deadline) && syscall.Kill(-group, 0) == nil; {
		time.Sleep(pollEvery)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	<-ended
}

// serverCounters are vLLM's own of what it did.
type serverCounters struct {
	drafts, drafted, accepted float64
	positions                 map[string]float64 // accepted drafts by position
	generated, prompts        float64            // tokens
	finished, running         float64            // requests
}

// counters reads /metrics.
func (s realServer) counters(t *testing.T) serverCounters {
	t.Helper()
	text, err := fetch(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	c := serverCounters{positions: map[string]float64{}}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		series, number, _ := strings.Cut(lines.Text(), "} ")
		name, labels, _ := strings.Cut(series, "{")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		switch name {
		case "vllm:spec_decode_num_drafts_total":
			c.drafts += value
		case "vllm:spec_decode_num_draft_tokens_total":
			c.drafted += value
		case "vllm:spec_decode_num_accepted_tokens_total":
			c.accepted += value
		case "vllm:spec_decode_num_accepted_tokens_per_pos_total":
			_, position, _ := strings.Cut(labels, `position="`)
			position, _, _ = strings.Cut(position, `"`)
			c.positions[position] += value
		case "vllm:generation_tokens_total":
			c.generated += value
		case "vllm:prompt_tokens_total":
			c.prompts += value
		case "vllm:request_success_total":
			c.finished += value
		case "vllm:num_requests_running":
			c.running += value
		}
	}
	return c
}

// ask posts JSON and reads the answer's.
func (s realServer) ask(t *testing.T, path string, question, answer any) {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Post(s.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s, %v: %s", path, got.Status, err, text)
	}
}

// agree holds what the server counted since then against the sums over its answers.
func (s realServer) agree(t *testing.T, before serverCounters, replies []wireReply) {
	t.Helper()
	want := wireSums(replies)
	var got serverCounters
	poll(t, "the server's counters of finished requests", func() bool {
		got = s.counters(t).less(before)
		return got.finished >= want.finished && got.running == 0
	})
	for _, w := range replies {
		if w.Block == nil {
			t.Logf("%s has no statistics: the server's drafts are not compared", w.ID)
			got.drafts, got.drafted, got.accepted, got.positions = want.drafts, want.drafted, want.accepted, want.positions
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the server counted %+v, its answers say %+v", got, want)
	}
}

// less is what was counted since before; running is as it is.
func (c serverCounters) less(before serverCounters) serverCounters {
	c.drafts, c.drafted, c.accepted = c.drafts-before.drafts, c.drafted-before.drafted, c.accepted-before.accepted
	c.generated, c.prompts, c.finished = c.generated-before.generated, c.prompts-before.prompts, c.finished-before.finished
	grown := map[string]float64{}
	for position, n := range c.positions {
		grown[position] = n - before.positions[position]
	}
	c.positions = grown
	return c
}
