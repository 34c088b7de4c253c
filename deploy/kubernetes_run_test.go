package deploy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
)

// The sidecar as a process, with exactly the variables of the manifest but other
// addresses and another folder: alive before the model, ready with it.
func TestKubernetesProbes(t *testing.T) {
	_, spectap, _ := sidecar(t)
	free := listen(t)
	engine := free.Addr().String()
	records := filepath.Join(t.TempDir(), "records.jsonl")
	var environ []string
	for _, v := range spectap.Env {
		value := v.Value
		switch v.Name {
		case "SPECTAP_LISTEN", "SPECTAP_ADMIN":
			value = "127.0.0.1:0"
		case "SPECTAP_UPSTREAM":
			value = "http://" + engine
		case "SPECTAP_RECORDS":
			value = records
		case "GOMEMLIMIT": // the kubelet gives bytes
			value = fmt.Sprint(spectap.Resources.Requests.Memory().Value())
		}
		if v.ValueFrom != nil && v.Name != "GOMEMLIMIT" {
			value = strings.ToLower(v.Name)
		}
		environ = append(environ, v.Name+"="+value)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	p := start(t, environ, command(t, "spectap"), spectap.Args...)
	p.printed(t, `"(proxy is listening)"`)
	admin, data := "http://"+p.printed(t, `"admin":"([0-9.:]+)"`), "http://"+p.printed(t, `"listen":"([0-9.:]+)"`)
	f := func(when string, probe *core.Probe, want int) {
		t.Helper()
		if got := statusOf(t, admin+probe.HTTPGet.Path); got != want {
			t.Errorf("%s: got %d of %s, want %d", when, got, probe.HTTPGet.Path, want)
		}
	}
	f("without the model", spectap.StartupProbe, 200)
	f("without the model", spectap.LivenessProbe, 200)
	f("without the model", spectap.ReadinessProbe, 503)
	model := start(t, nil, command(t, "fakevllm"), "--listen", engine, "--seed", "7")
	model.printed(t, `fakevllm: .* on (http://[0-9.:]+),`)
	poll(t, "/readyz follows the model", func() bool { return statusOf(t, admin+spectap.ReadinessProbe.HTTPGet.Path) == 200 })
	f("with the model", spectap.LivenessProbe, 200)
	if got := statusOf(t, data+"/v1/models"); got != 200 {
		t.Errorf("got %d of /v1/models through the sidecar, want 200", got)
	}
	p.stop(t)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("got exit code %d after SIGTERM, want 0", code)
	}
	if text, err := os.ReadFile(records); err != nil || !bytes.Contains(text, []byte(`"schema"`)) {
		t.Errorf("got records %q (%v), want the run line", text, err)
	}
}

func statusOf(t testing.TB, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// jobRun is the container of a Job of deploy/kubernetes as a process of this machine.
type jobRun struct {
	container core.Container
	replace   *strings.Replacer // the paths and addresses of the cluster
}

func jobOf(t testing.TB, folder string, replace ...string) jobRun {
	t.Helper()
	m := kustomize(t, folder)
	if len(m.jobs) != 1 {
		t.Fatalf("%s: got %d Jobs, want 1", folder, len(m.jobs))
	}
	return jobRun{m.jobs[0].Spec.Template.Spec.Containers[0], strings.NewReplacer(replace...)}
}

// run runs the container with more arguments and variables; $(NAME) in its
// arguments is expanded as the kubelet does.
func (j jobRun) run(ctx context.Context, t testing.TB, environ map[string]string, more ...string) (code int, output string) {
	t.Helper()
	replace := []string{}
	var variables []string
	for name, value := range environ {
		replace = append(replace, "$("+name+")", value)
		variables = append(variables, name+"="+value)
	}
	var args []string
	for _, arg := range j.container.Args {
		args = append(args, j.replace.Replace(strings.NewReplacer(replace...).Replace(arg)))
	}
	cmd := exec.CommandContext(ctx, command(t, "spectap"), append(args, more...)...)
	cmd.Env = environment(variables)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Errorf("cannot run %q: %v", args, err)
		return -1, ""
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The Jobs are confined, find their volumes, and spectap takes their arguments.
func TestKubernetesJobs(t *testing.T) {
	for _, folder := range []string{"sweep", "sharded-sweep", "sharded-collect"} {
		m := kustomize(t, folder)
		pod := m.jobs[0].Spec.Template.Spec
		c := pod.Containers[0]
		confined(t, c, pod.SecurityContext)
		hasVolumes(t, pod, c)
		if pod.RestartPolicy != core.RestartPolicyNever {
			t.Errorf("%s: got restart policy %s: a second try is refused", folder, pod.RestartPolicy)
		}
		for _, v := range pod.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name != m.configMaps[0].Name {
				t.Errorf("%s: got ConfigMap %s, want the generated %s", folder, v.ConfigMap.Name, m.configMaps[0].Name)
			}
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != "spectap-results" {
				t.Errorf("%s: got claim %s", folder, v.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	code, out := jobOf(t, "sweep", "/questions", "kubernetes/sweep", "/results", t.TempDir()).run(ctx, t, nil, "--dry_run")
	if code != 0 || !strings.Contains(out, "8 conversations, 16 requests a point, 96 in all") || !strings.Contains(out, "http://vllm:8000") {
		t.Errorf("got exit code %d and\n%s", code, out)
	}
}

// The Pods of the Indexed Job as processes at once, and then the Job that merges:
// the files are those of one sweep.
func TestKubernetesShards(t *testing.T) {
	spec := kustomize(t, "sharded-sweep").jobs[0].Spec
	if spec.CompletionMode == nil || *spec.CompletionMode != "Indexed" || *spec.Completions != *spec.Parallelism {
		t.Fatalf("got %v, %d completions, %d at a time: want an Indexed Job of which all run at once", spec.CompletionMode, *spec.Completions, *spec.Parallelism)
	}
	engine := startEngine(t, "--prefill", "2ms", "--step", "100us", "--step_per_request", "10us")
	results, questions := t.TempDir(), writeQuestions(t, 80)
	replace := []string{"/questions/question.jsonl", questions, "/results", results, "http://vllm:8000", engine}
	shards, collect := jobOf(t, "sharded-sweep", replace...), jobOf(t, "sharded-collect", replace...)
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	var pods sync.WaitGroup
	for i := range *spec.Completions {
		pods.Go(func() {
			index := map[string]string{"JOB_COMPLETION_INDEX": fmt.Sprint(i)}
			if code, out := shards.run(ctx, t, index, "--output_length=32"); code != 0 {
				t.Errorf("shard %d: got exit code %d\n%s", i, code, out)
			}
		})
	}
	pods.Wait()
	code, out := collect.run(ctx, t, nil)
	if code != 0 || !strings.Contains(out, "80 conversations of 4/4 shards") {
		t.Fatalf("got exit code %d and\n%s", code, out)
	}
	whole := runSweep(t, nil, "--url", engine, "--mtbench", questions, "--concurrency", "64", "--output_length", "32")
	for _, name := range []string{"acceptance_rate.json", "mtbench_responses.jsonl"} {
		got, err := os.ReadFile(filepath.Join(results, "sweep-1-merged", "t0_c64", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(whole, "t0_c64", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s of the merged shards differs from that of one sweep:\n%s\n%s", name, got, want)
		}
	}
}
