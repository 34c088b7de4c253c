package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// No Docker engine runs here: the files of deploy/compose are loaded by Compose's
// own loader, which checks them against its schema, and the services' commands run
// with their settings as processes. Images, volumes, networks and a GPU are not tested.

// composed loads a file of deploy/compose as docker compose does with COMPOSE_PROFILES.
func composed(t testing.TB, file, profiles string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join("compose", file)}, cli.WithResolvedPaths(true),
		cli.WithEnv([]string{"COMPOSE_PROFILES=" + profiles}), cli.WithDefaultProfiles())
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("cannot load %s: %v", file, err)
	}
	return project
}

// composeFiles are the projects and the engine's service in each.
var composeFiles = map[string]string{"demo.yaml": "fakevllm", "vllm.yaml": "vllm"}

const observability = "observability"

var observers = []string{"grafana", "jaeger", "otel-collector", "prometheus"}

// composeTelemetry are OpenTelemetry's variables, of which TestComposeRuns sees the effect.
var composeTelemetry = []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_METRICS_EXPORTER", "OTEL_SERVICE_NAME"}

// valueOf returns a variable of a service; empty where there is none.
func valueOf(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// publishes lists a service's ports as [address:]published:target.
func publishes(s types.ServiceConfig) (list []string) {
	for _, p := range s.Ports {
		list = append(list, strings.TrimPrefix(fmt.Sprintf("%s:%s:%d", p.HostIP, p.Published, p.Target), ":"))
	}
	return list
}

// Without the profile there are spectap and the engine and no spans go anywhere;
// with it the four others, and spans go to the collector.
func TestComposeProfiles(t *testing.T) {
	for file, engine := range composeFiles {
		alone, all := composed(t, file, ""), composed(t, file, observability)
		want := []string{engine, "spectap"}
		slices.Sort(want)
		if got := alone.ServiceNames(); !slices.Equal(got, want) {
			t.Errorf("%s: got services %q without a profile, want %q", file, got, want)
		}
		want = append(want, observers...)
		slices.Sort(want)
		if got := all.ServiceNames(); !slices.Equal(got, want) {
			t.Errorf("%s: got services %q with %s, want %q", file, got, observability, want)
		}
		for _, name := range observers {
			if got := all.Services[name].Profiles; !slices.Equal(got, []string{observability}) {
				t.Errorf("%s: got profiles %q of %s", file, got, name)
			}
		}
		const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
		if off, on := valueOf(alone.Services["spectap"], endpoint), valueOf(all.Services["spectap"], endpoint); off != "" || on != "http://otel-collector:4317" {
			t.Errorf("%s: got %s %q without and %q with the collector", file, endpoint, off, on)
		}
		for name, s := range all.Services {
			composeMounts(t, all, name, s)
			if s.Build == nil && !regexp.MustCompile(`:v?[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(s.Image) {
				t.Errorf("%s: got image %s of %s, want a version", file, s.Image, name)
			}
			for _, p := range publishes(s) {
				if !strings.HasPrefix(p, "127.0.0.1:") && p != "8000:8000" {
					t.Errorf("%s: %s publishes %s to other machines", file, name, p)
				}
			}
		}
	}
}

// composeMounts checks that what a service mounts is there, and where its context is.
func composeMounts(t *testing.T, project *types.Project, name string, s types.ServiceConfig) {
	t.Helper()
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeVolume {
			if _, ok := project.Volumes[v.Source]; !ok {
				t.Errorf("%s: %s is no volume of the project", name, v.Source)
			}
			continue
		}
		if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
			t.Errorf("%s: mounts %s, read only %v: %v", name, v.Source, v.ReadOnly, err)
		}
	}
	if s.Build != nil {
		if _, err := os.Stat(filepath.Join(s.Build.Context, "Dockerfile")); err != nil {
			t.Errorf("%s: got context %s: %v", name, s.Build.Context, err)
		}
	}
}

// spectap has settings that exist, listens on the ports that are published, finds
// the engine, which publishes none, and does not wait for it to be healthy.
func TestComposeSpectap(t *testing.T) {
	settings := proxySettings(t)
	for file, engine := range composeFiles {
		project := composed(t, file, observability)
		s, e := project.Services["spectap"], project.Services[engine]
		for name := range s.Environment {
			_, known := settings[name]
			if known = known || slices.Contains(composeTelemetry, name) || name == "GOMEMLIMIT"; !known {
				t.Errorf("%s: %s is no setting of spectap proxy", file, name)
			}
		}
		for _, name := range []string{"SPECTAP_LISTEN", "SPECTAP_ADMIN"} {
			if got := valueOf(s, name); got != settings[name] {
				t.Errorf("%s: got %s %q, want the default %q, which the image exposes and its health check asks", file, name, got, settings[name])
			}
		}
		if got, want := publishes(s), map[string][]string{"demo.yaml": {"127.0.0.1:8000:8000", "127.0.0.1:9464:9464"}, "vllm.yaml": {"8000:8000", "127.0.0.1:9464:9464"}}[file]; !slices.Equal(got, want) {
			t.Errorf("%s: got ports %q, want %q", file, got, want)
		}
		if got := publishes(e); len(got) > 0 {
			t.Errorf("%s: the engine publishes %q", file, got)
		}
		if got := s.DependsOn[engine].Condition; got != types.ServiceConditionStarted {
			t.Errorf("%s: got condition %q, want %s", file, got, types.ServiceConditionStarted)
		}
		if h := s.HealthCheck; h == nil || !slices.Equal([]string(h.Test), []string{"CMD", "/spectap", "healthcheck"}) {
			t.Errorf("%s: got health check %+v", file, h)
		}
		names := []string{engine}
		if n := e.Networks["default"]; n != nil {
			names = append(names, n.Aliases...)
		}
		if valueOf(s, "SPECTAP_UPSTREAM") != "http://vllm:8000" || !slices.Contains(names, "vllm") {
			t.Errorf("%s: got upstream %s, the engine is called %q", file, valueOf(s, "SPECTAP_UPSTREAM"), names)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.SecurityOpt) != 1 {
			t.Errorf("%s: spectap may more than it needs", file)
		}
	}
}

// The GPU, the health check that gives a model time, and limits that fit each other.
func TestComposeVLLM(t *testing.T) {
	project := composed(t, "vllm.yaml", "")
	e, s := project.Services["vllm"], project.Services["spectap"]
	if e.Deploy == nil || e.Deploy.Resources.Reservations == nil || len(e.Deploy.Resources.Reservations.Devices) != 1 {
		t.Fatalf("got %+v, want one reserved GPU", e.Deploy)
	}
	if d := e.Deploy.Resources.Reservations.Devices[0]; d.Driver != "nvidia" || d.Count != 1 || !slices.Equal(d.Capabilities, []string{"gpu"}) {
		t.Errorf("got device %+v", d)
	}
	if h := e.HealthCheck; h == nil || time.Duration(*h.StartPeriod) != 15*time.Minute || !strings.Contains(strings.Join(h.Test, " "), "http://127.0.0.1:8000/health'") {
		t.Errorf("got health check %+v", h)
	}
	if len(e.Command) == 0 || strings.HasPrefix(e.Command[0], "-") { // what vllm serve, the entry point, wants
		t.Errorf("got command %q, want the model first", e.Command)
	}
	for _, want := range []string{"--port=8000", "--per-request-spec-decode-metrics=summary"} {
		if !slices.Contains([]string(e.Command), want) {
			t.Errorf("got command %q, want %s in it", e.Command, want)
		}
	}
	const records = 5 * time.Second // that a slow disk may take at the end
	drain, err := time.ParseDuration(valueOf(s, "SPECTAP_DRAIN_TIMEOUT"))
	if err != nil || s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= drain+records {
		t.Errorf("got a grace of %v, want more than %v + %v (%v)", s.StopGracePeriod, drain, records, err)
	}
	var held, size, keep int64
	fmt.Sscanf(valueOf(s, "GOMEMLIMIT"), "%dMiB", &held)
	fmt.Sscan(valueOf(s, "SPECTAP_RECORDS_MAX_BYTES"), &size)
	fmt.Sscan(valueOf(s, "SPECTAP_RECORDS_KEEP"), &keep)
	if held == 0 || held<<20 >= int64(s.MemLimit) || s.CPUS != 0 || size == 0 || keep == 0 {
		t.Errorf("got GOMEMLIMIT %d MiB of %d bytes, CPUs %v, %d files of %d bytes", held, s.MemLimit, s.CPUS, keep+1, size)
	}
	// The volume's folder is one that the image has and its user may write to.
	folder := filepath.Dir(valueOf(s, "SPECTAP_RECORDS"))
	if len(s.Volumes) != 1 || s.Volumes[0].Target != folder || !strings.Contains(string(read(t, "../Dockerfile")), "--chmod=1777 /out/tmp "+folder+"\n") {
		t.Errorf("got volumes %+v, want one at %s, which the Dockerfile makes writable", s.Volumes, folder)
	}
}

// Prometheus takes its file, which names the services' ports; Grafana's data source
// is that Prometheus, and its dashboards are where its provider looks.
func TestComposePrometheusAndGrafana(t *testing.T) {
	runIn(t, ".", nil, tool(t, "promtool"), "check", "config", "compose/prometheus.yml")
	var config struct {
		Global         struct{ Scrape_interval string }
		Scrape_configs []struct {
			Static_configs []struct{ Targets []string }
		}
	}
	if err := yaml.Unmarshal(read(t, "compose/prometheus.yml"), &config); err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, c := range config.Scrape_configs {
		targets = append(targets, c.Static_configs[0].Targets...)
	}
	project := composed(t, "vllm.yaml", observability)
	if s := project.Services["spectap"]; !slices.Equal(targets, []string{"spectap" + valueOf(s, "SPECTAP_ADMIN"), strings.TrimPrefix(valueOf(s, "SPECTAP_UPSTREAM"), "http://")}) {
		t.Errorf("got targets %q, want spectap's admin port and the engine", targets)
	}
	at := map[string]string{}
	g := project.Services["grafana"]
	for _, v := range append(g.Volumes, project.Services["prometheus"].Volumes...) {
		at[v.Target] = v.Source
	}
	var sources struct {
		Datasources []struct {
			JSONData struct{ TimeInterval string }
		}
	}
	provisioning := at["/etc/grafana/provisioning"]
	if err := yaml.Unmarshal(read(t, provisioning, "datasources", "prometheus.yaml"), &sources); err != nil {
		t.Fatal(err)
	}
	if got := sources.Datasources[0].JSONData.TimeInterval; got != config.Global.Scrape_interval || valueOf(g, "PROMETHEUS_URL") != "http://prometheus:9090" {
		t.Errorf("got interval %s and URL %s of the data source, Prometheus scrapes each %s", got, valueOf(g, "PROMETHEUS_URL"), config.Global.Scrape_interval)
	}
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	if err := yaml.Unmarshal(read(t, provisioning, "dashboards", "spectap.yaml"), &providers); err != nil {
		t.Fatal(err)
	}
	home := valueOf(g, "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH")
	if path := providers.Providers[0].Options.Path; filepath.Dir(home) != path || len(read(t, at[path], filepath.Base(home))) == 0 || at["/etc/prometheus/prometheus.yml"] == "" {
		t.Errorf("got dashboards at %s, home %s, mounts %q", path, home, at)
	}
}

// The collector takes spans where spectap and the engine send them, and passes
// them on to the service jaeger.
func TestComposeCollector(t *testing.T) {
	project := composed(t, "demo.yaml", observability)
	var config struct {
		Receivers map[string]struct {
			Protocols map[string]struct{ Endpoint string }
		}
		Processors map[string]any
		Exporters  map[string]struct{ Endpoint string }
		Service    struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	c := project.Services["otel-collector"]
	if err := yaml.Unmarshal(read(t, c.Volumes[0].Source), &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal([]string(c.Command), []string{"--config=" + c.Volumes[0].Target}) {
		t.Errorf("got command %q, the configuration is at %s", c.Command, c.Volumes[0].Target)
	}
	p := config.Service.Pipelines["traces"]
	if !slices.Equal(p.Receivers, []string{"otlp"}) || !slices.Equal(p.Exporters, []string{"otlp_grpc/jaeger"}) || config.Exporters["otlp_grpc/jaeger"].Endpoint != "jaeger:4317" {
		t.Errorf("got pipeline %+v to %+v", p, config.Exporters)
	}
	for _, name := range p.Processors {
		if _, ok := config.Processors[name]; !ok {
			t.Errorf("no processor %s", name)
		}
	}
	otlp := config.Receivers["otlp"].Protocols
	if otlp["grpc"].Endpoint != "0.0.0.0:4317" || otlp["http"].Endpoint != "0.0.0.0:4318" || valueOf(project.Services["spectap"], "OTEL_EXPORTER_OTLP_ENDPOINT") != "http://otel-collector:4317" ||
		!slices.Contains([]string(project.Services["fakevllm"].Command), "--otlp_traces_endpoint=http://otel-collector:4318/v1/traces") {
		t.Errorf("got receivers %+v, spectap and the engine send elsewhere", otlp)
	}
}
