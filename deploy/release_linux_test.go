package deploy

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/xeipuuv/gojsonschema"
)

// releaseAll builds every platform, each folder with an empty cache: minutes.
var releaseAll = flag.Bool("release.all", false, "release all platforms, from empty caches")

// What the tests release.
const (
	releaseVersion = "v0.1.0-rc.1"
	releaseCommit  = "0123456789abcdef0123456789abcdef01234567"
	releaseTime    = "2026-11-30T12:00:00Z"
)

// TestRelease releases from two folders: the files have the same bytes, and are
// what they should be.
func TestRelease(t *testing.T) {
	program := filepath.Join(t.TempDir(), "release")
	runIn(t, ".", nil, "go", "build", "-o", program, "./release")
	platforms := []string{"linux/" + runtime.GOARCH}
	if *releaseAll {
		platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}
	}
	var outs []string
	for i, zone := range []string{"UTC", "Asia/Tokyo"} {
		source, out := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i)+"source"), t.TempDir()
		copyTree(t, source)
		environ := []string{"TZ=" + zone}
		if *releaseAll {
			environ = append(environ, "GOCACHE="+t.TempDir())
		}
		runIn(t, "/", environ, program, "-source", source, "-out", out, "-version", releaseVersion, "-commit", releaseCommit, "-time", releaseTime, "-platforms", strings.Join(platforms, ","))
		outs = append(outs, out)
	}
	a, b := read(t, outs[0], "SHA256SUMS"), read(t, outs[1], "SHA256SUMS")
	if !bytes.Equal(a, b) {
		t.Errorf("two folders give different bytes:\n%s\n%s", a, b)
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, outs[0], platforms) })
	for _, p := range platforms {
		t.Run(p, func(t *testing.T) {
			checkArchive(t, outs[0], strings.ReplaceAll(p, "/", "_"), p == "linux/"+runtime.GOARCH)
		})
	}
	t.Run("image", func(t *testing.T) { checkImage(t, outs[0], platforms) })
}

// checkSums compares SHA256SUMS with the folder: all files, and no others.
func checkSums(t *testing.T, out string, platforms []string) {
	var want []string
	for _, p := range platforms {
		name := "spectap_" + releaseVersion + "_" + strings.ReplaceAll(p, "/", "_")
		archive := name + ".tar.gz"
		if strings.HasPrefix(p, "windows/") {
			archive = name + ".zip"
		}
		want = append(want, name+".cdx.json", archive)
	}
	want = append(want, "spectap_"+releaseVersion+"_image.tar")
	slices.Sort(want)
	var lines strings.Builder
	for _, name := range want {
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(read(t, out, name)), name)
	}
	if got := string(read(t, out, "SHA256SUMS")); got != lines.String() {
		t.Errorf("got\n%swant\n%s", got, lines.String())
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != len(want)+1 {
		t.Errorf("got %d files, %v; want %d", len(entries), err, len(want)+1)
	}
}

// checkArchive reads an archive's names, its SBOM, and asks the binary where it runs.
func checkArchive(t *testing.T, out, platform string, runs bool) {
	base, program := "spectap_"+releaseVersion+"_"+platform, "spectap"
	var files map[string][]byte
	if strings.HasPrefix(platform, "windows") {
		program, files = "spectap.exe", unzip(t, read(t, out, base+".zip"))
	} else {
		files = untar(t, gunzip(t, read(t, out, base+".tar.gz")), "")
	}
	for _, name := range []string{program, "README.md", "spectap.cdx.json", "completions/spectap.bash", "completions/_spectap", "completions/spectap.fish", "completions/spectap.ps1"} {
		if len(files[base+"/"+name]) == 0 {
			t.Errorf("the archive has no %s", name)
		}
	}
	if len(files) != 7 {
		t.Errorf("got %d files, want 7", len(files))
	}
	if !bytes.HasPrefix(files[base+"/completions/_spectap"], []byte("#compdef spectap")) {
		t.Error("the completions for zsh do not begin with #compdef spectap")
	}
	binary := files[base+"/"+program]
	sbom := read(t, out, base+".cdx.json")
	if !bytes.Equal(sbom, files[base+"/spectap.cdx.json"]) {
		t.Error("the SBOM beside the archive differs from the one in it")
	}
	checkSBOM(t, sbom, binary)
	if !runs {
		return
	}
	path := filepath.Join(t.TempDir(), program)
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	checkVersion(t, runIn(t, "/", nil, path, "version", "--json"))
}

// checkVersion reads what `spectap version --json` says of the release.
func checkVersion(t *testing.T, text []byte) {
	t.Helper()
	var got, want struct {
		Version, Commit, Go, OS, Arch string
		Dirty                         bool
		CommitTime                    string `json:"commit_time"`
	}
	want.Version, want.Commit, want.CommitTime = releaseVersion, releaseCommit, releaseTime
	want.Go, want.OS, want.Arch = strings.TrimSpace(string(runIn(t, ".", nil, "go", "env", "GOVERSION"))), runtime.GOOS, runtime.GOARCH
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("got version %+v, %v; want %+v", got, err, want)
	}
}

// checkSBOM holds an SBOM against CycloneDX's own schema and against the modules of the binary.
func checkSBOM(t *testing.T, sbom, binary []byte) {
	result, err := cycloneDX(t).Validate(gojsonschema.NewBytesLoader(sbom))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.Errors() {
		t.Errorf("the schema of CycloneDX 1.6 refuses the SBOM: %s", e)
	}
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, d := range info.Deps {
		want = append(want, d.Path+"@"+d.Version)
	}
	var got struct {
		Metadata struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Content string }
			}
		}
		Components   []struct{ Name, Version string }
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(sbom, &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got.Components {
		names = append(names, c.Name+"@"+c.Version)
	}
	if !slices.Equal(names, want) || len(want) < 20 || len(got.Dependencies) != 1 || len(got.Dependencies[0].DependsOn) != len(want) {
		t.Errorf("got components %q of %d dependencies, want %q", names, len(got.Dependencies), want)
	}
	root := got.Metadata.Component
	if digest := fmt.Sprintf("%x", sha256.Sum256(binary)); root.Name != "spectap" || root.Version != releaseVersion || len(root.Hashes) != 1 || root.Hashes[0].Content != digest {
		t.Errorf("got component %+v, want spectap %s of %s", root, releaseVersion, digest)
	}
}

// cycloneDX reads CycloneDX's own schema, and those that it refers to, from the
// module of its library.
func cycloneDX(t *testing.T) *gojsonschema.Schema {
	t.Helper()
	folder := strings.TrimSpace(string(runIn(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")))
	loader := gojsonschema.NewSchemaLoader()
	for name, path := range map[string]string{"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		if err := loader.AddSchema("http://cyclonedx.org/schema/"+name, gojsonschema.NewBytesLoader(read(t, folder, "schema", path))); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := loader.Compile(gojsonschema.NewBytesLoader(read(t, folder, "schema", "bom-1.6.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestReleaseRefuses gives the release what it cannot use.
func TestReleaseRefuses(t *testing.T) {
	program := filepath.Join(t.TempDir(), "release")
	runIn(t, ".", nil, "go", "build", "-o", program, "./release")
	repository := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "a"}} {
		runIn(t, repository, nil, "git", args...)
	}
	if err := os.WriteFile(filepath.Join(repository, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(program, append([]string{"-out", filepath.Join(t.TempDir(), "out")}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: got %v, %s; want %q", args, err, out, want)
		}
	}
	f(`version "0.1"`, "-version", "0.1")
	f(`"v0.1.0 -X a=b": want one as v0.1.0`, "-version", "v0.1.0 -X a=b")
	f(`"plan9/386": want some of linux/amd64`, "-version", "v0.1.0", "-platforms", "plan9/386")
	f(`want both, or neither`, "-version", "v0.1.0", "-commit", "a")
	f(`"today": want RFC 3339`, "-version", "v0.1.0", "-commit", "a", "-time", "today")
	f(`has changes; commit them first`, "-version", "v0.1.0", "-source", repository)
	f(`want an empty folder (-out)`, "-version", "v0.1.0", "-commit", "a", "-time", releaseTime, "-out", repository)
}

// copyTree copies the module above, without deploy and .git, as a Docker engine
// reads it: what .dockerignore names is left out. The README goes into archives.
func copyTree(t *testing.T, to string) {
	t.Helper()
	list, err := os.Open("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	patterns, err := ignorefile.ReadAll(list)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		out, err := ignored.MatchesOrParentMatches(name)
		switch {
		case err != nil:
			return err
		case out && e.IsDir():
			return fs.SkipDir
		case out && name != "README.md":
			return nil
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runIn runs a program to its end and returns what it printed.
func runIn(t *testing.T, folder string, environ []string, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), environ...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot run %s %q: %v\n%s%s", name, args, err, out, errs.Bytes())
	}
	return out
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func gunzip(t *testing.T, content []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// untar returns a tar's files and, where a folder is given, writes all entries below it.
func untar(t *testing.T, content []byte, to string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.UTC().Format("2006-01-02T15:04:05Z") != releaseTime {
			t.Errorf("%s belongs to %d:%d at %v, want 0:0 at %s", h.Name, h.Uid, h.Gid, h.ModTime, releaseTime)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = body
		}
		if to != "" {
			place(t, filepath.Join(to, h.Name), h, body)
		}
	}
}

// place writes one entry with its permissions, whatever the umask.
func place(t *testing.T, path string, h *tar.Header, body []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil && h.Typeflag == tar.TypeDir {
		err = os.MkdirAll(path, 0o755)
	} else if err == nil {
		err = os.WriteFile(path, body, 0o644)
	}
	if err == nil {
		err = os.Chmod(path, h.FileInfo().Mode())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func unzip(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range r.File {
		if files[f.Name], err = fs.ReadFile(r, f.Name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
