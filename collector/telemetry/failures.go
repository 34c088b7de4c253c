package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// quietFor is the least time between two warnings of failed exports.
const quietFor = time.Minute

// failures tells of failed exports: every one is counted by who exports, one a
// minute is logged. An error's text stays out of both, because a collector's
// answer and the endpoint's URL can stand in it.
type failures struct {
	log    zerolog.Logger
	signal signal

	mu     sync.Mutex
	last   string // kind of the last failure
	logged time.Time
	count  uint64 // since the last warning
}

func (f *failures) report(err error) { f.reportAt(err, time.Now()) }

func (f *failures) reportAt(err error, now time.Time) {
	kind := failureKind(err)
	f.mu.Lock()
	f.last = kind
	f.count++
	count, quiet := f.count, !f.logged.IsZero() && now.Sub(f.logged) < quietFor
	if !quiet {
		f.logged, f.count = now, 0
	}
	f.mu.Unlock()
	if !quiet {
		f.log.Warn().Str("signal", string(f.signal)).Str("kind", kind).Uint64("failures", count).
			Msg("cannot export telemetry; requests go on")
	}
}

// lastKind is the kind of the last failure, "" before the first.
func (f *failures) lastKind() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// errPanicked is the error of an export that panicked. What it panicked with can
// hold what passes, and is dropped.
var errPanicked = errors.New("the exporter panicked")

// guarded runs an export. It runs on a goroutine of telemetry's own, where a panic
// would end the process and all requests with it.
func guarded(export func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return export()
}

// partialSuccess finds the number in the exporters' "OTLP partial success: ... (2 spans rejected)".
var partialSuccess = regexp.MustCompile(`OTLP partial success: [\s\S]* \((\d+) [a-z ]+ rejected\)`)

// rejected returns how many items a collector refused of a batch that it took otherwise.
func rejected(err error) (n uint64, partial bool) {
	if err == nil {
		return 0, false
	}
	found := partialSuccess.FindStringSubmatch(err.Error())
	if found == nil {
		return 0, false
	}
	n, parseErr := strconv.ParseUint(found[1], 10, 64)
	return n, parseErr == nil
}

// failureKind says in words of ours why an export failed.
func failureKind(err error) string {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	if _, partial := rejected(err); partial {
		return "the collector refused a part"
	}
	switch {
	case errors.Is(err, errPanicked):
		return errPanicked.Error()
	case errors.As(err, &untrusted), errors.As(err, &plain):
		return "TLS"
	case errors.Is(err, context.Canceled):
		return "cut at the end"
	case strings.Contains(err.Error(), "retry-able request failure: body: "):
		return "the collector is busy"
	}
	return exportFailure(err)
}
