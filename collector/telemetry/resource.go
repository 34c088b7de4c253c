package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// serviceName is service.name where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES do not say another.
const serviceName = "spectap"

// newResource describes this process: what the environment says wins over what
// is found. No cloud is asked. The command line is left out, which can hold
// credentials.
func newResource(cfg Config) (*resource.Resource, error) {
	found := []attribute.KeyValue{attribute.String("service.name", serviceName)}
	if cfg.Version != "" {
		found = append(found, attribute.String("service.version", cfg.Version))
	}
	if cfg.instance != "" {
		found = append(found, attribute.String("service.instance.id", cfg.instance))
	}
	for _, one := range []struct{ variable, key string }{
		{"POD_NAME", "k8s.pod.name"},
		{"POD_NAMESPACE", "k8s.namespace.name"},
		{"NODE_NAME", "k8s.node.name"},
	} {
		if value := cfg.Env[one.variable]; value != "" {
			found = append(found, attribute.String(one.key, value))
		}
	}
	s := &settings{env: cfg.Env}
	s.checkAttributes("OTEL_RESOURCE_ATTRIBUTES")
	if err := errors.Join(s.errs...); err != nil {
		return nil, err
	}
	res, err := resource.New(context.Background(),
		resource.WithAttributes(found...),
		resource.WithHost(),
		resource.WithContainerID(),
		resource.WithProcessPID(),
		resource.WithProcessExecutableName(),
		resource.WithProcessRuntimeName(),
		resource.WithProcessRuntimeVersion(),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) { // what a container hides is left out
		return nil, fmt.Errorf("cannot describe this process: %w", err)
	}
	return res, nil
}

// newInstance makes a service.instance.id: a random UUID of version 4, as the
// conventions recommend. Without one, the counters that several proxies of one
// service push are one series to a backend.
func newInstance() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// checkAttributes reads a list of key=value with values percent-encoded.
func (s *settings) checkAttributes(name string) {
	value := s.get(name)
	if value == "" {
		return
	}
	for pair := range strings.SplitSeq(value, ",") {
		key, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(key) == "" {
			s.refuse(name, value, "key=value,key=value with values percent-encoded")
			return
		}
	}
}
