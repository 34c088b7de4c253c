package proxy

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

// Words that are no content, and headers that can hold credentials, are refused by name.
func TestCaptureWords(t *testing.T) {
	f := func(list, word, wanted string) {
		t.Helper()
		cfg := testConfig(t, "http://h:1")
		cfg.Capture = list
		err := cfg.Validate()
		if word == "" {
			if err != nil {
				t.Errorf("%q: %v", list, err)
			}
			return
		}
		if want := `cannot use SPECTAP_CAPTURE (--capture) "` + word + `": ` + wanted; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", list, err, want)
		}
	}
	const words, name, never = "want a list of prompt", "want header: and the name", "this header can hold a credential"
	f("", "", "")
	f("prompt, reply reasoning,,header:X-Tenant", "", "")
	f("prompt,texts", "texts", words)
	f("Prompt", "Prompt", words)
	f("header", "header", words)
	f("header:", "header:", name)
	f("header:a:b", "header:a:b", name)
	for _, secret := range []string{"Authorization", "proxy-authorization", "COOKIE", "Set-Cookie", "X-Api-Key", "x-amz-security-token",
		"X-Forwarded-Client-Cert", "X-Client-Secret", "X-Password", "X-JWT-Assertion", "X-Hub-Signature",
		"X-Bearer", "X-Passwd", "X-Proxy-Pwd", "X-Passphrase", "X-Session-Id", "X-CSRF", "X-XSRF-Id", "X-OTP", "X-Content-Hmac", "X-SAML-Response"} {
		f("header:"+secret, "header:"+secret, never)
	}
	cfg := testConfig(t, "http://h:1")
	cfg.CaptureBytes = 0
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), `SPECTAP_CAPTURE_BYTES (--capture_bytes) "0"`) {
		t.Errorf("got %v, want the size refused", err)
	}
}

// Capturing warns loudly, and says so where it captures into nothing.
func TestCaptureWarnings(t *testing.T) {
	f := func(list, records string, want int) {
		t.Helper()
		cfg := testConfig(t, "http://h:1")
		cfg.Capture, cfg.Records = list, records
		w := cfg.Warnings()
		if len(w) != want || want > 0 && (!strings.Contains(w[0], "PRIVATE CONTENT IS KEPT") || !strings.Contains(w[0], strings.ToLower(list))) {
			t.Errorf("%q into %q: got %q, want %d warnings", list, records, w, want)
		}
	}
	f("", "", 0)
	f("prompt, header:x-a", "r.jsonl", 1)
	f("reply", "", 2)
	f("header:X-A", "", 1) // spans have it
}

// A Record has what the list names and nothing else, each value cut at the end
// of a character.
func TestCapture(t *testing.T) {
	up := answering(t, func(*http.Request) string {
		return streamHead + chunk(strings.Replace(tokenEvent("REPLY€€"), `"content"`, `"reasoning":"THOUGHT","content"`, 1)) + chunk(finishEvent+doneEvent) + lastChunk
	})
	type texts struct{ Prompt, Reply, Reasoning string }
	f := func(list string, limit int, want texts, headers map[string]string, cuts ...string) {
		t.Helper()
		cfg := testConfig(t, upstreamOf(up))
		cfg.Capture, cfg.CaptureBytes = list, limit
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, `{"model":"m","messages":[{"role":"system","content":"SYSTEM"},{"role":"user","content":"PROMPT"}],"stream":true}`,
			"X-Tenant: a\xff", "x-tenant: TENANT", "X-Other: OTHER"))
		body(t, c.answer("POST"))
		rec := p.recs.next(t)
		if d := cmp.Diff(want, texts{rec.Prompt, rec.Reply, rec.Reasoning}) + cmp.Diff(headers, rec.Headers); d != "" {
			t.Errorf("%q, %d bytes (-want +got):\n%s", list, limit, d)
		}
		warnings := strings.Join(rec.Warnings, "\n")
		for _, cut := range cuts {
			contains(t, warnings, "the captured "+cut+" bytes (SPECTAP_CAPTURE_BYTES)")
		}
		if len(rec.Warnings) != len(cuts) {
			t.Errorf("%q, %d bytes: got warnings %q, want %d", list, limit, rec.Warnings, len(cuts))
		}
	}
	f("", 4096, texts{}, nil)
	f("prompt", 4096, texts{Prompt: "PROMPT"}, nil)
	f("reply", 4096, texts{Reply: "REPLY€€"}, nil)
	f("reasoning", 4096, texts{Reasoning: "THOUGHT"}, nil)
	f("header:X-TENANT,header:x-absent", 4096, texts{}, map[string]string{"x-tenant": "a\uFFFD, TENANT"})
	f("prompt,reply,reasoning,header:x-other", 10, texts{"PROMPT", "REPLY€", "THOUGHT"}, map[string]string{"x-other": "OTHER"}, "reply was cut from 11 to 8")
	f("prompt,reply,header:x-tenant", 3, texts{Prompt: "PRO", Reply: "REP"}, map[string]string{"x-tenant": "a"},
		"prompt was cut from 6 to 3", "reply was cut from 11 to 3", "header x-tenant was cut from 12 to 1")
	f("prompt", 6, texts{Prompt: "PROMPT"}, nil)
}

// Whole texts are for sinks in this process, and no limit cuts them.
func TestKeepTexts(t *testing.T) {
	up := answering(t, func(*http.Request) string {
		return streamHead + chunk(tokenEvent("REPLY")+finishEvent+doneEvent) + lastChunk
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.KeepTexts, cfg.CaptureBytes = true, 1
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	body(t, c.answer("POST"))
	if rec := p.recs.next(t); rec.Prompt != "hi" || rec.Reply != "REPLY" || len(rec.Warnings) != 0 {
		t.Errorf("got %q, %q, %q", rec.Prompt, rec.Reply, rec.Warnings)
	}
}

// What a text is cut to is always UTF-8 of at most the limit, and its beginning.
func FuzzCaptureCut(f *testing.F) {
	f.Add("a€😀", 3)
	f.Add("\x80\x80\x80\x80\x80", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 1 {
			return
		}
		got := captures{limit: limit}.cut(&collector.Record{}, "text", text)
		if len(got) > limit || !strings.HasPrefix(text, got) || utf8.ValidString(text) && (!utf8.ValidString(got) || len(text) > limit && limit-len(got) > 3) {
			t.Errorf("%q cut to %d bytes: %q", text, limit, got)
		}
	})
}
