package proxy

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"

	"spectap/collector"
)

// runOverheadRelay passes bytes on without HTTP: one goroutine and one buffer of
// 4 KiB for each direction. It is the floor for a proxy in Go.
func runOverheadRelay(r overheadRole) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			down, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				up, err := net.Dial("tcp", r.Upstream)
				if err != nil {
					_ = down.Close()
					return
				}
				go relay(up, down)
				relay(down, up)
			}()
		}
	}()
	return obey(r, ln.Addr().String(), ln.Close)
}

// relay copies until one side closes. io.Copy would use splice(2), which costs more at this size.
func relay(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// fourKiB gives ReverseProxy smaller buffers than its own of 32 KiB.
type fourKiB struct{ pool sync.Pool }

func (p *fourKiB) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 4<<10)
}

func (p *fourKiB) Put(b []byte) { p.pool.Put(&b) }

// runOverheadNetHTTP is the standard library's proxy with settings that suit streams.
func runOverheadNetHTTP(r overheadRole) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	to := &url.URL{Scheme: "http", Host: r.Upstream}
	rp := &httputil.ReverseProxy{
		Rewrite:       func(pr *httputil.ProxyRequest) { pr.SetURL(to) },
		FlushInterval: -1,
		BufferPool:    new(fourKiB),
		ErrorLog:      log.New(os.Stderr, "nethttp: ", 0),
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1 << 16,
			IdleConnTimeout:     3 * time.Second,
			DisableCompression:  true,
		},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // go-proxy.md 2.5
		rp.ServeHTTP(w, req)
	})}
	go func() { _ = server.Serve(ln) }()
	return obey(r, ln.Addr().String(), server.Close)
}

// runOverheadProxy is this proxy as spectap proxy runs it, with records in a file.
func runOverheadProxy(r overheadRole) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(GCPercent)
	}
	var cfg Config
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		return err
	}
	cfg.Upstream, cfg.Measure, cfg.Engine, cfg.Records = "http://"+r.Upstream, r.Measure, "vllm", r.Records
	sink, err := collector.OpenJSONL(r.Records)
	if err != nil {
		return err
	}
	s, err := New(cfg, sink, zerolog.New(os.Stderr).Level(zerolog.WarnLevel))
	if err != nil {
		return err
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = s.Serve(ln) }()
	return obey(r, ln.Addr().String(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(s.Shutdown(ctx), sink.Close())
	})
}
