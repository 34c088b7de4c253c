package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// A server that says yes to everything is no S3 server: nothing was uploaded.
func TestUploadBelievesNoAnswer(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "<html><body>Console</body></html>")
	}))
	defer page.Close()
	p := scan(t, folder(t, map[string]string{"t0_c1/configuration.json": provenance}))
	got, err := p.Upload(context.Background(), Bucket{Endpoint: page.URL, Region: "us-east-1", KeyID: "AKIDCANARY", Secret: "SECRETCANARY"}, false, io.Discard)
	if err == nil || got.Uploaded != 0 || !strings.Contains(err.Error(), "as if SPECDEC_BENCH_S3_ENDPOINT were not that of an S3 server") {
		t.Errorf("got %+v, %v; want that nothing was uploaded", got, err)
	}
}

// A bucket that encrypts has ETags of its own: the checksum that went with the
// object counts. One that lost it is told.
func TestUploadToEncryptingBucket(t *testing.T) {
	s := newServer(t)
	p := scan(t, folder(t, map[string]string{"t0_c1/configuration.json": provenance}))
	s.answer = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		return otherETag{w}
	}
	if got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard); err != nil || got.Uploaded != 1 {
		t.Errorf("got %+v, %v; want 1 file", got, err)
	}
	if got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard); err != nil || got.Kept != 1 {
		t.Errorf("got %+v, %v; want 1 file that is there", got, err)
	}
}

// otherETag answers with an ETag that is no MD5 of the object.
type otherETag struct{ http.ResponseWriter }

func (o otherETag) WriteHeader(code int) {
	if o.Header().Get("ETag") != "" {
		o.Header().Set("ETag", `"00000000000000000000000000000000"`)
	}
	o.ResponseWriter.WriteHeader(code)
}

func (o otherETag) Write(b []byte) (int, error) {
	if o.Header().Get("ETag") != "" {
		o.Header().Set("ETag", `"00000000000000000000000000000000"`)
	}
	return o.ResponseWriter.Write(b)
}

// A file that changes between the comparison and the upload, its size the same, is
// not uploaded.
func TestUploadOfChangedFile(t *testing.T) {
	s := newServer(t)
	p := scan(t, folder(t, map[string]string{"t0_c1/configuration.json": provenance, "t0_c1/a.json": "1"}))
	s.answer = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "a.json") {
			path := p.Runs[0].Files[1].Path
			if err := errors.Join(os.WriteFile(path, []byte(strings.ToUpper(provenance)), 0o666), os.Chtimes(path, time.Time{}, time.Unix(1, 0))); err != nil {
				t.Error(err)
			}
		}
		return w
	}
	got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard)
	if err == nil || got.Uploaded != 1 || !strings.Contains(err.Error(), "configuration.json") {
		t.Errorf("got %+v, %v; want that configuration.json has changed", got, err)
	}
}

// A server that takes nothing more is given up, and the next upload goes on.
func TestUploadStalls(t *testing.T) {
	s := newServer(t)
	s.Patience = 200 * time.Millisecond
	release := make(chan struct{})
	s.fail = func(put int64, _ http.ResponseWriter, r *http.Request) bool {
		if put < 2 {
			return false
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	}
	defer close(release)
	big := strings.Repeat("0123456789abcdef", 1<<19) // 8 MiB: more than the sockets hold
	p := scan(t, folder(t, map[string]string{"t0_c1/a.json": "1", "t0_c1/b.jsonl": big, "t0_c1/configuration.json": provenance}))
	got, err := p.Upload(context.Background(), s.Bucket, false, io.Discard)
	if err == nil || got.Uploaded != 1 || !strings.Contains(err.Error(), "no byte went over for 200ms") {
		t.Errorf("got %+v, %v; want that the server takes nothing", got, err)
	}
}

// What a server refuses is told with the setting to look at.
func TestUploadHints(t *testing.T) {
	p := scan(t, folder(t, map[string]string{"t0_c1/configuration.json": provenance}))
	f := func(code, want string) {
		t.Helper()
		refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no AKIDCANARY with SECRETCANARY</Message></Error>", code)
		}))
		defer refuses.Close()
		b := Bucket{Endpoint: refuses.URL, Region: "us-east-1", KeyID: "AKIDCANARY", Secret: "SECRETCANARY"}
		_, err := p.Upload(context.Background(), b, false, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: got %v, want %q in it, and no credential", code, err, want)
		}
	}
	f("SignatureDoesNotMatch", "look at SPECDEC_BENCH_S3_KEY_ID")
	f("AuthorizationHeaderMalformed", "look at --region")
	f("Other", "no [redacted] with [redacted]")
	_, err := p.Upload(context.Background(), Bucket{Endpoint: "http://127.0.0.1:1", Region: "us-east-1", KeyID: "AKIDCANARY", Secret: "SECRETCANARY"}, false, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "look at SPECDEC_BENCH_S3_ENDPOINT") {
		t.Errorf("got %v, want the endpoint named", err)
	}
}
