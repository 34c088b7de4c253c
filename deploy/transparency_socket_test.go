package deploy

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A real WebSocket client and uvicorn's own implementation see nothing of spectap
// between them.
func TestTransparencySocket(t *testing.T) {
	server := startUvicorn(t, "httptools", nil)
	proxy := startProxy(t, nil, server.URL)
	direct, through := askSocket(t, server.URL, "direct"), askSocket(t, proxy.URL, "through")
	if want := 25; len(direct) != want {
		t.Errorf("got %d replies, want %d", len(direct), want)
	}
	compareReplies(t, direct, through)
	f := func(word string, want ...string) {
		t.Helper()
		for _, run := range []string{"direct", "through"} {
			if got := caseOf(t, server.URL, run+"-"+word, want[0]); !slices.Equal(got, want) {
				t.Errorf("%s: the application saw %q of %s, want %q", run, got, word, want)
			}
		}
	}
	f("talk", "closed 1000", "closed 1000")
	f("client", "closed 4002")
	f("gone", "closed 1005") // uvicorn's word for a connection that was lost
}

// askSocket runs transparency/sockets.py.
func askSocket(t *testing.T, url, run string) replies {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientsTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), filepath.Join("transparency", "sockets.py"), url, run)
	cmd.Env = environment([]string{"PYTHONDONTWRITEBYTECODE=1"})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sockets.py: %v\n%s", err, stderr.Bytes())
	}
	all := replies{}
	for line := range bytes.Lines(out) {
		all.add(t, line)
	}
	return all
}
