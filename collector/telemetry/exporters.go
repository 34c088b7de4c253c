package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/rs/zerolog"
)

// signal is what is exported, spelled as in the standard variables.
type signal string

const (
	signalTraces  signal = "TRACES"
	signalMetrics signal = "METRICS"
)

// exporterKind is one way out of the process.
type exporterKind string

const (
	exportGRPC       exporterKind = "otlp grpc"
	exportHTTP       exporterKind = "otlp http" // protobuf or JSON: the exporter reads OTEL_EXPORTER_OTLP_PROTOCOL itself
	exportConsole    exporterKind = "console"
	exportPrometheus exporterKind = "prometheus" // pulled at the admin port; metrics only
)

// exporter is one way out that the standard variables ask for.
type exporter struct {
	kind     exporterKind
	endpoint string // for people to read: without userinfo and query; empty where it is not OTLP
}

// String implements fmt.Stringer.
func (e exporter) String() string { return strings.TrimSpace(string(e.kind) + " " + e.endpoint) }

// exporters says by which ways a signal leaves; none means that it is off. The
// error names every variable that cannot be used. Where OTEL_<signal>_EXPORTER
// is unset, OTLP is on if there is an endpoint: a tool that dials
// localhost:4318 unasked is a nuisance. Metrics are at the admin port as well.
//
// A signal uses it so, and makes the exporter without options where the SDK
// reads the variable itself (endpoint, headers, TLS, timeout, compression):
//
//	ways, err := exporters(cfg.Env, signalMetrics)
//	for _, way := range ways {
//		switch way.kind {
//		case exportGRPC: otlpmetricgrpc.New(ctx)
//		case exportHTTP: otlpmetrichttp.New(ctx)
//		...
//		}
//	}
//	logExporters(cfg.Log, signalMetrics, ways)
func exporters(env map[string]string, of signal) ([]exporter, error) {
	if sdkDisabled(env) {
		return nil, nil
	}
	s := &settings{env: env}
	endpoint := s.endpoint("OTEL_EXPORTER_OTLP_"+string(of)+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	var out []exporter
	for _, name := range s.exporterNames(of, endpoint != nil) {
		switch name {
		case "otlp":
			out = append(out, s.otlp(of, endpoint))
		case "console":
			out = append(out, exporter{kind: exportConsole})
		case "prometheus":
			out = append(out, exporter{kind: exportPrometheus})
		}
	}
	return out, errors.Join(s.errs...)
}

// exporterNames reads OTEL_<signal>_EXPORTER, a list.
func (s *settings) exporterNames(of signal, hasEndpoint bool) []string {
	allowed := []string{"otlp", "console", "none"}
	var names []string
	if of == signalMetrics {
		allowed = append(allowed, "prometheus")
		names = append(names, "prometheus")
	}
	if hasEndpoint {
		names = append(names, "otlp")
	}
	name := "OTEL_" + string(of) + "_EXPORTER"
	value := s.get(name)
	if value == "" {
		return names
	}
	names = nil
	for one := range strings.SplitSeq(value, ",") {
		part := &settings{env: map[string]string{name: one}}
		if word := part.word(name, "none", allowed...); word != "none" {
			names = append(names, word)
		}
		s.errs = append(s.errs, part.errs...)
	}
	return names
}

// otlp chooses the protocol. Kubernetes charts for vLLM (production-stack,
// llm-d, KServe) set an endpoint with port 4317 and no protocol, which is gRPC's
// by convention; Go's default of http/protobuf would lose every span there.
func (s *settings) otlp(of signal, endpoint *url.URL) exporter {
	prefix := "OTEL_EXPORTER_OTLP_"
	own, shared := prefix+string(of)+"_", prefix
	s.checkOTLP(own, shared)
	name, _ := s.first(own+"PROTOCOL", shared+"PROTOCOL")
	e := exporter{kind: exportHTTP}
	plain := endpoint != nil && (endpoint.Scheme == "http" || endpoint.Scheme == "https")
	switch s.word(name, "", "grpc", "http/protobuf", "http/json") {
	case "grpc":
		e.kind = exportGRPC
	case "":
		if endpoint != nil && (plain && endpoint.Port() == "4317" || endpoint.Opaque == "4317" || endpoint.Scheme == "unix") {
			e.kind = exportGRPC
		}
	}
	if endpoint == nil {
		e.endpoint = map[exporterKind]string{exportGRPC: "localhost:4317", exportHTTP: "localhost:4318"}[e.kind]
		return e
	}
	e.endpoint = publicURL(endpoint.String())
	if e.kind == exportHTTP && !plain || plain && endpoint.Host == "" {
		name, _ = s.first(own+"ENDPOINT", shared+"ENDPOINT")
		s.refuse(name, e.endpoint, "http:// or https:// and a host, or OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	}
	return e
}

// checkOTLP refuses what the SDK would replace by a default.
func (s *settings) checkOTLP(prefixes ...string) {
	for _, prefix := range prefixes {
		s.count(prefix+"TIMEOUT", 0, 0)
		s.word(prefix+"COMPRESSION", "", "gzip", "none")
		s.word(prefix+"INSECURE", "", "true", "false")
		s.checkHeaders(prefix + "HEADERS")
		s.checkTLS(prefix)
	}
}

// checkHeaders reads a list of key=value. Its text is secret and in no error.
func (s *settings) checkHeaders(name string) {
	value := s.get(name)
	if value == "" {
		return
	}
	for header := range strings.SplitSeq(value, ",") {
		key, value, ok := strings.Cut(header, "=")
		_, err := url.PathUnescape(value)
		if key = strings.TrimSpace(key); !ok || err != nil || key == "" || strings.ContainsFunc(key, notToken) {
			s.errs = append(s.errs, errors.New("cannot use "+name+" (its value is not shown): want key=value,key=value with values percent-encoded"))
			return
		}
	}
}

// notToken reports whether a character cannot stand in a header's name (RFC 9110 section 5.6.2).
func notToken(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
}

// checkTLS reads the files that the exporter will read.
func (s *settings) checkTLS(prefix string) {
	if file := s.get(prefix + "CERTIFICATE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil || !x509.NewCertPool().AppendCertsFromPEM(text) {
			s.refuse(prefix+"CERTIFICATE", file, "a readable file of PEM certificates")
		}
	}
	cert, key := s.get(prefix+"CLIENT_CERTIFICATE"), s.get(prefix+"CLIENT_KEY")
	if cert == "" && key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		s.refuse(prefix+"CLIENT_CERTIFICATE", cert, "a readable PEM certificate, and its key in "+prefix+"CLIENT_KEY")
	}
}

// logExporters says once how a signal leaves.
func logExporters(log zerolog.Logger, of signal, ways []exporter) {
	for _, way := range ways {
		log.Info().Str("signal", strings.ToLower(string(of))).Str("exporter", string(way.kind)).
			Str("endpoint", way.endpoint).Msg("exporting telemetry")
	}
}
