package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clientsTimeout ends clients that hang.
const clientsTimeout = 2 * time.Minute

// The openai, aiohttp and httpx clients and Go's get the same objects with and
// without spectap, in every mode.
func TestTransparencyClients(t *testing.T) {
	f := func(upstream, server string) {
		t.Helper()
		t.Run(upstream, func(t *testing.T) {
			direct := askAll(t, server, "direct-", upstream) // fakevllm puts the X-Request-Id into its answers: all are of one length
			for run, mode := range map[string]string{"observe": "observe", "usage--": "usage", "tokens-": "tokens"} {
				t.Run(mode, func(t *testing.T) {
					records := filepath.Join(t.TempDir(), "records.jsonl")
					proxy := startProxy(t, nil, server, "--measure", mode, "--records", records)
					through := askAll(t, proxy.URL, run, upstream)
					compareReplies(t, direct, through)
					if len(through) < 100 {
						t.Errorf("got %d replies, want those of all clients", len(through))
					}
					if upstream == "captures" {
						leavers(t, server, run)
					}
					proxy.stop(t)
					compareKinds(t, records, run)
				})
			}
		})
	}
	f("captures", startUvicorn(t, "httptools", nil).URL)
	f("fakevllm", startEngine(t, "--prefill", "1ms", "--step", "1ms"))
}

// reply is what a client got: canonical JSON, by the names of client and request.
type replies map[string]string

// askAll asks everything of a list of transparency/requests.json with every client.
func askAll(t *testing.T, url, run, upstream string) replies {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientsTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), filepath.Join("transparency", "clients.py"), url, run, upstream)
	cmd.Env = environment([]string{"PYTHONDONTWRITEBYTECODE=1"})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("clients.py: %v\n%s", err, stderr.Bytes())
	}
	all := replies{}
	for line := range bytes.Lines(out) {
		all.add(t, line)
	}
	askGo(t, all, url, run, upstream)
	return all
}

// add keeps a line of clients.py in a form that can be compared.
func (r replies) add(t *testing.T, line []byte) {
	t.Helper()
	var got map[string]any
	numbers := json.NewDecoder(bytes.NewReader(line))
	numbers.UseNumber() // as they are spelled
	if err := numbers.Decode(&got); err != nil {
		t.Fatalf("cannot read %q: %v", line, err)
	}
	name, _ := got["name"].(string)
	if _, twice := r[name]; twice || name == "" {
		t.Fatalf("clients.py has no or a second %q", name)
	}
	text, err := json.Marshal(mask(got))
	if err != nil {
		t.Fatal(err)
	}
	r[name] = string(text)
}

// mask hides the id and the time of an answer. Others of a name, as a tool call's
// id, stay.
func mask(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
	case map[string]any:
		if _, answer := v["object"]; answer {
			for _, name := range []string{"id", "created"} {
				if _, has := v[name]; has {
					v[name] = name
				}
			}
		}
		for _, name := range []string{"all", "objects", "events"} {
			if list, has := v[name]; has {
				v[name] = mask(list)
			}
		}
	}
	return value
}

// compareReplies wants the same replies.
func compareReplies(t *testing.T, direct, through replies) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		if direct[name] != through[name] {
			at := max(0, common(direct[name], through[name])-80)
			t.Errorf("%s: differs\nwithout spectap …%.400s\n   with spectap …%.400s", name, direct[name][at:], through[name][at:])
		}
	}
	for name := range through {
		if direct[name] == "" {
			t.Errorf("%s: only with spectap", name)
		}
	}
}

// common is how long two texts are the same.
func common(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// leavers: the application was told of each client that left, and sent it no
// whole answer.
func leavers(t *testing.T, url, run string) {
	t.Helper()
	for _, client := range []string{"aiohttp", "httpx", "openai"} {
		notes := caseOf(t, url, run+"-"+client, "cut")
		if want := []string{"began", "http.disconnect", "cut"}; !slices.Equal(notes, want) {
			t.Errorf("%s left: the application saw %q, want %q", client, notes, want)
		}
	}
}

// caseOf returns what became of a request with that X-Case, once it has come to
// the word.
func caseOf(t testing.TB, server, name, until string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/case/"+name+"?until="+url.QueryEscape(until), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("the application did not see %q of %s: %v", until, name, err)
	}
	defer answer.Body.Close()
	var notes []string
	if err := json.NewDecoder(answer.Body).Decode(&notes); err != nil {
		t.Fatal(err)
	}
	return notes
}

// compareKinds: the records name who left, and no other failure that the server
// did not answer with.
func compareKinds(t *testing.T, path, run string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := 0
	for lines := json.NewDecoder(file); ; {
		var r struct {
			RequestID string `json:"x_request_id"`
			Kind      string `json:"error_kind"`
			Error     string `json:"error"`
			Status    int    `json:"status"`
			Warnings  []string
		}
		if err := lines.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.RequestID, run+"/") {
			continue
		}
		found++
		_, name, _ := strings.Cut(strings.TrimPrefix(r.RequestID, run+"/"), "/")
		if want := kindOf(name, r.Status); r.Kind != want {
			t.Errorf("%s: got error kind %q (%s), want %q", r.RequestID, r.Kind, r.Error, want)
		}
		if len(r.Warnings) > 0 && name != "no JSON" {
			t.Errorf("%s: got warnings %q", r.RequestID, r.Warnings)
		}
	}
	if found < 60 {
		t.Errorf("got %d records, want those of all clients", found)
	}
}

// kindOf is the error kind of the request of a name.
func kindOf(name string, status int) string {
	switch {
	case name == "leaves":
		return "client_gone"
	case name == "cut":
		return "truncated"
	case strings.HasSuffix(name, "in the stream"), name == "chat, engine killed", name == "503", name == "min_p":
		return "in_band_error"
	case status >= 400:
		return "http_status"
	}
	return ""
}
