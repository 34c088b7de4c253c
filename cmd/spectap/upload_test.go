package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector/upload"
)

// What upload says before it asks any server: refusals come before the dry run,
// and missing variables are told all at once.
func TestUploadCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	if err := os.MkdirAll(filepath.Join(dir, "t0_c1"), 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "t0_c1", "configuration.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{upload.EnvKeyID: "AKIDCANARY"}
	f := func(code int, want string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		p := program{stdout: &out, stderr: &errs, env: env}
		if got := p.run(context.Background(), append([]string{"upload"}, args...)); got != code {
			t.Errorf("%v: got exit code %d (%s), want %d", args, got, errs.String(), code)
		}
		text := out.String() + errs.String()
		if !strings.Contains(text, want) || strings.Contains(text, "CANARY") {
			t.Errorf("%v: got %q, want %q in it, and no credential", args, text, want)
		}
	}
	write("{}")
	f(2, "--allow-incomplete-provenance", dir, "s3://bucket/prefix", "--dry-run")
	f(0, "s3://bucket/prefix/results/t0_c1/configuration.json (2 bytes)", dir, "s3://bucket/prefix", "--dry-run", "--allow-incomplete-provenance")
	write(`{"container_image": "image"}`)
	f(0, "t0_c1 -> s3://bucket/prefix/results/t0_c1 (1 files, 28 bytes)", dir, "s3://bucket/prefix", "--dry_run")
	f(2, "SPECDEC_BENCH_S3_ENDPOINT is not set\nSPECDEC_BENCH_S3_SECRET is not set", dir, "s3://bucket/prefix")
	f(2, "want s3://bucket/prefix", dir, "bucket/prefix")
	env = map[string]string{upload.EnvEndpoint: "http://AKIDCANARY:SECRETCANARY@127.0.0.1:1", upload.EnvKeyID: "AKIDCANARY", upload.EnvSecret: "SECRETCANARY"}
	f(2, "want https://host or http://host:port, without a path or a user", dir, "s3://bucket/prefix")
	f(2, "got 1 arguments", dir)
	f(2, "no runs in", t.TempDir(), "s3://bucket/prefix")
	f(2, "cannot read folder", filepath.Join(dir, "none"), "s3://bucket/prefix")
}
