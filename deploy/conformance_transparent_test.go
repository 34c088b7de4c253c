package deploy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	directTwice      = 2  // direct answers before the first through spectap
	transparentMost  = 4  // pairs of answers until one is equal
	transparentShare = 12 // of so many cases at least one is a measured stream, or they no longer inject
)

// transparentModes are the modes in which the requests pass, with the members
// that the record of a streamed request then says were injected.
var transparentModes = []string{"observe", "usage", "tokens"}

// Each request to a real vLLM has the same answer directly and through spectap,
// in each mode: what a stream is asked for beyond the client's wish is gone again.
func TestConformanceTransparent(t *testing.T) {
	k := openKit(t)
	f := func(drafts string, cases []transparentCase, more ...string) {
		t.Helper()
		t.Run(drafts, func(t *testing.T) {
			server := k.serve(t, drafts, more...)
			server.transparent(t, cases)
		})
	}
	f("ngram", append(generations(), routes()...), "--api-key", transparentKey, "--per-request-spec-decode-metrics", "detailed",
		"--enable-auto-tool-choice", "--tool-call-parser", "hermes")
	draft := among(append(generations(), routes()...), "plain", "n=2 greedy", "stop string", "unicode", "min_p", "usage", "options", "counts", "no messages", "CORS", "X-Request-Id", "GET /v1/models")
	draft = slices.DeleteFunc(draft, func(c transparentCase) bool { // several choices need a temperature, and with a draft model this build's texts are then others each time
		return strings.Contains(c.name, "n=2") && !strings.Contains(c.name, "greedy")
	})
	f("draft", draft, "--per-request-spec-decode-metrics", "summary",
		"--enable-request-id-headers", "--enable-prompt-tokens-details",
		"--allowed-origins", `["http://page.test"]`)
}

// among keeps the cases whose name has one of the parts.
func among(cases []transparentCase, parts ...string) []transparentCase {
	return slices.DeleteFunc(cases, func(c transparentCase) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(c.name, part) })
	})
}

// transparentSums count the comparisons of a mode.
type transparentSums struct {
	equal, late, joined, different int
	chunksDirect, chunksThrough    int
	splits                         int
}

// transparent compares each case in each mode.
func (s realServer) transparent(t *testing.T, cases []transparentCase) {
	proxies := map[string]*proxyProcess{}
	paths := map[string]string{}
	sums := map[string]*transparentSums{}
	for _, mode := range transparentModes {
		paths[mode] = filepath.Join(t.TempDir(), "records.jsonl")
		proxies[mode] = startProxy(t, nil, s.url, "--measure", mode, "--records", paths[mode])
		proxies[mode].printed(t, `engine detected()`)
		sums[mode] = &transparentSums{}
	}
	ran := 0 // -run may choose
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ran++
			direct := &answers{t: t, c: c, address: strings.TrimPrefix(s.url, "http://")}
			for range directTwice {
				direct.ask()
			}
			for _, mode := range transparentModes {
				through := &answers{t: t, c: c, address: strings.TrimPrefix(proxies[mode].URL, "http://")}
				sums[mode].add(t, mode, direct, through)
			}
		})
	}
	for _, mode := range transparentModes {
		proxies[mode].stop(t)
		t.Logf("%-7s %+v", mode, *sums[mode])
		compareInjected(t, mode, paths[mode], max(1, ran/transparentShare))
	}
}

// answers are those of one address to one case.
type answers struct {
	t       *testing.T
	c       transparentCase
	address string
	last    rawAnswer
	all     []whole
}

func (a *answers) ask() whole {
	a.t.Helper()
	got, err := a.c.request.exchange(a.address)
	if err != nil {
		a.t.Errorf("%s: %v", a.address, err)
	}
	a.last = got
	w := got.whole(a.c)
	a.all = append(a.all, w)
	return w
}

// steady says that all answers were the same.
func (a *answers) steady() bool {
	return !slices.ContainsFunc(a.all, func(w whole) bool { return w.difference(a.all[0]) != "" })
}

// has says that one of the answers was w, as it is told by the function.
func (a *answers) has(w whole, told func(whole) whole) bool {
	return slices.ContainsFunc(a.all, func(v whole) bool { return told(v).difference(told(w)) == "" })
}

func asItIs(w whole) whole { return w }

// add compares an answer through spectap with the direct ones. The server itself
// does not answer each time the same, so there are several tries.
func (s *transparentSums) add(t *testing.T, mode string, direct, through *answers) {
	t.Helper()
	for try := range transparentMost {
		if try > 0 {
			direct.ask()
		}
		w := through.ask()
		if !direct.has(w, asItIs) {
			continue
		}
		if s.equal++; try > 0 {
			s.late++
			t.Logf("%s: equal at try %d; the direct answers were steady: %v", mode, try+1, direct.steady())
		}
		s.chunksDirect += len(direct.last.chunks)
		s.chunksThrough += len(through.last.chunks)
		s.splits += through.last.splits()
		return
	}
	if !direct.steady() && direct.has(through.all[0], whole.joined) {
		s.joined++
		t.Logf("%s: equal only with texts joined; the direct answers differed, too", mode)
		return
	}
	s.different++
	t.Errorf("%s: %s", mode, direct.all[len(direct.all)-1].difference(through.all[0]))
}

// compareInjected: what was compared was asked for, and the records have it.
func compareInjected(t *testing.T, mode, path string, least int) {
	t.Helper()
	injected, usages, blocks := 0, 0, 0
	for _, r := range readRealRecords(t, path) {
		if !slices.Contains(r.Injected, "stream_options") {
			continue
		}
		injected++
		if r.Completion > 0 {
			usages++
		}
		if r.Spec != nil {
			blocks++
		}
	}
	t.Logf("%-7s %d streams asked for more, %d of them brought usage, %d statistics", mode, injected, usages, blocks)
	if wanted := mode != "observe"; wanted != (injected >= least && usages >= least && blocks >= least) || !wanted && injected > 0 {
		t.Errorf("mode %s: want at least %d of each, and none in mode observe", mode, least)
	}
}
