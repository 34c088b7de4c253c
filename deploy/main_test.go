package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// requireTools is the variable that turns a missing program from a skipped test
// into a failed one.
const requireTools = "SPECTAP_REQUIRE_TOOLS"

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// built are the commands of the module above, made once a test run.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// command returns the path of spectap or fakevllm, built from the sources above.
func command(t testing.TB, name string) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "spectap-deploy-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", built.folder+string(filepath.Separator), "./cmd/...")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("cannot build the commands: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.folder, name)
}

// tool returns the path of an installed program. Without it the test is skipped,
// or fails where SPECTAP_REQUIRE_TOOLS says so.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv(requireTools) != "" {
		t.Fatalf("cannot find %s: %v; install Debian's prometheus, chromium and shellcheck, or unset %s", name, err, requireTools)
	}
	t.Skipf("%s is not installed", name)
	return ""
}
