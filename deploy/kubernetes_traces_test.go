package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The OpenTelemetry Collector's pipelines name what there is, and its Service,
// ports and probes are those that its configuration listens on.
func TestKubernetesCollector(t *testing.T) {
	m := kustomize(t, "otel-collector")
	var config struct {
		Receivers map[string]struct {
			Protocols map[string]struct{ Endpoint string }
		}
		Processors, Exporters map[string]any
		Extensions            map[string]struct{ Endpoint string }
		Service               struct {
			Extensions []string
			Pipelines  map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	if err := yaml.UnmarshalStrict([]byte(m.configMaps[0].Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	for name, p := range config.Service.Pipelines {
		for _, r := range p.Receivers {
			if _, ok := config.Receivers[r]; !ok {
				t.Errorf("pipeline %s: no receiver %s", name, r)
			}
		}
		for _, each := range p.Processors {
			if _, ok := config.Processors[each]; !ok {
				t.Errorf("pipeline %s: no processor %s", name, each)
			}
		}
		for _, each := range p.Exporters {
			if _, ok := config.Exporters[each]; !ok {
				t.Errorf("pipeline %s: no exporter %s", name, each)
			}
		}
	}
	for name := range config.Exporters {
		if kind, _, _ := strings.Cut(name, "/"); kind == "otlp" || kind == "otlphttp" {
			t.Errorf("exporter %s: the collector has called it otlp_grpc or otlp_http since 0.144.0, and warns of the old name", name)
		}
	}
	if len(config.Service.Pipelines) != 2 {
		t.Errorf("got pipelines %v, want traces and metrics", config.Service.Pipelines)
	}
	pod := m.deployments[0].Spec.Template.Spec
	c := pod.Containers[0]
	hasVolumes(t, pod, c)
	otlp := config.Receivers["otlp"].Protocols
	for name, endpoint := range map[string]string{"otlp-grpc": otlp["grpc"].Endpoint, "otlp-http": otlp["http"].Endpoint, "health": config.Extensions["health_check"].Endpoint} {
		if got := fmt.Sprintf("0.0.0.0:%d", portNamed(c, name)); got != endpoint {
			t.Errorf("got port %s of the container for %s, the configuration listens on %s", got, name, endpoint)
		}
	}
	for _, p := range m.services[0].Spec.Ports {
		if portNamed(c, p.TargetPort.StrVal) != p.Port {
			t.Errorf("got port %+v of the Service", p)
		}
	}
	if c.Args[0] != "--config="+c.VolumeMounts[0].MountPath+"/config.yaml" || pod.Volumes[0].ConfigMap.Name != m.configMaps[0].Name {
		t.Errorf("got args %q, want the configuration of ConfigMap %s at %s", c.Args, m.configMaps[0].Name, c.VolumeMounts[0].MountPath)
	}
}

// With the traces component both send their spans to the collector's Service.
func TestKubernetesTraces(t *testing.T) {
	m := kustomize(t, "vllm-spectap-traces")
	var to, endpoint string
	for _, s := range m.services {
		if s.Name == "otel-collector" {
			to = fmt.Sprintf("http://%s:%d", s.Name, s.Spec.Ports[0].Port)
		}
	}
	for _, d := range m.deployments {
		if d.Name != "vllm" {
			continue
		}
		pod := d.Spec.Template.Spec
		endpoint = environmentOf(pod.InitContainers[0])["OTEL_EXPORTER_OTLP_ENDPOINT"]
		if !slices.Contains(pod.Containers[0].Args, "--otlp-traces-endpoint="+to) || environmentOf(pod.Containers[0])["OTEL_SERVICE_NAME"] != "vllm" {
			t.Errorf("got args %q of the engine, want its spans at %s", pod.Containers[0].Args, to)
		}
	}
	if to == "" || endpoint != to {
		t.Errorf("got endpoint %q of spectap, the collector's Service is %q", endpoint, to)
	}
	if len(m.podMonitors) != 1 || len(m.deployments) != 2 {
		t.Errorf("got %d PodMonitors and %d Deployments, want 1 and 2", len(m.podMonitors), len(m.deployments))
	}
}
