package deploy

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// checkImage unpacks the image of a release, compares it with the Dockerfile, and
// runs the one that this machine can run.
func checkImage(t *testing.T, out string, platforms []string) {
	folder := t.TempDir()
	untar(t, read(t, out, "spectap_"+releaseVersion+"_image.tar"), folder)
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != releaseVersion {
		t.Fatalf("got index %+v, %v; want one image named %s", manifest, err, releaseVersion)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(m.Platform.Architecture, func(t *testing.T) { checkPlatformImage(t, image, m.Platform.Architecture) })
	}
	want := slices.DeleteFunc(slices.Clone(platforms), func(p string) bool { return !strings.HasPrefix(p, "linux/") })
	if !slices.Equal(got, want) {
		t.Errorf("got images for %q, want %q", got, want)
	}
}

// checkPlatformImage compares one image with the Dockerfile, byte for byte in the
// binary where the Dockerfile's commands build it here.
func checkPlatformImage(t *testing.T, image v1.Image, arch string) {
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if created := config.Created.UTC().Format("2006-01-02T15:04:05Z"); config.OS != "linux" || config.Architecture != arch || created != releaseTime {
		t.Errorf("got %s/%s of %s, want linux/%s of %s", config.OS, config.Architecture, created, arch, releaseTime)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	r := mutate.Extract(image)
	defer r.Close()
	var all bytes.Buffer
	if _, err := all.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	files := untar(t, all.Bytes(), root)
	if len(files) != 3 || !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Errorf("got %d files, want the authorities' certificates, the binary, and its SBOM", len(files))
	}
	checkSBOM(t, files["spectap.cdx.json"], files["spectap"])
	checkStatic(t, files["spectap"], arch)
	wanted, built := buildDockerfile(t, arch)
	if !reflect.DeepEqual(config.Config, wanted) {
		t.Errorf("the Dockerfile and the release differ:\ngot  %+v\nwant %+v", config.Config, wanted)
	}
	if sha256.Sum256(files["spectap"]) != sha256.Sum256(built) {
		t.Error("the Dockerfile's commands and the release build different bytes")
	}
	if arch == runtime.GOARCH {
		runImage(t, root, config.Config)
	}
}

// checkStatic wants a binary for the processor that needs no loader and no library.
func checkStatic(t *testing.T, binary []byte, arch string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	libraries, err := f.ImportedLibraries()
	interpreted := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if f.Machine != want || interpreted || len(libraries) > 0 {
		t.Errorf("got machine %v, loader %v, libraries %q (%v); want %v and a static binary", f.Machine, interpreted, libraries, err, want)
	}
}

// inImage is a program in the image's file system: as its user, with its
// environment alone. Without root's rights it is only started from that folder.
func inImage(root string, config v1.Config, environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command(config.Entrypoint[0], args...)
	cmd.Env, cmd.Dir = append(slices.Clone(config.Env), environ...), config.WorkingDir
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	cmd.Path, cmd.Dir = filepath.Join(root, cmd.Path), root
	cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(root, "tmp"))
	return cmd
}

// runImage runs the image's commands: version, the proxy in front of an engine and
// its health check, and the demo, which needs /tmp.
func runImage(t *testing.T, root string, config v1.Config) {
	run := func(environ []string, args ...string) ([]byte, error) {
		return inImage(root, config, environ, args...).CombinedOutput()
	}
	text, err := run(nil, "version", "--json")
	if err != nil {
		t.Fatalf("cannot run the image: %v\n%s", err, text)
	}
	checkVersion(t, text)
	environ := []string{"SPECTAP_UPSTREAM=" + startEngine(t), "SPECTAP_LISTEN=127.0.0.1:0", "SPECTAP_ADMIN=127.0.0.1:0", "SPECTAP_LOG_FORMAT=json"}
	p := startCommand(t, inImage(root, config, environ, config.Cmd...))
	admin := p.printed(t, `"admin":"([0-9.:]+)"`)
	check := config.Healthcheck.Test[2:] // after CMD and the program
	if out, err := run([]string{"SPECTAP_ADMIN=" + admin}, check...); err != nil || string(out) != "ok\n" {
		t.Errorf("got health %q, %v; want ok", out, err)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:9464"); err == nil {
		_ = c.Close()
		t.Log("somebody listens at :9464, the default: that the health check fails there was not tried")
	} else if out, err := run(nil, check...); err == nil || !strings.Contains(string(out), ":9464") {
		t.Errorf("where nothing listens: got health %q, %v; want a failure that names :9464", out, err)
	}
	p.stop(t)
	if out, err := run(nil, "demo", "--save_dir", filepath.Join(tmpOf(root), "demo")); err != nil {
		t.Errorf("cannot run the demo in the image: %v\n%s", err, out)
	}
	if len(read(t, root, "tmp", "demo", "t0_c1", "acceptance_rate.json")) == 0 {
		t.Error("the demo in the image wrote nothing")
	}
}

// tmpOf is the image's folder for temporary files as inImage's programs see it.
func tmpOf(root string) string {
	if os.Getuid() == 0 {
		return "/tmp"
	}
	return filepath.Join(root, "tmp")
}

// buildDockerfile runs the Dockerfile's commands in a copy of the tree, with /out
// and the arguments replaced, and returns the last stage's configuration and the
// binary. Base images are not fetched: golang's is this machine's Go, and that its
// tag exists and has the certificates is not checked.
func buildDockerfile(t *testing.T, arch string) (v1.Config, []byte) {
	parsed, err := parser.Parse(bytes.NewReader(read(t, "../Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 || !regexp.MustCompile(`^golang:[0-9.]+$`).MatchString(stages[0].BaseName) || stages[0].Platform != "$BUILDPLATFORM" || stages[1].BaseName != "scratch" {
		t.Fatalf("got stages %+v, want golang of the build's platform with its version, and scratch", stages)
	}
	d := dockerfile{source: t.TempDir(), out: t.TempDir(), given: map[string]string{
		"TARGETOS": "linux", "TARGETARCH": arch, "VERSION": releaseVersion, "REVISION": releaseCommit, "CREATED": releaseTime,
	}}
	copyTree(t, d.source)
	for _, stage := range stages {
		d.args = map[string]string{} // of this stage
		for _, c := range stage.Commands {
			d.do(t, c)
		}
	}
	return d.config, read(t, d.out, "spectap")
}

// dockerfile is a Dockerfile at work.
type dockerfile struct {
	source, out string            // the build stage's /src and /out
	given, args map[string]string // --build-arg and the platform's, and what ARG has declared
	config      v1.Config
}

// do runs one instruction; one that the Dockerfile has no need of fails the test.
func (d *dockerfile) do(t *testing.T, c instructions.Command) {
	if e, ok := c.(instructions.SupportsSingleWordExpansion); ok {
		if err := e.Expand(func(word string) (string, error) {
			return strings.Trim(os.Expand(word, func(name string) string { return d.args[name] }), `"`), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	switch c := c.(type) {
	case *instructions.ArgCommand:
		for _, a := range c.Args {
			d.args[a.Key] = d.given[a.Key]
		}
	case *instructions.WorkdirCommand:
		if c.Path != "/src" {
			t.Errorf("got WORKDIR %s, want /src", c.Path)
		}
	case *instructions.RunCommand:
		d.run(t, c)
	case *instructions.CopyCommand:
		d.checkCopy(t, c)
	case *instructions.LabelCommand:
		d.config.Labels = map[string]string{}
		for _, l := range c.Labels {
			d.config.Labels[l.Key] = l.Value
		}
	case *instructions.UserCommand:
		d.config.User = c.User
	case *instructions.ExposeCommand:
		d.expose(t, c.Ports)
	case *instructions.HealthCheckCommand:
		d.config.Healthcheck = &v1.HealthConfig{Test: c.Health.Test, Interval: c.Health.Interval, Timeout: c.Health.Timeout, StartPeriod: c.Health.StartPeriod}
	case *instructions.EntrypointCommand:
		d.config.Entrypoint = c.CmdLine
	case *instructions.CmdCommand:
		d.config.Cmd = c.CmdLine
	default:
		t.Errorf("the test does not know %s", c.Name())
	}
	// What Docker's builder adds to an empty base.
	d.config.Env, d.config.WorkingDir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
}

// run runs a RUN by the shell; its caches are this machine's.
func (d *dockerfile) run(t *testing.T, c *instructions.RunCommand) {
	var environ []string
	for name, value := range d.args {
		environ = append(environ, name+"="+value)
	}
	command := goCacheSetting.ReplaceAllString(strings.Join(c.CmdLine, " "), "")
	checkGoCaches(t, c)
	command = strings.ReplaceAll(command, "/out/", d.out+"/")
	runIn(t, d.source, environ, "/bin/sh", "-c", command)
}

// goCacheSetting says where a command of Go has one of its caches.
var goCacheSetting = regexp.MustCompile(`\b(GOCACHE|GOMODCACHE)=(\S+) `)

// checkGoCaches checks that a RUN says where the caches of Go are that it fills,
// and that a mount keeps them from build to build.
func checkGoCaches(t *testing.T, c *instructions.RunCommand) {
	command := strings.Join(c.CmdLine, " ")
	want := []string{"GOMODCACHE"}
	if strings.Contains(command, "go build") {
		want = []string{"GOCACHE", "GOMODCACHE"}
	}
	var set []string
	for _, found := range goCacheSetting.FindAllStringSubmatch(command, -1) {
		set = append(set, found[1])
		if !slices.ContainsFunc(instructions.GetMounts(c), func(m *instructions.Mount) bool {
			return m.Type == instructions.MountTypeCache && strings.HasPrefix(found[2], m.Target+"/")
		}) {
			t.Errorf("%s of %q is in no cache mount", found[1], command)
		}
	}
	if !slices.Equal(set, want) {
		t.Errorf("got %q set in %q, want %q", set, command, want)
	}
}

// checkCopy looks for what is copied: in the tree, or where the build stage put it.
func (d *dockerfile) checkCopy(t *testing.T, c *instructions.CopyCommand) {
	for _, path := range c.SourcePaths {
		switch {
		case c.From == "":
			path = filepath.Join(d.source, path)
		case strings.HasPrefix(path, "/out/"):
			path = filepath.Join(d.out, strings.TrimPrefix(path, "/out/"))
		case path == "/etc/ssl/certs/ca-certificates.crt": // of the base image
			continue
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// expose compares the ports with the defaults that the binary names.
func (d *dockerfile) expose(t *testing.T, ports []string) {
	help := string(runIn(t, ".", nil, command(t, "spectap"), "proxy", "--help"))
	d.config.ExposedPorts = map[string]struct{}{}
	var want []string
	for _, name := range []string{"SPECTAP_LISTEN", "SPECTAP_ADMIN"} {
		found := regexp.MustCompile(`\(` + name + `, .*default :(\d+)\)`).FindStringSubmatch(help)
		if found == nil {
			t.Fatalf("the help of spectap proxy names no default of %s:\n%s", name, help)
		}
		want = append(want, found[1])
	}
	if !slices.Equal(ports, want) {
		t.Errorf("got EXPOSE %q, want the defaults of SPECTAP_LISTEN and SPECTAP_ADMIN %q", ports, want)
	}
	for _, p := range ports {
		d.config.ExposedPorts[p+"/tcp"] = struct{}{}
	}
}
