package deploy

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// With a target, the results are in the bucket when the task ends, its report is
// still the last line, and the keys are shown to nobody, vllm included.
func TestSlurmUpload(t *testing.T) {
	bucket := s3mem.New()
	if err := bucket.CreateBucket("bkt"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(bucket, gofakes3.WithLogger(gofakes3.StdLog(log.New(io.Discard, "", 0)))).Server())
	t.Cleanup(server.Close)

	env := []string{"CONTAINER_IMAGE=image:1", "SPECTAP_UPLOAD=s3://bkt/runs", "SPECDEC_BENCH_S3_ENDPOINT=" + server.URL, "SPECDEC_BENCH_S3_KEY_ID=AKIDCANARY", "SPECDEC_BENCH_S3_SECRET=SECRETCANARY"}
	s := newSlurmTask(t, blanks(t), "")
	s.env = append(s.env, env...)
	s.save = filepath.Join(filepath.Dir(s.save), "qwen3")
	r := s.start(s.args()...)
	table := r.want(0, "PASS: spectap launch: 1 of 1 points complete in "+s.save)
	if !strings.Contains(table, "Average_AL") {
		t.Errorf("stdout lacks the sweep's table: %q", table)
	}
	s.wasStarted(true)
	for _, name := range pointFiles {
		o, err := bucket.GetObject("bkt", "runs/qwen3/t0_c1/"+name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(o.Contents)
		if want := readText(t, filepath.Join(s.save, "t0_c1", name)); err != nil || string(text) != want {
			t.Errorf("%s: got %d bytes in the bucket (%v), want the file's %d", name, len(text), err, len(want))
		}
	}
	for what, text := range map[string]string{"stdout": table, "stderr": r.stderr.tail(1 << 20), "vllm's environment": readText(t, filepath.Join(s.told, "env"))} {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%s shows a key of the bucket", what)
		}
	}

	// A point that fails does not keep the others from the bucket.
	half := newSlurmTask(t, blanks(t), engine(t, "--prefill 1ms --step 1ms --eos 0.1 --fault cut@3/12"))
	half.env = append(half.env, env...)
	half.save = filepath.Join(filepath.Dir(half.save), "half")
	half.start(half.args("--temperature", "0", "1")...).want(1, "FAIL: spectap launch: 1 of 2 points complete")
	prefix := gofakes3.NewPrefix(new("runs/half/"), nil)
	keys, err := bucket.ListBucket("bkt", &prefix, gofakes3.ListBucketPage{})
	files, dirErr := os.ReadDir(filepath.Join(half.save, "t0_c1"))
	if err != nil || dirErr != nil || len(keys.Contents) != len(files) {
		t.Errorf("got %d files in the bucket (%v), want the point's %d (%v)", len(keys.Contents), err, len(files), dirErr)
	}
	for _, o := range keys.Contents {
		if !strings.HasPrefix(o.Key, "runs/half/t0_c1/") {
			t.Errorf("%s: is in the bucket, want files of the point t0_c1 only", o.Key)
		}
	}

	server.Close() // what is complete here and not there is no pass
	s.save = filepath.Join(filepath.Dir(s.save), "again")
	s.start(s.args()...).want(1, "FAIL: run.sh: the sweep is complete in "+s.save+", its upload is not (exit code 1)")
}
