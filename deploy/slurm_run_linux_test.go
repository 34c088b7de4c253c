package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// blanks is a folder with blanks in its name.
func blanks(t *testing.T) string { return filepath.Join(t.TempDir(), "a job's folder") }

// pointFiles are what a point of MT-Bench has in its folder.
var pointFiles = []string{"configuration.json", "acceptance_rate.json", "timing.json", "mtbench_responses.jsonl", "records.jsonl", "speculation.json"}

// A task that goes well: the arguments reach both programs as they were typed, the
// files are there, and they say which container they were made in.
func TestSlurmPass(t *testing.T) {
	s := newSlurmTask(t, blanks(t), "")
	s.env = append(s.env, "SLURM_PROCID=0", "SLURM_NTASKS=1", "VLLM_STARTUP_TIMEOUT=30", "CONTAINER_IMAGE=vllm/vllm-openai:v0.32.0", "JIRA_TICKET=ABC-1", "SPECDEC_BENCH_SHA=abc", "MODELOPT_SHA=def", "MODELOPT_VERSION=0.42", "HUGGINGFACE_MODEL_ID=Qwen/Qwen3-8B")
	r := s.start(s.args("--temperature", "0", "1")...)
	r.want(0, "PASS: spectap launch: 2 of 2 points complete in "+s.save)
	s.wasStarted(true)
	for _, point := range []string{"t0_c1", "t1_c1"} {
		for _, name := range pointFiles {
			if info, err := os.Stat(filepath.Join(s.save, point, name)); err != nil || info.Size() == 0 {
				t.Errorf("%s/%s: got %v, want a file with text", point, name, err)
			}
		}
	}
	c := configuration(t, filepath.Join(s.save, "t1_c1"))
	for name, want := range map[string]string{
		"container_image": "vllm/vllm-openai:v0.32.0", "jira_ticket": "ABC-1", "specdec_bench_sha": "abc",
		"modelopt_sha": "def", "modelopt_version": "0.42", "huggingface_model_id": "Qwen/Qwen3-8B",
	} {
		if c[name] != want {
			t.Errorf("%s: got %v, want %q", name, c[name], want)
		}
	}
	got := s.serverArgs()
	if want := []string{"serve", "/hf-local/Qwen/Qwen3-8B", "--speculative-config.method", "dflash", "--per-request-spec-decode-metrics", "summary"}; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("vllm got %q, want them to begin with %q", got, want)
	}
}

// A task that goes wrong says so in its last line, and its exit code is launch's.
func TestSlurmFail(t *testing.T) {
	f := func(server string, code int, report string, env ...string) {
		t.Helper()
		s := newSlurmTask(t, blanks(t), server)
		s.env = append(s.env, env...)
		r := s.start(s.args()...)
		r.want(code, "FAIL: spectap launch: "+report)
		s.wasStarted(true)
	}
	f("echo CUDA error; exit 7\n", 3, "the server ended (exit status 7) before it was ready")
	f("exec sleep 60\n", 3, "the server did not become ready within 1s", "VLLM_STARTUP_TIMEOUT=1")
	f(engine(t, "--prefill 1ms --step 1ms --no_spec_stats"), 4, "") // a vllm that reports nothing
}

// What is missing is said before anything starts.
func TestSlurmMissing(t *testing.T) {
	f := func(code int, report string, change func(s *slurmTask), args ...string) {
		t.Helper()
		s := newSlurmTask(t, blanks(t), "")
		change(s)
		if args == nil {
			args = s.args()
		}
		r := s.start(args...)
		r.want(code, "FAIL: "+report)
		s.wasStarted(false)
	}
	none := func(*slurmTask) {}
	set := func(env ...string) func(*slurmTask) {
		return func(s *slurmTask) { s.env = append(s.env, env...) }
	}
	spectap := func(s *slurmTask) string { return filepath.Join(s.home, "spectap") }
	replace := func(text string, mode os.FileMode) func(*slurmTask) {
		return func(s *slurmTask) {
			if err := os.Remove(spectap(s)); err != nil {
				t.Fatal(err)
			}
			if text == "" { // nor anywhere on PATH
				s.env = append(s.env, "PATH="+programs(t, "bash", "dirname"))
				return
			}
			s.write(spectap(s), text)
			if err := os.Chmod(spectap(s), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	f(2, "run.sh: no spectap: put the binary into", replace("", 0))
	f(2, "run.sh: cannot find spectap at /nowhere/spectap", set("SPECTAP_BIN=/nowhere/spectap"))
	f(2, "run.sh: cannot run ", replace("#!/bin/sh\n", 0o644))              // an archive that lost its mode
	f(2, "run.sh: cannot run ", replace("\x7fELF of another cpu\n", 0o755)) // amd64 on a GB300
	f(2, "spectap launch: no -- among the arguments", none, "--mtbench", "question.jsonl")
	f(2, "spectap launch: no model to serve", set("HF_MODEL_CKPT="))
	f(2, "spectap launch: cannot ", none, "--", "--mtbench", "/nowhere/question.jsonl", "--save_dir", "results")
	f(3, "spectap launch: cannot start the server", func(s *slurmTask) {
		if err := os.Remove(filepath.Join(s.bin, "vllm")); err != nil {
			t.Fatal(err)
		}
	})
	upload := []string{"CONTAINER_IMAGE=image", "SPECDEC_BENCH_S3_ENDPOINT=http://127.0.0.1:9", "SPECDEC_BENCH_S3_KEY_ID=key"}
	f(2, "run.sh: cannot upload without SPECDEC_BENCH_S3_SECRET:", set(append(upload, "SPECTAP_UPLOAD=s3://bucket/prefix")...))
	f(2, "run.sh: cannot upload without SPECDEC_BENCH_S3_ENDPOINT SPECDEC_BENCH_S3_KEY_ID SPECDEC_BENCH_S3_SECRET CONTAINER_IMAGE:", set("SPECTAP_UPLOAD=s3://bucket/prefix"))
	f(2, "run.sh: cannot use SPECTAP_UPLOAD: want s3://bucket/prefix", set(append(upload, "SPECDEC_BENCH_S3_SECRET=x", "SPECTAP_UPLOAD=https://bucket")...))
}

// programs is a folder that has these programs of PATH and no other.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The binary is named, beside the script, or on PATH.
func TestSlurmFindsSpectap(t *testing.T) {
	s := newSlurmTask(t, blanks(t), "")
	if err := os.Rename(filepath.Join(s.home, "spectap"), filepath.Join(s.bin, "spectap")); err != nil {
		t.Fatal(err)
	}
	dry := s.args("--dry_run")
	s.start(dry...).want(0, "PASS: spectap launch: nothing was started")
	s.write(filepath.Join(s.home, "spectap"), "broken")
	s.env = append(s.env, "SPECTAP_BIN="+filepath.Join(s.bin, "spectap"))
	s.start(dry...).want(0, "PASS: spectap launch: nothing was started")
	s.wasStarted(false)
}

// Of several tasks rank 0 works; the others leave, without a report.
func TestSlurmRanks(t *testing.T) {
	s := newSlurmTask(t, blanks(t), "")
	plain := s.env
	for _, rank := range []string{"SLURM_PROCID=1", "PMIX_RANK=2", "OMPI_COMM_WORLD_RANK=3"} {
		s.env = append(slices.Clone(plain), rank)
		r := s.start(s.args()...)
		<-r.ended
		if code, text := r.cmd.ProcessState.ExitCode(), r.stdout.tail(1<<20); code != 0 || text != "" {
			t.Errorf("%s: got exit code %d and stdout %q, want 0 and none", rank, code, text)
		}
	}
	s.wasStarted(false)
	s.env = append(slices.Clone(plain), "SLURM_PROCID=0", "SLURM_NTASKS=4")
	r := s.start(s.args()...)
	r.want(0, "PASS: spectap launch: 1 of 1 points complete")
	r.says("started as 4 tasks")
}

// SIGTERM, to the task alone or to every process of the step as Slurm sends it,
// stops the server; with an upload to come, nothing is uploaded.
func TestSlurmStops(t *testing.T) {
	f := func(every bool, env ...string) {
		t.Helper()
		t.Run(strings.Join(append([]string{map[bool]string{false: "task", true: "every process"}[every]}, env...), " "), func(t *testing.T) {
			s := newSlurmTask(t, blanks(t), engine(t, "--prefill 1ms --step 20ms --eos 0"))
			s.env = append(s.env, env...)
			r := s.start(s.args("--output_length", "4096")...)
			r.says("the server is ready")
			target := r.cmd.Process.Pid
			if every {
				target = -target
			}
			if err := syscall.Kill(target, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if every {
				_ = syscall.Kill(s.vllm(), syscall.SIGTERM) // it may have ended by now
			}
			code := 143
			<-r.ended
			if every && r.cmd.ProcessState.ExitCode() == 1 {
				code = 1 // launch saw the server's end before its own signal
			}
			r.want(code, "FAIL: spectap launch: ")
			s.wasStarted(true)
		})
	}
	f(false)
	f(true)
	s3 := []string{"SPECTAP_UPLOAD=s3://bucket/prefix", "SPECDEC_BENCH_S3_ENDPOINT=http://127.0.0.1:9", "SPECDEC_BENCH_S3_KEY_ID=key", "SPECDEC_BENCH_S3_SECRET=secret", "CONTAINER_IMAGE=image"}
	f(false, s3...)
	f(true, s3...)
}
