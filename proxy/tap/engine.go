package tap

import "bytes"

// How sure a mark is, best first (wire-formats-engines.md 4.5).
const (
	markStatistics = iota
	markExtension
	markFinish
	markBuild
	markNone
)

// mark notes a sign of an engine; the surest one counts, the first of equals.
func (t *Tap) mark(engine string, sureness int) {
	if sureness < t.engineMark {
		t.engine, t.engineMark = engine, sureness
	}
}

// markFingerprint reads system_fingerprint: "vllm-<version>...", or llama.cpp's "b<build>-<commit>".
func (t *Tap) markFingerprint(raw []byte) {
	v := bytes.Trim(raw, `"`)
	if bytes.HasPrefix(v, []byte("vllm-")) {
		t.mark("vllm", markBuild)
		return
	}
	dash := bytes.IndexByte(v, '-')
	if len(v) > 2 && v[0] == 'b' && dash > 1 && dash < len(v)-1 {
		if _, ok := natural(v[1:dash]); ok {
			t.mark("llamacpp", markBuild)
		}
	}
}
