package deploy

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserTimeout ends a browser that hangs, and every wait in it.
const browserTimeout = 2 * time.Minute

// browser is one tab of a headless Chromium with a profile of its own.
type browser struct {
	ctx context.Context

	mu       sync.Mutex
	requests []string // URLs that the page asked for
	messages []string // errors and warnings of the console
}

// watchScript runs before the page's own script: it keeps the streams that the
// page opens, and what the Content-Security-Policy refused.
const watchScript = `
window.watched = { streams: [], refused: [], data: '' };
window.EventSource = class extends EventSource {
	constructor(url) {
		super(url);
		watched.streams.push(this);
		this.addEventListener('message', e => { watched.data = e.data; });
	}
};
document.addEventListener('securitypolicyviolation', e => watched.refused.push(e.violatedDirective + ' ' + e.blockedURI));
`

func startBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(tool(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(context.Background(), browserTimeout)
	t.Cleanup(cancel)
	ctx, endAllocator := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(endAllocator)
	ctx, endBrowser := chromedp.NewContext(ctx)
	t.Cleanup(endBrowser)
	b := &browser{ctx: ctx}
	b.do(t, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tab, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchScript})
		return err
	}))
	console, asked := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	t.Cleanup(cancel)
	reading.Go(func() {
		for m, err := range console {
			if err == nil && m.Type != chromedp.ConsoleLog {
				b.note(&b.messages, string(m.Type)+": "+m.Text+" "+m.URL)
			}
		}
	})
	reading.Go(func() {
		for event, err := range asked {
			if err == nil {
				b.note(&b.requests, event.Request.URL)
			}
		}
	})
	return b
}

func (b *browser) note(list *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("cannot evaluate %s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true, looking again whenever the page changes.
func (b *browser) until(t *testing.T, expression string) {
	t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`new Promise(done => {
		const look = () => { if (`+expression+`) { watch.disconnect(); done(true); } };
		const watch = new MutationObserver(look);
		watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
		look();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		text, _ := chromedp.Run(context.WithoutCancel(b.ctx), chromedp.Evaluate[string](`document.body.innerText`))
		t.Fatalf("%s did not come true: %v; the page shows:\n%s", expression, err, text)
	}
}

// text returns the text of an element.
func (b *browser) text(t *testing.T, id string) string {
	t.Helper()
	return evaluate[string](t, b, `document.getElementById('`+id+`').textContent`)
}

// scheme sets what prefers-color-scheme says.
func (b *browser) scheme(t *testing.T, scheme string) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// clean fails the test where the page complained, was refused something, or
// asked anybody but the server at the URL.
func (b *browser) clean(t *testing.T, server string) {
	t.Helper()
	for _, refused := range evaluate[[]string](t, b, `watched.refused`) {
		t.Errorf("the Content-Security-Policy refused %s", refused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		t.Errorf("the console says %s", m)
	}
	if len(b.requests) < 2 {
		t.Errorf("got requests %q, want the page and its stream", b.requests)
	}
	want, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range b.requests {
		if u, err := url.Parse(asked); err != nil || u.Host != want.Host && !strings.HasPrefix(asked, "data:") {
			t.Errorf("the page asked for %s", asked)
		}
	}
}

// measure collects garbage and counts the page's nodes and the bytes of its script's heap.
func (b *browser) measure(t *testing.T) (nodes, heap int) {
	t.Helper()
	b.do(t, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tab, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		counted, err := cdp.Call(ctx, tab, memory.GetDOMCounters, cdp.Empty{})
		if err != nil {
			return err
		}
		used, err := cdp.Call(ctx, tab, runtime.GetHeapUsage, cdp.Empty{})
		nodes, heap = int(counted.Nodes), int(used.UsedSize)
		return err
	}))
	return nodes, heap
}
