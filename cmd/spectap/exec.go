package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"spectap/collector"
	"spectap/sweep"
)

func (p program) execCommand() *cobra.Command {
	f := &execFlags{}
	c := &cobra.Command{
		Use:   "exec --url http://host:port --save_dir D [flags] -- COMMAND [ARGUMENTS]",
		Short: "run any client through the proxy and write the files of its point",
		Long: `exec starts the measuring proxy on a free local port and runs COMMAND. {url} in
its arguments is replaced by the proxy's http://127.0.0.1:PORT; OPENAI_BASE_URL
and OPENAI_API_BASE (with /v1) and SPECTAP_URL (without) are set. Streams, signals
and exit code are the command's own; what spectap says goes to stderr. Afterwards
the conversations are recognised and the point's files are written.
Exit code: the command's; 1 if it ended well and the measurement is incomplete.`,
		RunE: func(c *cobra.Command, args []string) error {
			e, err := f.read(p, c, args)
			if err != nil {
				code := exitUsage
				if missing := (exitError{}); errors.As(err, &missing) {
					code = missing.code
				}
				return exitError{code, err}
			}
			return e.run(c.Context())
		},
	}
	f.add(c.Flags())
	return c
}

// execution is a command to run, its proxy and its point, all checked.
type execution struct {
	p        program
	cfg      proxySettings
	point    *sweep.Foreign
	private  bool // there is no question file: hashes serve this process alone
	noReport bool
	path     string
	argv     []string
	log      zerolog.Logger
}

// run does everything, from waiting for the server to the point's files.
func (e *execution) run(ctx context.Context) error {
	direct := &http.Transport{DisableCompression: true}
	defer direct.CloseIdleConnections()
	engine, err := e.point.Open(ctx, &http.Client{Transport: direct}, e.p.stderr, isTerminal(e.p.stderr), e.log)
	if err != nil {
		return exitError{sweep.ExitCode(sweep.Result{}, err), err}
	}
	if e.cfg.proxy.Engine == "auto" && engine != "" {
		e.cfg.proxy.Engine = engine
	}
	kept := &keep{}
	t, err := e.openTap(collector.Tee{kept, e.point})
	if err != nil {
		return exitError{exitFailed, errors.Join(err, e.point.Discard())}
	}
	ended, err := e.p.runCommand(ctx, command{path: e.path, argv: fillURL(e.argv, t.url), env: clientEnvironment(e.p.env, t.url)})
	err = errors.Join(err, t.Close())
	if err != nil && !ended.started {
		return exitError{ended.code, errors.Join(err, e.point.Discard())}
	}
	return e.conclude(ended, kept.records(), t.url, err)
}

// keep is a Sink that keeps all Records in the order in which they are completed.
type keep struct {
	mu  sync.Mutex
	all []*collector.Record
}

// Emit implements collector.Sink.
func (k *keep) Emit(r *collector.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, r)
}

// Close implements collector.Sink.
func (k *keep) Close() error { return nil }

func (k *keep) records() []*collector.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

// tapped is the proxy that a command asks in place of the server.
type tapped struct {
	url     string
	watched *watched
	admin   *http.Server
	served  chan error
}

// openTap serves the proxy on a free port of loopback, and its admin port where
// one is wanted.
func (e *execution) openTap(sink collector.Sink) (*tapped, error) {
	cfg := e.cfg.proxy
	w, err := e.p.watch(cfg, e.cfg.telemetry, sink, e.log)
	if err != nil {
		return nil, err
	}
	if e.private {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails (crypto/rand)
		w.server.KeyHashes(key)
	}
	t := &tapped{watched: w, served: make(chan error, 1)}
	admin, err := listenAdmin(cfg.Admin)
	if err != nil {
		t.served <- nil
		return nil, errors.Join(err, t.Close())
	}
	if admin != nil {
		t.admin = adminServer(w.admin(e.cfg.admin), e.log)
	}
	data, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.served <- nil
		return nil, errors.Join(fmt.Errorf("cannot listen on loopback: %w", err), t.Close())
	}
	w.listen = dataAddress(data.Addr()) // before the page is served, which shows it
	t.url = "http://" + w.listen
	go func() { t.served <- w.server.Serve(data) }()
	if admin != nil {
		go func() { _ = t.admin.Serve(admin) }() // its end is Close
	}
	return t, nil
}

// drainAfter is how long requests may go on after the command has ended: those of
// a process that it left behind, and answers whose end is still on its way.
const drainAfter = 2 * time.Second

// Close ends the proxy; all Records are complete then.
func (t *tapped) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainAfter)
	defer cancel()
	err := t.watched.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // they were cut
	}
	err = errors.Join(err, <-t.served, t.watched.close())
	if t.admin != nil {
		err = errors.Join(err, t.admin.Close())
	}
	return err
}
