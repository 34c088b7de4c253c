package deploy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// The tests of this name put a real uvicorn with FastAPI, the HTTP stack of vLLM,
// behind spectap and real Python clients before it, and compare what passes with
// what passes without spectap. transparency/app.py is the server: its answers are
// captures of a real vLLM.

// pythonEnv is a Python environment that is made once a test run.
type pythonEnv struct {
	folder string // its requirements.txt is there
	once   sync.Once
	python string
	err    error
}

// clientsEnv is the environment of the server and the clients.
var clientsEnv = pythonEnv{folder: "transparency"}

func python(t testing.TB) string { t.Helper(); return clientsEnv.interpreter(t) }

// interpreter returns the Python of the environment, which is made where it is
// missing. Where it cannot be made, the test is skipped, or fails if
// SPECTAP_REQUIRE_TOOLS says so.
func (e *pythonEnv) interpreter(t testing.TB) string {
	t.Helper()
	e.once.Do(func() { e.python, e.err = makeVenv(e.folder) })
	if e.err == nil {
		return e.python
	}
	if os.Getenv(requireTools) != "" {
		t.Fatalf("%v; install Debian's python3-venv and let pip reach PyPI, or unset %s", e.err, requireTools)
	}
	t.Skip(e.err)
	return ""
}

// makeVenv makes the environment in the user's cache folder, under a hash of what
// is in it, so that the next run finds it. A folder without its mark is half made.
func makeVenv(folder string) (string, error) {
	requirements := filepath.Join(folder, "requirements.txt")
	wanted, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	version, err := exec.Command("python3", "-c", "import sys; print(sys.version, sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("cannot run python3: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "spectap-"+folder, fmt.Sprintf("%x", sha256.Sum256(append(wanted, version...)))[:16])
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	interpreter, mark := filepath.Join(dir, "bin", "python"), filepath.Join(dir, "complete")
	if _, err := os.Stat(mark); err == nil {
		return interpreter, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	for _, command := range [][]string{
		{"python3", "-m", "venv", dir},
		{interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--requirement", requirements},
		{interpreter, "-m", "pip", "check"}, // nothing is missing of what they need
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot make a Python environment: %q: %w\n%s", command, err, out)
		}
	}
	return interpreter, os.WriteFile(mark, nil, 0o644)
}

// lock waits until no other process has the lock of the file.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil // closing unlocks
}

// uvicorn is a running server.
type uvicorn struct {
	*process
	URL string
}

// startUvicorn starts transparency/app.py as vLLM starts its own server. http is
// the parser: httptools, which vLLM gets, or h11.
func startUvicorn(t testing.TB, http string, environ []string, args ...string) *uvicorn {
	t.Helper()
	interpreter := python(t)
	captures, err := filepath.Abs(filepath.Join("..", "proxy", "tap", "testdata", "vllm-0.32"))
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{
		"-m", "uvicorn", "app:app", "--app-dir", "transparency", "--host", "127.0.0.1", "--port", "0",
		"--http", http, "--loop", "uvloop", "--no-access-log", "--h11-max-incomplete-event-size", "4194304", "--timeout-graceful-shutdown", "15",
	}, args...)
	environ = append([]string{"SPECTAP_CAPTURES=" + captures, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}, environ...)
	p := start(t, environ, interpreter, args...)
	return &uvicorn{process: p, URL: p.printed(t, `Uvicorn running on (http://[0-9.:]+) `)}
}

// parsers are those that uvicorn can have.
var parsers = []string{"httptools", "h11"}
