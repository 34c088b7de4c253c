package proxy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// faultRows are the symptoms of public bug reports about proxies in front of
// language models, and the tests that keep this one from them. A test of another
// package has its folder before its name.
var faultRows = []struct {
	symptom string
	tests   []string
}{
	// disconnect and connection life
	{"the client left, the engine works on for minutes", []string{"TestClientGone", "BenchmarkClientGone"}},
	{"the same with many clients at once", []string{"TestClientsGoneTogether"}},
	{"an answer in one piece is never cancelled", []string{"TestClientGone", "BenchmarkClientGone"}},
	{"pipelined bytes hide the client's FIN", []string{"TestClientGoneBehindPipelined", "BenchmarkClientGone"}},
	{"a close during a read poisons pooled objects, other streams are corrupted", []string{"TestStress", "TestCancels"}},
	{"a double release panics", []string{"TestClosedTwice", "TestUnreadConnectionIsNotPooled"}},
	{"abandoned streams hold slots and goroutines", []string{"TestClientsGoneTogether", "TestStress", "TestCancels"}},
	{"a peer vanishes without FIN, goroutines leak", []string{"TestVanishedClient", "TestVanishedEngine", "TestWaitingClientStays"}},
	{"the pool outlives the engine's keep-alive: reset, 502", []string{"TestKeepAliveRace", "TestIdleCloseNoticed", "TestIdleExpires", "TestRetryStaleConnection"}},
	{"the connection's owner closes it before the stream was read", []string{"TestEmittedBodyIsNotOverwritten", "TestEngineFailsInAnswer"}},
	// truncation, retry, framing
	{"the engine dies in a body, an error text is appended, the end is clean", []string{"TestEngineFailsInAnswer", "TestTruncated"}},
	{"a reset becomes a finish reason and [DONE]", []string{"TestEngineFailsInAnswer", "TestTruncatedByReset"}},
	{"an error behind partial output is retried, a second bill", []string{"TestNoRetryBehindFirstByte", "TestMayRetry", "TestRetryNotAfterWork", "TestEngineRestart"}},
	{"Content-Length and chunked at once, or neither", []string{"TestFramings", "TestRefused"}},
	{"a stale Content-Length behind a rewrite", []string{"TestRewrittenLength"}},
	{"an empty write is the last chunk", []string{"TestEmptyWrites", "TestReplayObserve"}},
	{"a fast answer races the body of its request", []string{"TestEarlyAnswer"}},
	{"a newline in a chunk extension: smuggling", []string{"TestDechunk", "TestTruncated", "FuzzDechunk"}},
	{"WebSocket: header case, lost bytes", []string{"TestRelay", "TestRelayEarlyBytes"}},
	// events and usage
	{"events split over buffers lose usage", []string{"TestReplayObserve", "tap/TestEveryCut", "tap/FuzzCuts"}},
	{"CRLF, data: without a space", []string{"tap/TestSSEGrammar", "TestEngineAnswersOddly"}},
	{"comments are taken for data", []string{"tap/TestSSEGrammar", "TestCommentScanner", "TestEngineAnswersOddly", "TestEngineHangsWithComments"}},
	{"an event is longer than a scanner's buffer", []string{"tap/TestMegabyteEvent", "TestLargeEvent"}},
	{"asking for usage changes neighbouring events", []string{"TestReplayInjected", "TestReplayEveryStream", "TestCutEqualsUninjected", "FuzzCut"}},
	{"usage on an event with choices is dropped", []string{"tap/TestShapes", "tap/TestCapturesAgainstPlainReading"}},
	{"asking for usage joins events", []string{"TestEventAtOnce", "TestReplayEveryStream", "TestCutterPassesEarly"}},
	{"usage that only we asked for reaches the client, or is counted per event", []string{"TestReplayInjected", "TestReplayEveryStream", "tap/TestCapturesAgainstPlainReading"}},
	{"a zstd frame an event breaks decoders", []string{"TestCompressed"}},
	// buffering, timeouts, load
	{"an answer is buffered by 4 or 16 KB", []string{"TestEventAtOnce"}},
	{"limits of heads and reads cut long generations", []string{"TestNoLimitStrikes"}},
	{"a server's write limit cuts streams", []string{"TestNoLimitStrikes", "TestSlowClient"}},
	{"the load generator is the bottleneck", []string{"BenchmarkOverhead", "../cmd/spectap/TestForeignLoad"}},
}

// Every row has tests, and they exist.
func TestFaultRows(t *testing.T) {
	if len(faultRows) != 32 {
		t.Errorf("got %d rows, want 32", len(faultRows))
	}
	var names []string
	for n, row := range faultRows {
		if len(row.tests) == 0 {
			t.Errorf("row %d, %s: no test", n+1, row.symptom)
		}
		names = append(names, row.tests...)
	}
	testsExist(t, names...)
}

// testsExist checks names of tests, fuzz targets and benchmarks: of this package,
// or of another one with its folder before the name.
func testsExist(t *testing.T, names ...string) {
	t.Helper()
	folders := map[string]map[string]bool{}
	for _, name := range names {
		dir, function := path.Split(name)
		if folders[dir] == nil {
			folders[dir] = testsOf(t, filepath.FromSlash("./"+dir))
		}
		if !folders[dir][function] {
			t.Errorf("there is no %s", name)
		}
	}
}

// testsOf returns the tests, fuzz targets and benchmarks in a package's folder.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && f.Type.Params.NumFields() == 1 && (strings.HasPrefix(f.Name.Name, "Test") ||
				strings.HasPrefix(f.Name.Name, "Fuzz") || strings.HasPrefix(f.Name.Name, "Benchmark")) {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}
