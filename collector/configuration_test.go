package collector

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestConfigurationEmpty: unset fields are null, the mapping of parameters is {}.
func TestConfigurationEmpty(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal(Configuration{}.JSON(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 42 {
		t.Errorf("got %d keys, want 42", len(got))
	}
	for key, v := range got {
		switch key {
		case "runtime_params", "argv", "timestamp":
			if v == nil {
				t.Errorf("%s is null", key)
			}
		default:
			if v != nil {
				t.Errorf("%s: got %v, want null", key, v)
			}
		}
	}
}

// TestConfigurationSecrets: no secret reaches the file, whichever way it came;
// our own members follow at the end.
func TestConfigurationSecrets(t *testing.T) {
	path := "q.jsonl"
	c := Configuration{
		MTBench:       &path,
		RuntimeParams: Object{{"engine_args", []any{Object{{"api_key", "hunter2"}}}}},
		ServingConfig: json.RawMessage(`{"root": {"Hf_Token": "hunter2"}, "max_model_len": 8192}`),
		Argv:          []string{"spectap", "--api_key", "hunter2", "--url=http://me:hunter2@h:8000/v1", "--upstream", "https://hunter2@h", "--url", "me:hunter2@h", "--url=me:hunter2@h"},
		Extra:         Object{{"measure", "tokens"}, {"client_secret", "hunter2"}},
	}
	for _, text := range []string{string(c.JSON()), marshal(t, c)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the file has the secret:\n%s", text)
		}
		for _, want := range []string{"h:8000/v1", "https://h", "8192", path} {
			if !strings.Contains(text, want) {
				t.Errorf("the file lacks %q:\n%s", want, text)
			}
		}
	}
	if c.Argv[2] != "hunter2" || c.Argv[5] != "https://hunter2@h" {
		t.Errorf("the caller's arguments were changed: %q", c.Argv)
	}
	if i, j := strings.Index(string(c.JSON()), "huggingface_model_id"), strings.Index(string(c.JSON()), "measure"); i < 0 || j < i {
		t.Errorf("got huggingface_model_id at %d and ours at %d, want ours after it", i, j)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStripUserinfo(t *testing.T) {
	f := func(url, want string) {
		t.Helper()
		if got := StripUserinfo(url); got != want {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
	f("http://u:p@h:8000/v1?a=b@c", "http://h:8000/v1?a=b@c")
	f("https://token@h", "https://h")
	f("http://u:p@ss@h/", "http://h/") // the last @ ends the userinfo
	f("http://h/@model", "http://h/@model")
	f("http://h#a@b", "http://h#a@b")
	f("u:p@h:8000/x", "h:8000/x")
	f("http://[::1]:8000", "http://[::1]:8000")
	f("", "")
}

func TestTimestamp(t *testing.T) {
	f := func(nanoseconds int, want string) {
		t.Helper()
		at := time.Date(2026, 8, 21, 1, 2, 3, nanoseconds, time.FixedZone("west", -3600))
		if got := Timestamp(at); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(0, "2026-08-21T02:02:03+00:00")
	f(999, "2026-08-21T02:02:03+00:00") // below a microsecond
	f(120_000_000, "2026-08-21T02:02:03.120000+00:00")
}

func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(path, want string) {
		t.Helper()
		if got := string(AppendCompact(nil, Checkpoint(path))); got != strings.ReplaceAll(want, "DIR", dir) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("org/model", `{"path": "org/model"}`)
	f(dir, `{"path": "DIR", "size_bytes": 0, "index_sha256": null, "index_source": null}`)
	write("sub/weights.bin", "12345")
	write("config.json", "{}")
	const emptyObject = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // sha256 of {}
	f(dir, `{"path": "DIR", "size_bytes": 7, "index_sha256": "`+emptyObject+`", "index_source": "config.json"}`)
	write("model.safetensors.index.json", "{}") // an index without shards
	f(dir, `{"path": "DIR", "size_bytes": 2, "index_sha256": "`+emptyObject+`", "index_source": "model.safetensors.index.json"}`)
	write("model.safetensors.index.json", `{"weight_map": {"a": "sub/weights.bin", "b": "sub/weights.bin", "c": "absent"}}`)
	if size, _ := Checkpoint(dir).Get("size_bytes"); size != int64(5+79) { // a shard counts once
		t.Errorf("got %v bytes, want 84", size)
	}
	write("model.safetensors.index.json", "{broken")
	f(dir, `{"path": "DIR"}`)
	f(filepath.Join(dir, "config.json"), `{"path": "DIR/config.json"}`)
	if got := Checkpoint(""); got != nil {
		t.Errorf("no folder: got %v, want nil", got)
	}
}
