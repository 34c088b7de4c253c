package report

import (
	"errors"
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spectap/collector"
)

var update = flag.Bool("update", false, "rewrite the golden page")

// cutShort ends a point's first turn at the token limit, two tokens below what its
// last step promised.
func cutShort(p *collector.Point) {
	r := p.Records[0]
	last := &r.Chunks[len(r.Chunks)-1]
	r.Finish = "length"
	r.Spec.Accepted[last.Tokens-1]--
	r.Spec.Accepted[last.Tokens+1]++
	r.Spec.AcceptedTokens += 2
}

// small is the folder of the golden page.
func small(t *testing.T) fixture {
	f := newFixture(t)
	categories := []string{"writing", "math"}
	for _, s := range []shape{
		{name: "t0_c1", concurrency: 1, conversations: 4, categories: categories, model: "org/model", change: cutShort},
		{name: "t0_c4", concurrency: 4, conversations: 4, categories: categories, model: "org/model"},
		{name: "t1_c1", temperature: 1, concurrency: 1, conversations: 3, categories: categories, model: "org/model"},
	} {
		f.add(s)
	}
	f.fail(shape{name: "t1_c4", temperature: 1, concurrency: 4, conversations: 1, categories: categories, change: func(p *collector.Point) {
		p.Records[0].ErrorKind = collector.ErrTruncated
	}}, "1 of 2 requests failed; the first: the answer ended before its end")
	f.file(collector.FileBook, `{"schema": "spectap.sweep/1", "run": "run-1", "started": "2026-11-30T12:00:00.000000+00:00", "spectap_version": "v1.2.3",
		"argv": ["spectap", "sweep", "--url", "http://127.0.0.1:8000"], "plan": {"dataset": "mtbench", "dataset_path": "question.jsonl", "select": "auto",
		"points": ["t0_c1", "t0_c4", "t1_c1", "t1_c4", "t1_c8"], "top_p": 1, "top_k": 0, "output_length_tokens": 4096, "driver": "builtin"},
		"server": {"url": "http://127.0.0.1:8000", "model": "org/model", "engine": "vllm", "version": "0.32.0"},
		"environment": {"CONTAINER_IMAGE": "vllm/vllm-openai"}, "warnings": [], "points": []}`)
	return f
}

// The same folder gives the same bytes, and these are the golden page's.
func TestGoldenPage(t *testing.T) {
	const path = "testdata/report.html"
	got := small(t).page()
	if again := small(t).page(); again != got {
		t.Error("two reports of equal folders differ")
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("line %d of %d and %d: got %q, want %q (-update rewrites it)", i+1, len(a), len(b), a[i], b[i])
			}
		}
		t.Fatalf("got %d lines, want %d (-update rewrites them)", len(a), len(b))
	}
}

// text is what a reader sees of a page.
func text(page string) string {
	_, page, _ = strings.Cut(page, "<body>")
	page = regexp.MustCompile(`(?s)<[^>]*>`).ReplaceAllString(page, " ")
	return regexp.MustCompile(`\s+`).ReplaceAllString(html.UnescapeString(page), " ")
}

func contains(t *testing.T, page string, want ...string) {
	t.Helper()
	shown := text(page)
	for _, w := range want {
		if !strings.Contains(shown, w) {
			t.Errorf("the page does not say %q", w)
		}
	}
}

// What a reader must find on a page with a failed and a missing point.
func TestPageSays(t *testing.T) {
	page := small(t).page()
	contains(t, page, "org/model", "MT-Bench", "vllm 0.32.0", "3 of 5", "1 failed, 1 not run",
		"D3: 1 of 22 turns were cut at the end by the token limit, 2 tokens in all.",
		"D2: 21 of 22 turns ended at EOS.",
		"D4: 22 of 22 turns have decode steps without drafts, 22 of 110 decode steps (20.0 %).",
		"Looked for and not found in this run: a last step cut by a stop (D1) and a stop token other than EOS before a later turn (D14).",
		"1 of 2 requests failed; the first: the answer ended before its end", "1 truncated", "t1_c8 not run",
		"question.jsonl", "spectap sweep --url http://127.0.0.1:8000", "CONTAINER_IMAGE")
	if strings.Contains(page, "SECRET") {
		t.Error("the page holds a prompt or a reply")
	}
}

// nasty is a text that would do harm in any part of a page that did not escape it.
const nasty = `</title></style></svg></script><script>alert(1)</script><img src=x onerror=alert(1)>"' onload=alert(1) {{.}} ]]> --> ` + "\u202e\x00\x1b`${1}`"

// No text from outside is anything but text.
func TestHostileTexts(t *testing.T) {
	f := newFixture(t)
	f.add(shape{name: "t0_c1", concurrency: 1, conversations: 4, categories: []string{nasty, nasty + "2", ""}, model: nasty, change: func(p *collector.Point) {
		p.Run.Dataset, p.Run.Engine, p.Run.EngineVersion, p.Run.ID, p.Run.Measure = nasty, nasty, nasty, "", nasty
		p.Records[0].Warnings, p.Records[1].Finish, p.Records[2].StopReason = []string{nasty}, nasty, "token:"+nasty
	}})
	f.fail(shape{name: "t1_c1", concurrency: 1, conversations: 1, categories: []string{nasty}, model: nasty, change: func(p *collector.Point) {
		p.Records[0].ErrorKind, p.Records[0].Error = nasty, nasty
	}}, nasty)
	quoted := `"` + strings.NewReplacer(`"`, `\"`, "\x00", `\u0000`, "\x1b", `\u001b`).Replace(nasty) + `"`
	f.file(collector.FileBook, `{"started": `+quoted+`, "spectap_version": `+quoted+`, "argv": [`+quoted+`], "warnings": [`+quoted+`], "environment": {`+quoted+`: `+quoted+`},
		"plan": {"points": [`+quoted+`], "dataset_path": `+quoted+`}, "server": {"url": `+quoted+`}}`)
	page := f.page()
	plain := newFixture(t)
	plain.add(shape{name: "t0_c1", concurrency: 1, conversations: 4, categories: []string{"a", "b", ""}, model: "m"})
	allowed := elements(plain.page())
	for name := range elements(page) {
		if !allowed[name] && name != "section" && name != "li" && name != "ul" {
			t.Errorf("the page has an element %q, which a page of plain texts has not", name)
		}
	}
	if strings.ContainsAny(page, "\x00\x1b\u202e") {
		t.Error("the page holds control characters")
	}
	for _, raw := range []string{"<script", "<img", "</script", `onerror=alert(1)>`, `"' onload`} {
		if strings.Contains(page, raw) {
			t.Errorf("the page holds %q", raw)
		}
	}
	if n := strings.Count(page, "</style>"); n != 1 {
		t.Errorf("got %d ends of a style, want 1", n)
	}
	contains(t, page, "<script>alert(1)</script>")
}

// elements are the names of a page's elements.
func elements(page string) map[string]bool {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`<([a-zA-Z][^\s/>]*)`).FindAllStringSubmatch(page, -1) {
		names[m[1]] = true
	}
	return names
}

// The policy allows the page's own style, and nothing else.
func TestPolicy(t *testing.T) {
	page := small(t).page()
	m := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`).FindStringSubmatch(page)
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(page)
	if m == nil || style == nil {
		t.Fatal("the page has no policy or no style")
	}
	want := "default-src 'none'; style-src 'sha256-" + hashOf(style[1]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
	if got := html.UnescapeString(m[1]); got != want {
		t.Errorf("got policy %q, want %q", got, want)
	}
	for _, outside := range []string{"http-equiv=\"refresh\"", "src=", "@import", "url("} {
		if strings.Contains(page, outside) {
			t.Errorf("the page holds %q", outside)
		}
	}
	for _, href := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(href[1], "#") && href[1] != "data:," {
			t.Errorf("the page refers to %q", href[1])
		}
	}
}

// A page under construction is never seen, and an older one stays where none can be made.
func TestWriteIsWhole(t *testing.T) {
	f := small(t)
	f.page()
	path := filepath.Join(f.dir, FileReport)
	for _, name := range []string{"t0_c1", "t0_c4", "t1_c1", "t1_c4.failed", collector.FileBook} {
		if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Write(f.dir, path, Options{}); err == nil || !strings.Contains(err.Error(), "has no points") {
		t.Errorf("got %v, want an error that says that the folder has no points", err)
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != FileReport {
		t.Errorf("got %v and %v, want the old report alone", entries, err)
	}
}

// A report replaces a report and an empty file, and nothing else: neither records,
// nor figures, nor another page.
func TestWriteSparesOtherFiles(t *testing.T) {
	f := newFixture(t)
	f.add(shape{name: "t0_c1", concurrency: 1, conversations: 3, categories: []string{"a"}, model: strings.Repeat("<", 200)})
	f.file("other.html", "<!doctype html>\n<title>a page · of another</title>")
	for _, name := range []string{"t0_c1/" + collector.FileRecords, "t0_c1/" + collector.FileSpeculation, "other.html"} {
		path := filepath.Join(f.dir, name)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Write(f.dir, path, Options{})
		if err == nil || errors.Is(err, ErrWrite) || !strings.Contains(err.Error(), "it exists and is not a report of spectap; want another --output") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
	f.file("empty.html", "")
	for _, name := range []string{"empty.html", "empty.html", FileReport, FileReport} { // each a second time over itself
		if _, err := Write(f.dir, filepath.Join(f.dir, name), Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
