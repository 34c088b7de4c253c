package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The live page in a real browser: empty, under load, on a phone, and after
// spectap was started again.
func TestLivePage(t *testing.T) {
	b := startBrowser(t)
	truth := filepath.Join(t.TempDir(), "truth.jsonl")
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms", "--truth", truth)
	spectap := startProxy(t, nil, engine)
	b.do(t, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(spectap.Admin+"/"))

	b.until(t, `document.getElementById('connection-text').textContent === 'Live'`)
	if got, want := b.text(t, "empty-env"), "export OPENAI_BASE_URL="+spectap.URL+"/v1"; got != want {
		t.Errorf("an empty page says %q, want %q", got, want)
	}
	b.until(t, `document.getElementById('empty-engine').textContent.includes('is ready (vllm)')`)

	runSweep(t, nil, "--url", spectap.URL, "--mtbench", writeQuestions(t, 8), "--concurrency", "4", "--output_length", "64")
	const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	askFor(t, spectap.URL, hostile)
	checkFigures(t, b, spectap, truth)
	checkHostile(t, b, hostile)
	checkLayout(t, b)
	checkContrast(t, b)
	checkGrowth(t, b)
	b.clean(t, spectap.Admin)
	checkRestart(t, b, spectap, engine)
}

// A page in front of an engine that is not there says so.
func TestLivePageWithoutEngine(t *testing.T) {
	b := startBrowser(t)
	spectap := startProxy(t, nil, "http://127.0.0.1:1")
	b.do(t, chromedp.Navigate(spectap.Admin+"/"))
	b.until(t, `document.getElementById('empty-engine').textContent.includes('http://127.0.0.1:1 is not ready')`)
	b.clean(t, spectap.Admin)
}

// askFor sends a request for a model that may not be there.
func askFor(t *testing.T, url, model string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "messages": []any{map[string]string{"role": "user", "content": "Hello"}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// engineSums sums the engine's own log.
func engineSums(t *testing.T, path string) (steps, accepted, tokens int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var line struct {
			Histogram  []int `json:"histogram"`
			Completion int   `json:"completion_tokens"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for j, n := range line.Histogram {
			steps, accepted = steps+n, accepted+n*j
		}
		tokens += line.Completion
	}
	return steps, accepted, tokens
}

// checkFigures holds the page's totals against /status and the engine's own log.
func checkFigures(t *testing.T, b *browser, spectap *proxyProcess, truth string) {
	t.Helper()
	resp, err := http.Get(spectap.Admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var status struct {
		Outcomes   map[string]int `json:"outcomes_total"`
		Unmeasured map[string]int `json:"unmeasured_total"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	requests := 0
	for _, n := range status.Outcomes {
		requests += n
	}
	if requests < 17 { // 8 questions of 2 turns, and the one that fails; the sweep's own preflight beside
		t.Fatalf("got %d requests in /status: %v", requests, status)
	}
	b.until(t, `document.getElementById('total-requests').textContent === '`+strconv.Itoa(requests)+`'`)
	steps, accepted, tokens := engineSums(t, truth)
	for id, want := range map[string]string{
		"total-failed":   strconv.Itoa(requests - status.Outcomes["ok"]),
		"total-steps":    thousands(steps),
		"total-accepted": thousands(accepted),
		"total-tokens":   thousands(tokens),
		"total-al":       strconv.FormatFloat(1+float64(accepted)/float64(steps), 'f', 3, 64) + " tokens/step",
		"tile-al":        strconv.FormatFloat(1+float64(accepted)/float64(steps), 'f', 3, 64),
	} {
		if got := b.text(t, id); got != want {
			t.Errorf("%s: the page shows %q, want %q", id, got, want)
		}
	}
	if got := b.text(t, "tile-ttft"); !strings.HasSuffix(got, " ms") && !strings.HasSuffix(got, " s") {
		t.Errorf("the time to first token is %q, without a unit", got)
	}
	rows := func(id string) int {
		return evaluate[int](t, b, `document.querySelectorAll('#`+id+` tbody tr:not([hidden])').length`)
	}
	if got := rows("recent"); got != min(requests, 50) {
		t.Errorf("got %d rows of requests, want %d", got, min(requests, 50))
	}
	if got, want := rows("errors"), len(status.Outcomes)-1; got != want {
		t.Errorf("got %d kinds of failure, want %d", got, want)
	}
	if got, want := rows("unmeasured"), len(status.Unmeasured); got != want {
		t.Errorf("got %d reasons, want %d", got, want)
	}
	if got := rows("positions"); got != 5 {
		t.Errorf("got %d draft positions, want 5", got)
	}
	b.until(t, `[...document.querySelectorAll('#charts path.s0')].filter(p => p.closest('.plot') && p.getAttribute('d')).length === 5`) // once the first five seconds are over
	if !evaluate[bool](t, b, `document.getElementById('empty').hidden`) {
		t.Error("the page still says what to do first")
	}
}

// thousands writes a number as the page does.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// checkHostile says that a model's name is a text and nothing else.
func checkHostile(t *testing.T, b *browser, name string) {
	t.Helper()
	quoted, err := json.Marshal(name[:40])
	if err != nil {
		t.Fatal(err)
	}
	b.until(t, `[...document.querySelectorAll('#recent td')].some(td => td.textContent.startsWith(`+string(quoted)+`))`)
	if got := evaluate[string](t, b, `document.title`); got != "spectap" {
		t.Errorf("the title became %q", got)
	}
	if got := evaluate[int](t, b, `document.querySelectorAll('img').length * 100 + document.querySelectorAll('script').length`); got != 1 {
		t.Errorf("got %d images and %d scripts, want none and the page's own", got/100, got%100)
	}
}

// checkLayout says that nothing is wider than a phone.
func checkLayout(t *testing.T, b *browser) {
	t.Helper()
	for _, width := range []int{1280, 768, 360} {
		b.do(t, chromedp.EmulateViewport(int64(width), 800, chromedp.EmulateMobile))
		if got := evaluate[int](t, b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("at %d px the page is %d px wide", width, got)
		}
		wide := evaluate[[]string](t, b, `[...document.querySelectorAll('body *:not(.unseen)')].filter(e => !e.closest('thead') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + '#' + e.id)`)
		if len(wide) > 0 {
			t.Errorf("at %d px these stand out: %v", width, wide)
		}
	}
	b.do(t, chromedp.EmulateViewport(1280, 900))
}

// contrast returns the lowest contrast of any text with its background (WCAG 2.2, 1.4.3) and what that text is.
const contrast = `(() => {
	const light = c => {
		const [r, g, b] = c.match(/[\d.]+/g).map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = getComputedStyle(e).backgroundColor;
			if (c !== 'rgba(0, 0, 0, 0)') return c;
		}
	};
	let lowest = { ratio: 100, text: '' };
	for (const e of document.querySelectorAll('body *')) {
		if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
		const style = getComputedStyle(e);
		const a = light(e.closest('svg') ? style.fill : style.color), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < lowest.ratio) lowest = { ratio, text: e.textContent, back: behind(document.body) };
	}
	return lowest;
})()`

// checkContrast says that all texts can be read, dark and light.
func checkContrast(t *testing.T, b *browser) {
	t.Helper()
	backs := map[string]bool{}
	for _, scheme := range []string{"dark", "light"} {
		b.scheme(t, scheme)
		got := evaluate[struct {
			Ratio      float64
			Text, Back string
		}](t, b, contrast)
		if got.Ratio < 4.5 || got.Ratio > 21 {
			t.Errorf("%s: %q has contrast %.2f, want 4.5 or more", scheme, got.Text, got.Ratio)
		}
		backs[got.Back] = true
	}
	if len(backs) != 2 {
		t.Errorf("dark and light have one background: %v", backs)
	}
}

// feed gives the page 300 snapshots in which everything changes.
const feed = `(async () => {
	const source = watched.streams.at(-1), now = Date.now();
	for (let i = 0; i < 300; i++) {
		const s = JSON.parse(watched.data);
		s.total.requests += i;
		s.minute.requests_per_second = Math.random() * 1000;
		for (const name in s.chart) s.chart[name] = s.chart[name].map(() => Math.random() < 0.1 ? null : Math.random() * i);
		s.recent = Array.from({ length: i % 51 }, (_, n) => ({ ...s.recent[0], ended_ms: now + n, model: 'model ' + Math.random(), error: n % 3 ? '' : 'kind ' + i }));
		s.errors = Array.from({ length: i % 33 }, (_, n) => ({ kind: 'kind ' + i + ' ' + n, count: i, last_ms: now }));
		s.unmeasured = s.errors;
		s.positions.total = Array.from({ length: i % 33 }, () => Math.random());
		s.positions.chart = s.positions.total;
		source.onmessage({ data: JSON.stringify(s) });
		if (i % 10 === 0) await new Promise(requestAnimationFrame);
	}
	source.onmessage({ data: watched.data });
	return true;
})()`

// checkGrowth says that a page is as large after many snapshots as before.
func checkGrowth(t *testing.T, b *browser) {
	t.Helper()
	evaluate[bool](t, b, feed) // every row and text has been there once
	elements, heap := b.measure(t)
	evaluate[bool](t, b, feed)
	evaluate[bool](t, b, feed)
	after, heapAfter := b.measure(t)
	// One node a snapshot would be 600; a live snapshot between may bring or take a few.
	if after > elements+10 {
		t.Errorf("the document grew from %d to %d nodes in 600 snapshots", elements, after)
	}
	if heapAfter > heap+heap/4+256<<10 {
		t.Errorf("the script's memory grew from %d to %d bytes in 600 snapshots", heap, heapAfter)
	}
	t.Logf("%d nodes, %d bytes; after 600 snapshots %d and %d", elements, heap, after, heapAfter)
}

// checkRestart ends spectap under an open page and starts it again.
func checkRestart(t *testing.T, b *browser, spectap *proxyProcess, engine string) {
	t.Helper()
	spectap.stop(t) // an open page delays no shutdown
	b.until(t, `/^Disconnected since [0-9:]{8}; trying again$/.test(document.getElementById('connection-text').textContent)`)
	startProxy(t, nil, engine, "--listen", strings.TrimPrefix(spectap.URL, "http://"), "--admin", strings.TrimPrefix(spectap.Admin, "http://"))
	b.until(t, `document.getElementById('connection-text').textContent === 'Live' && document.getElementById('total-requests').textContent === '0' && !document.getElementById('empty').hidden`)
}
