package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
)

// server is a real S3 server in this process. fail, if set, answers a PUT in its place.
type server struct {
	Bucket
	puts atomic.Int64
	fail func(put int64, w http.ResponseWriter, r *http.Request) bool
	// answer, if set, gets every request and stands between the server and its answer.
	answer func(w http.ResponseWriter, r *http.Request) http.ResponseWriter
	back   *s3mem.Backend
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{back: s3mem.New()}
	if err := s.back.CreateBucket("bkt"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(s.back).Server()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if n := s.puts.Add(1); s.fail != nil && s.fail(n, w, r) {
				return
			}
		}
		if s.answer != nil {
			w = s.answer(w, r)
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	s.Bucket = Bucket{Endpoint: h.URL, Region: "us-east-1", KeyID: "AKIDCANARY", Secret: "SECRETCANARY"}
	return s
}

// object returns the bytes of an object; "" where there is none.
func (s *server) object(t *testing.T, key string) string {
	t.Helper()
	o, err := s.back.GetObject("bkt", key, nil)
	if err != nil {
		return ""
	}
	defer o.Contents.Close()
	b, err := io.ReadAll(o.Contents)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// put makes an object, as another uploader would.
func (s *server) put(t *testing.T, key, text string) {
	t.Helper()
	c, err := s.client()
	if err == nil {
		_, err = c.PutObject(context.Background(), "bkt", key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// folder makes a folder named results with files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const provenance = `{"container_image": "image"}`

func scan(t *testing.T, dir string) Plan {
	t.Helper()
	to, err := ParseTarget("s3://bkt/prefix")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Scan(dir, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every file of every run arrives under specdec_bench's key, with its bytes; a
// second upload copies nothing.
func TestUpload(t *testing.T) {
	s := newServer(t)
	big := strings.Repeat("0123456789abcdef", 2<<20) // 32 MiB: several parts
	files := map[string]string{
		"t0_c1/configuration.json": provenance, "t0_c1/timing.json": "[1]", "t0_c1/records.jsonl": big, "t0_c1/aiperf/x.json": "{}",
		"t0_c8/configuration.json": provenance, "t0_c8/ü b.txt": "", "sweep.json": "{}", "t1_c1.failed/error.json": "{}",
		".t1_c8.partial/configuration.json": provenance,
	}
	dir := folder(t, files)
	p := scan(t, dir)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if want := []string{".t1_c8.partial"}; !slices.Equal(p.Skipped, want) {
		t.Errorf("got %v skipped, want %v", p.Skipped, want)
	}
	var log bytes.Buffer
	got, err := p.Upload(context.Background(), s.Bucket, false, &log)
	if err != nil || got.Uploaded != 6 || got.Kept != 0 || got.Bytes != int64(len(big)+2*len(provenance)+3+2) {
		t.Fatalf("got %+v, %v; want 6 files copied", got, err)
	}
	for name, text := range files {
		in := strings.HasPrefix(name, "t0_")
		if got := s.object(t, "prefix/results/"+name); in != (got == text) && text != "" {
			t.Errorf("%s: got %d bytes in the bucket, want them there: %v", name, len(got), in)
		}
	}
	puts := s.puts.Load()
	if got, err = p.Upload(context.Background(), s.Bucket, false, &log); err != nil || got.Uploaded != 0 || got.Kept != 6 || s.puts.Load() != puts {
		t.Errorf("got %+v, %v and %d more PUTs of a second upload, want none", got, err, s.puts.Load()-puts)
	}
	for _, secret := range []string{s.KeyID, s.Secret} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// An upload that failed on the way goes on where it was, and the files that mark
// a run come last.
func TestUploadGoesOn(t *testing.T) {
	s := newServer(t)
	files := map[string]string{"t0_c1/configuration.json": provenance, "t0_c1/a.json": "1", "t0_c1/z.json": "2"}
	p := scan(t, folder(t, files))
	s.fail = func(put int64, w http.ResponseWriter, _ *http.Request) bool {
		if put < 3 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>InvalidAccessKeyId</Code><Message>no %s with %s</Message></Error>", "AKIDCANARY", "SECRETCANARY")
		return true
	}
	got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard)
	if err == nil || got.Uploaded != 2 || s.object(t, "prefix/results/t0_c1/configuration.json") != "" {
		t.Fatalf("got %+v, %v; want 2 files, and not the one that marks a run", got, err)
	}
	if text := err.Error(); strings.Contains(text, "CANARY") || !strings.Contains(text, "configuration.json") {
		t.Errorf("got %q, want the file, and no credentials", text)
	}
	s.fail = nil
	if got, err = p.Upload(context.Background(), s.Bucket, false, io.Discard); err != nil || got.Uploaded != 1 || got.Kept != 2 {
		t.Errorf("got %+v, %v; want 1 file copied and 2 kept", got, err)
	}
}

// Runs that are there with other bytes are refused before anything is copied.
func TestUploadRefusesOtherRuns(t *testing.T) {
	s := newServer(t)
	files := map[string]string{"t0_c1/configuration.json": provenance, "t0_c2/configuration.json": provenance, "t0_c3/configuration.json": provenance}
	p := scan(t, folder(t, files))
	s.put(t, "prefix/results/t0_c2/configuration.json", "{}")
	s.put(t, "prefix/results/t0_c3/other", "{}")
	got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard)
	if !errors.Is(err, ErrExists) || got.Uploaded != 0 {
		t.Fatalf("got %+v, %v; want a refusal", got, err)
	}
	for _, want := range []string{"t0_c2/configuration.json has other bytes", "t0_c3/other is not in the folder", "--skip-existing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
	got, err = p.Upload(context.Background(), s.Bucket, true, io.Discard)
	if err != nil || got.Uploaded != 1 || !slices.Equal(got.SkippedRuns, []string{"t0_c2", "t0_c3"}) {
		t.Errorf("got %+v, %v; want t0_c1 alone copied", got, err)
	}
}

func TestCheck(t *testing.T) {
	p := scan(t, folder(t, map[string]string{"a/timing.json": "[]", "b/configuration.json": "{}", "c/configuration.json": provenance}))
	err := p.Check()
	if !errors.Is(err, ErrProvenance) {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, want := range []string{`run "a"`, `run "b"`, "container_image", "CONTAINER_IMAGE", "--allow-incomplete-provenance"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), `"c"`) {
		t.Errorf("got %q, want run c not in it", err)
	}
}

func TestParseTarget(t *testing.T) {
	f := func(text string, want Target) {
		t.Helper()
		got, err := ParseTarget(text)
		if got != want || (err == nil) != (want.Bucket != "") {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	f("s3://bkt/p/q", Target{"bkt", "p/q"})
	f("s3://bkt/p/", Target{"bkt", "p"})
	f("s3://bkt", Target{"bkt", ""})
	f("s3://bkt/p//q", Target{})
	f("s3://bkt/../q", Target{})
	f("http://b/p", Target{})
	f("b/p", Target{})
	f("s3://", Target{})
	f("s3://user:secret@b/p", Target{})
}

func TestEndpoint(t *testing.T) {
	for _, bad := range []string{"ftp://x", "http://u:p@x", "https://x/path", "https://", "https://x?y"} {
		if _, err := (Bucket{Endpoint: bad}).client(); err == nil || !strings.Contains(err.Error(), "SPECDEC_BENCH_S3_ENDPOINT") {
			t.Errorf("%q: got %v, want a refusal that names the variable", bad, err)
		}
	}
	if _, err := (Bucket{Endpoint: "s3.example.com"}).client(); err != nil {
		t.Error(err)
	}
}
