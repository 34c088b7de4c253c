package tap

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSkipValue(t *testing.T) {
	f := func(in string, valid bool) {
		t.Helper()
		end, err := SkipValue([]byte(in), 0)
		if got := err == nil && end == len(in); got != valid {
			t.Errorf("SkipValue(%.40q): got end %d, error %v; want valid %v", in, end, err, valid)
		}
	}
	f(`{"a":[1,-2.5e+3,{"b":null}],"c":"x\"}"}`, true)
	f(`{ "a" : [ ] , "b" : { } }`, true)
	f(`[1,2,]`, false)                                                    // trailing comma
	f(`[1 2]`, false)                                                     // no comma
	f(`{"a":1]`, false)                                                   // mismatched bracket
	f(`{"a"}`, false)                                                     // no value
	f(`[NaN]`, false)                                                     // not JSON
	f(`01`, false)                                                        // leading zero
	f(`"open`, false)                                                     // no closing quote
	f(`{"a":1,"b":[1,2`, false)                                           // truncated
	f(strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000), true)    // no recursion
	f(strings.Repeat("[", 200_000)+strings.Repeat("]", 199_999), false)   // one bracket short
	f(strings.Repeat(`{"a":`, 99)+"1"+strings.Repeat("}", 99), true)      // deep objects
	f(strings.Repeat(`{"a":`, 99)+"1"+strings.Repeat("}", 98)+"]", false) // deep, wrong end
	f(`{"a":1,}`, false)
	f(`[,]`, false)
}

func FuzzSkipValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"c"}]}`, `[]`, `"x\\"`, `-0.5E-7`, `nul`, `[1,]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := SkipValue(b, 0)
		if json.Valid(b) && len(b) == len(strings.TrimLeft(string(b), " \t\r\n")) {
			if rest := Space(b, end); err != nil || rest != len(b) {
				t.Fatalf("SkipValue(%q): got end %d of %d, error %v; encoding/json takes it", b, end, len(b), err)
			}
		}
		if err == nil && end > len(b) {
			t.Fatalf("SkipValue(%q): end %d beyond %d", b, end, len(b))
		}
	})
}
