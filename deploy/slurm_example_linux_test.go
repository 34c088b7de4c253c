package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mounted stands for the mounts of a container: it lays out the folders that the
// examples name below base, and returns what replaces their names.
func mounted(t *testing.T, s *slurmTask, base string) (local, scratch string) {
	t.Helper()
	local, scratch = filepath.Join(base, "hf-local"), filepath.Join(base, "scratchspace")
	for _, dir := range []string{filepath.Join(local, "mt_bench"), scratch} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(s.mt, filepath.Join(local, "mt_bench", "question.jsonl")); err != nil {
		t.Fatal(err)
	}
	return local, scratch
}

// exampleRan checks what either example leaves: six points whose requests asked for
// no thinking, and a vllm that was started as they say.
func exampleRan(t *testing.T, s *slurmTask, save, local, container string) {
	t.Helper()
	s.wasStarted(true)
	for _, point := range []string{"t0_c1", "t0_c8", "t0_c32", "t1_c1", "t1_c8", "t1_c32"} {
		for _, name := range pointFiles {
			if _, err := os.Stat(filepath.Join(save, point, name)); err != nil {
				t.Error(err)
			}
		}
	}
	c := configuration(t, filepath.Join(save, "t1_c8"))
	params, _ := json.Marshal(c["runtime_params"])
	if !strings.Contains(string(params), `"enable_thinking":false`) {
		t.Errorf("runtime_params is %s, want enable_thinking false", params)
	}
	if c["container_image"] != container || c["huggingface_model_id"] != "Qwen/Qwen3-8B" {
		t.Errorf("got container_image %v, huggingface_model_id %v; want %q and Qwen/Qwen3-8B", c["container_image"], c["huggingface_model_id"], container)
	}
	want := []string{"--tensor-parallel-size", "1", "--max-model-len", "40960", "--max-num-batched-tokens", "32768",
		"--speculative-config.method", "dflash", "--speculative-config.model", local + "/z-lab/Qwen3-8B-DFlash-b16",
		"--speculative-config.num_speculative_tokens", "15", "--per-request-spec-decode-metrics", "summary"}
	if got := s.serverArgs(); len(got) < 2+len(want) || !slices.Equal(got[2:2+len(want)], want) {
		t.Errorf("vllm got %q, want serve, the model and %q", got, want)
	}
}

// The example, as the launcher passes it on, sweeps a stand-in for vllm.
func TestSlurmExample(t *testing.T) {
	base := t.TempDir()
	s := newSlurmTask(t, base, "")
	local, scratch := mounted(t, s, base)
	s.env = s.env[:1] // HF_MODEL_CKPT comes from the example
	task := readJob(t).Pipeline.Task0
	script := strings.NewReplacer("/hf-local/", local+"/", "/scratchspace/", scratch+"/").Replace(task.rendered())
	s.startCommand(filepath.Join(base, "code"), "bash", "-c", script).want(0, "PASS: spectap launch: 6 of 6 points complete")
	if got, want := s.serverArgs()[1], local+"/Qwen/Qwen3-8B"; got != want {
		t.Errorf("the model is %q, want %q", got, want)
	}
	exampleRan(t, s, filepath.Join(scratch, "Qwen3-8B_dflash"), local, task.SlurmConfig.Container)
}

// srunStandIn is srun with pyxis as far as sweep.sbatch needs it: a path below a
// mount is the host's path.
const srunStandIn = `set -eu
while [[ $1 == --* ]]; do
  case $1 in
  --container-mounts=*) IFS=, read -ra mounts <<<"${1#*=}" ;;
  --container-workdir=*) workdir=${1#*=} ;;
  --container-image=*) [[ ${1#*=} == "$CONTAINER_IMAGE" ]] ;;
  --no-container-mount-home) ;;
  *) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
  esac
  shift
done
host() {
  local mount
  for mount in "${mounts[@]}"; do
    case $1/ in "${mount#*:}"/*) set -- "${mount%%:*}${1#"${mount#*:}"}" ;; esac
  done
  printf '%s' "$1"
}
words=()
for word; do words+=("$(host "$word")"); done
cd "$(host "$workdir")"
SLURM_PROCID=0 SLURM_NTASKS=1 exec "${words[@]}"
`

// The script for sbatch does the same, with the mounts of a stand-in for srun.
func TestSlurmBatch(t *testing.T) {
	base := t.TempDir()
	s := newSlurmTask(t, base, "")
	local, results := mounted(t, s, base)
	s.program("srun", srunStandIn)
	spool := filepath.Join(base, "slurm_script") // Slurm's copy
	s.write(spool, readText(t, "slurm/sweep.sbatch"))
	plain := s.env
	s.startCommand(base, "bash", spool).fails("HF_LOCAL")
	s.env = append(slices.Clone(plain), "HF_LOCAL="+local, "RESULTS="+results, "SLURM_SUBMIT_DIR="+s.home, "SLURM_JOB_ID=4711")
	s.startCommand(base, "bash", spool).want(0, "PASS: spectap launch: 6 of 6 points complete")
	exampleRan(t, s, filepath.Join(results, "Qwen3-8B_dflash_4711"), local, "vllm/vllm-openai:v0.32.0")

	// Slurm requeued the job: another folder, for the first one is refused.
	s.program("vllm", "exit 7\n")
	s.startCommand(base, "bash", spool).want(2, "FAIL: spectap launch: ")
	s.env = append(s.env, "SLURM_RESTART_COUNT=1")
	s.startCommand(base, "bash", spool).want(3, "FAIL: spectap launch: the server ended (exit status 7) before it was ready")
	if _, err := os.Stat(filepath.Join(results, "Qwen3-8B_dflash_4711.1", "server.log")); err != nil {
		t.Error(err)
	}
}

// fails waits for the end and wants a failure that names something.
func (r *slurmRun) fails(name string) {
	r.t.Helper()
	<-r.ended
	if code := r.cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(r.stderr.tail(1<<20), name) {
		r.t.Errorf("got exit code %d and %q, want a failure that names %s", code, r.stderr.tail(1<<20), name)
	}
}
