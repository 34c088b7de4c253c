package deploy

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// reportPictures is a folder for screenshots and prints of the reports.
var reportPictures = flag.String("report.pictures", "", "folder for screenshots and prints of the reports")

// hostileModel is a model name that would do harm on a page that did not escape it.
const hostileModel = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

// The report that a sweep leaves, in a real browser: at two widths, dark and light,
// and printed.
func TestReportPage(t *testing.T) {
	tool(t, "chromium")
	engine := startEngine(t, "--prefill", "2ms", "--step", "1ms", "--draftless", "0.1", "--model", hostileModel)
	dir := runSweep(t, nil, "--url", engine, "--mtbench", writeQuestions(t, 24), "--temperature", "0", "1", "--concurrency", "1", "4", "16", "--output_length", "48", "--num_gpus", "2")
	checkReport(t, "sweep", dir)
}

// A report of 40 points: 4 temperatures and 10 concurrencies.
func TestReportPageOfManyPoints(t *testing.T) {
	tool(t, "chromium")
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms")
	one := runSweep(t, nil, "--url", engine, "--mtbench", writeQuestions(t, 4), "--concurrency", "4", "--output_length", "24")
	records, err := os.ReadFile(filepath.Join(one, "t0_c4", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, temperature := range []string{"0", "0.3", "0.6", "1"} {
		for i := range 10 {
			name := fmt.Sprintf("t%s_c%d", temperature, 1<<i)
			text := bytes.ReplaceAll(records, []byte(`"t0_c4"`), []byte(strconv.Quote(name)))
			text = bytes.Replace(text, []byte(`"temperature":0,"concurrency":4`), fmt.Appendf(nil, `"temperature":%s,"concurrency":%d`, temperature, 1<<i), 1)
			if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "records.jsonl"), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err := exec.Command(command(t, "spectap"), "report", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkReport(t, "many", dir)
}

// checkReport looks at the report of a folder.
func checkReport(t *testing.T, name, dir string) {
	t.Helper()
	b := startBrowser(t)
	address := "file://" + filepath.Join(dir, "report.html")
	b.do(t, chromedp.EmulateViewport(1400, 1000), chromedp.Navigate(address))
	checkReportMarkup(t, b)
	for _, width := range []int{1400, 400} {
		for _, scheme := range []string{"light", "dark"} {
			b.do(t, chromedp.EmulateViewport(int64(width), 1000))
			b.scheme(t, scheme)
			checkReportLayout(t, b, width)
			checkReportContrast(t, b, scheme)
			b.picture(t, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
		}
	}
	checkReportContrast(t, b, "dark") // with the tables open
	b.print(t, name+".pdf")
	for _, refused := range evaluate[[]string](t, b, `watched.refused`) {
		t.Errorf("the Content-Security-Policy refused %s", refused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		t.Errorf("the console says %s", m)
	}
	for _, asked := range b.requests {
		if asked != address && !strings.HasPrefix(asked, "data:") {
			t.Errorf("the page asked for %s", asked)
		}
	}
}

// reportMarkup lists what is wrong with the page for those who hear it.
const reportMarkup = `(() => {
	const wrong = [], say = (what, e) => wrong.push(what + ': ' + e.outerHTML.slice(0, 120));
	const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
	for (const id of ids) if (ids.filter(i => i === id).length > 1) wrong.push('two elements have the id ' + id);
	for (const e of document.querySelectorAll('[aria-labelledby]'))
		for (const id of e.getAttribute('aria-labelledby').split(' ')) if (!document.getElementById(id)) say('nothing has the id ' + id, e);
	for (const e of document.querySelectorAll('a[href^="#"]')) if (!document.getElementById(e.getAttribute('href').slice(1))) say('a link to nowhere', e);
	for (const e of document.querySelectorAll('svg.plot')) {
		if (e.getAttribute('role') !== 'img' || !e.querySelector(':scope > title')?.textContent || !e.querySelector(':scope > desc')?.textContent) say('a chart without name or description', e);
		if (!e.closest('figure').querySelector('details table tbody tr')) say('a chart without its data', e);
	}
	for (const e of document.querySelectorAll('table')) {
		if (!e.caption?.textContent) say('a table without a caption', e);
		const columns = e.tHead.rows[0].cells.length;
		for (const r of e.rows) if (r.cells.length !== columns) say('a row of ' + r.cells.length + ' cells of ' + columns, r);
		for (const h of e.querySelectorAll('th')) if (!h.scope) say('a headline without scope', h);
		for (const r of e.tBodies[0].rows) if (r.cells[0].scope !== 'row') say('a row without its name', r);
	}
	let level = 0;
	for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
		if (+e.tagName[1] > level + 1) say('a headline too deep', e);
		level = +e.tagName[1];
	}
	if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
	if (document.querySelectorAll('script, img, iframe, object, embed, form, [style], [onload], [onerror], [onclick]').length) wrong.push('elements that no report has');
	for (const e of document.querySelectorAll('path[d]')) if (/NaN|Inf|undefined/.test(e.getAttribute('d'))) say('no path', e);
	return wrong;
})()`

func checkReportMarkup(t *testing.T, b *browser) {
	t.Helper()
	for _, wrong := range evaluate[[]string](t, b, reportMarkup) {
		t.Error(wrong)
	}
	if got := evaluate[string](t, b, `document.title`); !strings.HasSuffix(got, " · spectap report") {
		t.Errorf("the title is %q", got)
	}
	if n := evaluate[int](t, b, `document.querySelectorAll('svg.plot').length`); n < 10 {
		t.Errorf("got %d drawings, want 10 or more", n)
	}
}

// reportLayout lists what stands out of the page, and the texts of charts that
// cover each other or stand out of their chart.
const reportLayout = `(() => {
	const wrong = [];
	if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page is ' + document.documentElement.scrollWidth + ' px wide');
	for (const e of document.querySelectorAll('body *:not(.skip)')) {
		if (e.closest('.scroll table') || e.closest('svg')) continue;
		if (e.getBoundingClientRect().right > innerWidth + 0.5) wrong.push(e.tagName + '.' + e.className + ' stands out');
	}
	let seen = 0;
	for (const svg of document.querySelectorAll('svg.plot')) {
		if (!svg.checkVisibility()) continue;
		const frame = svg.getBoundingClientRect(), name = svg.querySelector('title').textContent;
		const texts = [...svg.querySelectorAll('text')].map(e => ({ text: e.textContent, box: e.getBoundingClientRect() }));
		seen += texts.length;
		for (const [i, a] of texts.entries()) {
			if (a.box.left < frame.left - 1 || a.box.right > frame.right + 1 || a.box.top < frame.top - 1 || a.box.bottom > frame.bottom + 1) wrong.push(name + ': ' + a.text + ' stands out of its chart');
			if (a.box.height < 9) wrong.push(name + ': ' + a.text + ' is ' + a.box.height + ' px high');
			for (const b of texts.slice(i + 1)) {
				const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
				const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
				if (across > 0.5 && down > 2.5) wrong.push(name + ': ' + a.text + ' and ' + b.text + ' overlap by ' + across + ' x ' + down); // a line box is higher than its digits
			}
		}
	}
	if (seen < 40) wrong.push('only ' + seen + ' texts are seen in charts');
	return wrong;
})()`

func checkReportLayout(t *testing.T, b *browser, width int) {
	t.Helper()
	for _, wrong := range evaluate[[]string](t, b, reportLayout) {
		t.Errorf("at %d px: %s", width, wrong)
	}
}

// checkReportContrast opens all tables and looks at every text.
func checkReportContrast(t *testing.T, b *browser, scheme string) {
	t.Helper()
	got := evaluate[struct {
		Ratio      float64
		Text, Back string
	}](t, b, contrast)
	if got.Ratio < 4.5 || got.Ratio > 21 {
		t.Errorf("%s: %q has contrast %.2f, want 4.5 or more", scheme, got.Text, got.Ratio)
	}
}

// picture keeps a screenshot of the whole page, where they are asked for.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	if *reportPictures == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*reportPictures, name), png, 0o666); err != nil {
		t.Fatal(err)
	}
}

// print prints the page on A4 and looks at what came.
func (b *browser) print(t *testing.T, name string) {
	t.Helper()
	var pdf []byte
	b.do(t, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		printed, err := cdp.Call(ctx, tab, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: 8.27, PaperHeight: 11.69})
		pdf = printed.Data
		return err
	}))
	if pages := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF-")) || pages < 2 {
		t.Errorf("got a print of %d bytes and %d pages, want 2 or more", len(pdf), pages)
	}
	if *reportPictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*reportPictures, name), pdf, 0o666); err != nil {
		t.Fatal(err)
	}
}
