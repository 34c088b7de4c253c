package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"spectap/collector"
	"spectap/collector/telemetry"
	"spectap/proxy"
)

func (p program) proxyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "proxy",
		Short: "stand in front of an LLM server and measure every request",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var cfg proxySettings
			if err := errors.Join(cfg.parse(p.env, c.Flags()), cfg.proxy.Validate(), cfg.telemetry.Validate()); err != nil {
				return exitError{exitUsage, err}
			}
			return p.serve(c.Context(), cfg)
		},
	}
	for _, each := range new(proxySettings).all() {
		addSettings(c.Flags(), each)
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(p.stdout, "%s\n\nUsage:\n  spectap proxy [flags]\n\nFlags (environment variable, unit, default); a flag wins over its variable:\n", c.Short)
		for _, each := range new(proxySettings).all() {
			printSettings(p.stdout, each)
		}
	})
	return c
}

// proxySettings are all settings of the command, each in the struct of the package that it configures.
type proxySettings struct {
	proxy     proxy.Config
	telemetry telemetry.Config
	admin     adminConfig
}

// all lists the structs, in the order of --help and the README.
func (c *proxySettings) all() []any { return []any{&c.proxy, &c.telemetry, &c.admin} }

// parse fills all structs and reports all bad values.
func (c *proxySettings) parse(environ map[string]string, flags *pflag.FlagSet) error {
	var errs []error
	for _, each := range c.all() {
		errs = append(errs, parseSettings(environ, flags, each))
	}
	return errors.Join(errs...)
}

// serve runs the proxy and its admin port until the context ends, then drains.
func (p program) serve(ctx context.Context, cfg proxySettings) error {
	log := newLogger(p.stderr, cfg.proxy.LogLevel, cfg.proxy.LogFormat)
	if p.env["GOGC"] == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(proxy.GCPercent))
	}
	for _, text := range cfg.proxy.Warnings() {
		log.Warn().Str("setting", text).Msg("a setting may hurt")
	}
	for _, name := range unknownVariables(p.env, cfg.all()) {
		log.Warn().Str("variable", name).Msg("a variable is no setting of spectap proxy: misspelt?")
	}
	sink, err := recordsSink(cfg.proxy, log)
	if err != nil {
		return exitError{exitUsage, err}
	}
	w, err := p.watch(cfg.proxy, cfg.telemetry, sink, log)
	if err != nil {
		return exitError{exitUsage, errors.Join(err, sink.Close())}
	}
	data, err := proxy.Listen(cfg.proxy.Listen)
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("cannot listen for clients: %w; choose another SPECTAP_LISTEN (--listen)", err)}
	}
	admin, err := listenAdmin(cfg.proxy.Admin)
	if err != nil {
		return exitError{exitUsage, errors.Join(err, data.Close())}
	}
	log.Info().Stringer("listen", data.Addr()).Str("admin", addressOf(admin)).Str("upstream", collector.StripUserinfo(cfg.proxy.Upstream)).Str("measure", cfg.proxy.Measure).Msg("proxy is listening")
	w.listen = dataAddress(data.Addr())
	stopReopening := reopenOnHangup(sink, cfg.proxy.Records, log)
	grace, cut := context.WithCancel(context.Background())
	defer cut()
	defer p.last.soften(cut)() // a second signal ends the drain time; what was measured is still written
	err = serveUntil(ctx, grace, w.server, adminServer(w.admin(cfg.admin), log), data, admin, cfg.proxy.DrainTimeout)
	stopReopening()
	err = errors.Join(err, closeRecords(sink), w.close())
	if err != nil {
		return exitError{exitFailed, err}
	}
	log.Info().Msg("proxy has drained")
	return nil
}

// listenAdmin opens the admin port; none if it is turned off.
func listenAdmin(address string) (net.Listener, error) {
	if address == "" || address == "off" {
		return nil, nil
	}
	admin, err := proxy.Listen(address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the admin port: %w; choose another SPECTAP_ADMIN (--admin), or turn it off", err)
	}
	return admin, nil
}

// addressOf is the address of a listener, for the log.
func addressOf(l net.Listener) string {
	if l == nil {
		return "off"
	}
	return l.Addr().String()
}

// dataAddress is where clients connect, as --listen spells it.
func dataAddress(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// serveUntil serves both ports until the context ends or one of them fails.
// Draining ends with drain, or with grace. Without an admin port, admin is nil. The
// admin port goes last, so that /readyz says that the proxy is draining.
func serveUntil(ctx, grace context.Context, server *proxy.Server, adminServer *http.Server, data, admin net.Listener, drain time.Duration) error {
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(data) }()
	if admin != nil {
		go func() { failed <- adminServer.Serve(admin) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("cannot serve: %w", err)
	}
	grace, cancel := context.WithTimeout(grace, drain)
	defer cancel()
	if stopped := server.Shutdown(grace); stopped != nil && !errors.Is(stopped, context.DeadlineExceeded) && !errors.Is(stopped, context.Canceled) {
		err = errors.Join(err, stopped)
	}
	return errors.Join(err, adminServer.Close())
}

// recordsSink opens the records file, if there is one. A disk that fails later
// stops no request: it is logged once, and /status counts what is lost.
func recordsSink(cfg proxy.Config, log zerolog.Logger) (collector.Sink, error) {
	if cfg.Records == "" {
		return collector.Tee{}, nil
	}
	sink, err := collector.OpenJSONL(cfg.Records)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another SPECTAP_RECORDS (--records)", err)
	}
	sink.Rotation = collector.Rotation{MaxBytes: cfg.RecordsMaxBytes, Keep: cfg.RecordsKeep}
	sink.Patience = recordsPatience
	sink.KeepTexts = cfg.Capture != "" // a Record has nothing but what is captured
	if err := sink.WriteRun(collector.Run{ID: newRunID(time.Now()), Measure: cfg.Measure}); err != nil {
		_ = sink.Close() // says the same
		return nil, fmt.Errorf("cannot write to the records file: %w; choose another SPECTAP_RECORDS (--records)", err)
	}
	sink.Failed = func(err error) {
		log.Error().Err(err).Str("records", cfg.Records).Msg("the records file fails; /status counts what is lost in sink_drops_total")
	}
	return sink, nil
}

// recordsPatience is how long a records file may take no line before it is given up at the end.
const recordsPatience = 5 * time.Second

// closeRecords writes what is queued, and says how many Records the file lacks.
func closeRecords(sink collector.Sink) error {
	closed := sink.Close()
	lost := uint64(0)
	if counted, ok := sink.(interface{ Dropped() uint64 }); ok {
		lost = counted.Dropped()
	}
	switch {
	case closed != nil:
		return fmt.Errorf("cannot write all records, %d are lost: %w", lost, closed)
	case lost > 0:
		return fmt.Errorf("cannot write all records, %d are lost: the disk was slower than the requests", lost)
	}
	return nil
}

// newLogger logs JSON lines, or readable ones on a terminal.
func newLogger(w io.Writer, level, format string) zerolog.Logger {
	log := zerolog.New(w)
	if format == "console" || format != "json" && isTerminal(w) {
		log = zerolog.New(zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly})
	}
	parsed, err := zerolog.ParseLevel(strings.ToLower(level))
	if err != nil || level == "" {
		parsed = zerolog.InfoLevel
	}
	return log.Level(parsed).With().Timestamp().Logger()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
