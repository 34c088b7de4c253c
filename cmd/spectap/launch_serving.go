package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"

	"spectap/sweep"
)

// serving is a server to start, and what its command line says of it.
type serving struct {
	argv   []string
	listen string // the address to be free, host:port; the host may be empty
	url    string // where it will answer
	apiKey string // that it asks for; "": none
	gpus   int    // that it is spread over; 0: the command line does not say
	drafts sweep.Speculation
	note   string // what the user should know; "": nothing
}

// portMark stands for a free port in the command line of a server that is not
// started as vLLM is.
const portMark = "{port}"

// statisticsFlag makes vLLM (0.29.0 or later) report each request's acceptance.
const statisticsFlag = "--per-request-spec-decode-metrics"

// newServing completes a server's command line: program are the words that stand
// for "vllm serve", typed the arguments, which stay as they are. wantStatistics:
// the sweep needs the server's report on each request.
func newServing(program, typed []string, env map[string]string, wantStatistics bool) (*serving, error) {
	if strings.Contains(strings.Join(program, "\x00"), portMark) {
		return anyServing(program, typed)
	}
	all := parseOptions(typed)
	if file, ok := all.get("config"); ok && file.value() != "" {
		inFile, err := readOptionFile(file.value())
		if err != nil {
			return nil, err
		}
		all = append(inFile, all...)
	}
	for _, name := range []string{"uds", "headless", "grpc"} {
		if _, ok := all.get(name); ok {
			return nil, fmt.Errorf("cannot use the server's --%s: want a server that answers HTTP on a port", name)
		}
	}
	s := &serving{argv: append([]string(nil), program...), gpus: all.gpus(), drafts: all.speculation(), apiKey: env["VLLM_API_KEY"]}
	if key, ok := all.get("api-key"); ok && key.value() != "" {
		s.apiKey = key.value()
	}
	_, named := all.get("model")
	if positional := len(typed) > 0 && !isOption(typed[0]); !positional && !named {
		model := env["HF_MODEL_CKPT"]
		if model == "" {
			return nil, errors.New("no model to serve: name it first, as in spectap launch MODEL ... -- ..., or set HF_MODEL_CKPT")
		}
		s.argv = append(s.argv, model)
	}
	s.argv = append(s.argv, typed...)
	s.addStatistics(all, wantStatistics)
	return s, s.addAddress(all)
}

// anyServing is a server that is started otherwise than vLLM: only its port is filled in.
func anyServing(program, typed []string) (*serving, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &serving{listen: net.JoinHostPort("127.0.0.1", port)}
	s.url = "http://" + s.listen
	for _, word := range program {
		s.argv = append(s.argv, strings.ReplaceAll(word, portMark, port))
	}
	s.argv = append(s.argv, typed...)
	return s, nil
}

// addStatistics asks for the report on each request, where the server can give one.
func (s *serving) addStatistics(all options, want bool) {
	_, given := all.get(strings.TrimPrefix(statisticsFlag, "--"))
	switch {
	case given || !want:
	case all.speculates():
		s.argv = append(s.argv, statisticsFlag, "summary")
	default:
		s.note = "the server's arguments have no --speculative-config, without which it refuses " + statisticsFlag +
			": it was not added (where the checkpoint brings its own drafter, add it yourself; to measure without drafts, sweep with --no_spec_stats)"
	}
}

// addAddress finds where the server will listen. Where no port is given it gets
// a free one, which nobody else knows, and then listens on loopback only; with
// a port given, no host means all addresses, as with vllm serve.
func (s *serving) addAddress(all options) error {
	given, hasPort := all.get("port")
	host, hasHost := all.get("host")
	port := given.value()
	if !hasPort {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
		s.argv = append(s.argv, "--port", port)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("cannot use the server's --port %q: want a number of 1 to 65535", port)
	}
	at := host.value()
	if !hasPort && !hasHost {
		at = "127.0.0.1"
		s.argv = append(s.argv, "--host", at)
	}
	s.listen = net.JoinHostPort(at, port)
	switch at {
	case "", "None", "0.0.0.0":
		at = "127.0.0.1"
		s.listen = net.JoinHostPort("0.0.0.0", port)
	case "::":
		at = "::1"
	}
	scheme := "http://"
	if _, ok := all.get("ssl-certfile"); ok {
		scheme = "https://"
	}
	s.url = scheme + net.JoinHostPort(at, port)
	return nil
}

// gpus is the product of the sizes over which vLLM spreads a model.
func (all options) gpus() int {
	product := 1
	for _, names := range [][2]string{
		{"tensor-parallel-size", "-tp"}, {"pipeline-parallel-size", "-pp"},
		{"prefill-context-parallel-size", "-pcp"}, {"data-parallel-size", "-dp"},
	} {
		size, ok := all.get(names[0])
		if short, isShort := all.get(names[1]); isShort {
			size, ok = short, true
		}
		if n, err := strconv.Atoi(size.value()); ok && err == nil && n > 0 {
			product *= n
		}
	}
	return product
}

// freePort returns a port that nobody listens on. It is below the range from
// which Linux gives ports to outgoing connections: a server may take half a
// minute to listen on it.
func freePort() (string, error) {
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(32768-20000))
		if l, err := net.Listen("tcp4", "0.0.0.0:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("cannot find a free port for the server: give it one with --port")
}

// checkFree refuses an address that somebody listens on: the server would end,
// or share it, and the sweep would measure another one.
func (s *serving) checkFree() error {
	l, err := net.Listen("tcp", s.listen)
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot start the server on %s: another process listens there; give it another --port, or leave --port out for a free one", s.listen)
	}
	return nil // the server will tell what it does not like
}
