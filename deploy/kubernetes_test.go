package deploy

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// No cluster runs here: what is built from deploy/kubernetes is decoded with the
// types of the API, so a field that does not exist or has the wrong type is found,
// and the containers' commands run with their settings as processes. What the
// kubelet and the controllers make of it is not tested.

// manifests are the objects of one folder of deploy/kubernetes.
type manifests struct {
	deployments     []apps.Deployment
	jobs            []batch.Job
	services        []core.Service
	claims          []core.PersistentVolumeClaim
	configMaps      []core.ConfigMap
	podMonitors     []monitoring.PodMonitor
	serviceMonitors []monitoring.ServiceMonitor
}

// kustomize builds a folder and decodes all of its objects strictly.
func kustomize(t testing.TB, folder string) manifests {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("kubernetes", folder))
	if err != nil {
		t.Fatalf("cannot build %s: %v", folder, err)
	}
	var m manifests
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch r.GetKind() {
		case "Deployment":
			decode(t, text, &m.deployments)
		case "Job":
			decode(t, text, &m.jobs)
		case "Service":
			decode(t, text, &m.services)
		case "PersistentVolumeClaim":
			decode(t, text, &m.claims)
		case "ConfigMap":
			decode(t, text, &m.configMaps)
		case "PodMonitor":
			decode(t, text, &m.podMonitors)
		case "ServiceMonitor":
			decode(t, text, &m.serviceMonitors)
		default:
			t.Fatalf("%s has an object of kind %q: want a type to decode it with", folder, r.GetKind())
		}
	}
	return m
}

func decode[T any](t testing.TB, text []byte, list *[]T) {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	*list = append(*list, object)
}

// sidecar returns the Pod of the example with spectap, its sidecar and the engine.
func sidecar(t testing.TB) (pod core.PodSpec, spectap, engine core.Container) {
	t.Helper()
	m := kustomize(t, "vllm-spectap")
	if len(m.deployments) != 1 {
		t.Fatalf("got %d Deployments, want 1", len(m.deployments))
	}
	pod = m.deployments[0].Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("got %d init containers and %d containers, want one each", len(pod.InitContainers), len(pod.Containers))
	}
	return pod, pod.InitContainers[0], pod.Containers[0]
}

// environmentOf returns the values of a container's variables; those that the
// kubelet fills in have the name of what they refer to.
func environmentOf(c core.Container) map[string]string {
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
		switch from := v.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil:
			env[v.Name] = from.FieldRef.FieldPath
		case from.ResourceFieldRef != nil:
			env[v.Name] = from.ResourceFieldRef.Resource
		}
	}
	return env
}

// portNamed returns the number of a container's port.
func portNamed(c core.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// proxySettings are the variables of spectap and their defaults, as spectap proxy --help has them.
func proxySettings(t testing.TB) map[string]string {
	t.Helper()
	program := command(t, "spectap") // built here, where no other test was before
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "proxy", "--help").Output()
	if err != nil {
		t.Fatalf("cannot run spectap proxy --help: %v", err)
	}
	settings := map[string]string{}
	for _, found := range regexp.MustCompile(`\((SPECTAP_[A-Z_]+)(?:,.*?)?(?:, default (.*))?\)\n`).FindAllSubmatch(out, -1) {
		settings[string(found[1])] = string(found[2])
	}
	if len(settings) < 30 || settings["SPECTAP_LISTEN"] != ":8000" {
		t.Fatalf("got settings %v: cannot read the help", settings)
	}
	return settings
}

// The sidecar is a native one, on the ports of spectap's defaults, and its probes
// ask what they should: nothing waits for the model that the model waits for.
func TestKubernetesSidecar(t *testing.T) {
	pod, spectap, engine := sidecar(t)
	if spectap.RestartPolicy == nil || *spectap.RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Errorf("got restart policy %v, want Always: without it the Pod waits for spectap to end", spectap.RestartPolicy)
	}
	settings, env := proxySettings(t), environmentOf(spectap)
	for name := range env {
		if _, known := settings[name]; strings.HasPrefix(name, "SPECTAP_") && !known {
			t.Errorf("%s is no setting of spectap proxy", name)
		}
	}
	for _, name := range []string{"SPECTAP_LISTEN", "SPECTAP_UPSTREAM", "SPECTAP_ADMIN"} {
		if env[name] != settings[name] {
			t.Errorf("got %s %q, want the default %q", name, env[name], settings[name])
		}
	}
	if http, admin := portNamed(spectap, "http"), portNamed(spectap, "spectap-admin"); fmt.Sprintf(":%d", http) != env["SPECTAP_LISTEN"] || fmt.Sprintf(":%d", admin) != env["SPECTAP_ADMIN"] {
		t.Errorf("got ports %d and %d, spectap listens on %s and %s", http, admin, env["SPECTAP_LISTEN"], env["SPECTAP_ADMIN"])
	}
	for _, probe := range []struct {
		name string
		got  *core.Probe
		path string
	}{{"startup", spectap.StartupProbe, "/livez"}, {"liveness", spectap.LivenessProbe, "/livez"}, {"readiness", spectap.ReadinessProbe, "/readyz"}} {
		if probe.got == nil || probe.got.HTTPGet == nil || probe.got.HTTPGet.Path != probe.path || probe.got.HTTPGet.Port.StrVal != "spectap-admin" {
			t.Errorf("got %s probe %+v, want %s of the admin port", probe.name, probe.got, probe.path)
		}
	}
	if len(spectap.Args) != 1 || spectap.Args[0] != "proxy" {
		t.Errorf("got args %q, want proxy", spectap.Args)
	}
	moved(t, engine, env["SPECTAP_UPSTREAM"])
	hasVolumes(t, pod, spectap)
	for _, c := range pod.Containers {
		for _, p := range c.Ports {
			if p.ContainerPort == portNamed(spectap, "http") || p.Name == "http" {
				t.Errorf("container %s still has port %s %d of spectap", c.Name, p.Name, p.ContainerPort)
			}
		}
	}
}

// moved checks that the engine listens where spectap looks for it, and is probed there.
func moved(t *testing.T, engine core.Container, upstream string) {
	t.Helper()
	var ports []string
	for _, arg := range engine.Args {
		if port, ok := strings.CutPrefix(arg, "--port="); ok {
			ports = append(ports, port)
		}
	}
	if len(ports) == 0 || "http://127.0.0.1:"+ports[len(ports)-1] != upstream {
		t.Errorf("got --port %q, of which the last counts; spectap's upstream is %s", ports, upstream)
	}
	if got := fmt.Sprint(portNamed(engine, "engine")); got != ports[len(ports)-1] || len(engine.Ports) != 1 {
		t.Errorf("got ports %+v of the engine, want its --port alone", engine.Ports)
	}
	for name, probe := range map[string]*core.Probe{"startup": engine.StartupProbe, "liveness": engine.LivenessProbe, "readiness": engine.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/health" || probe.HTTPGet.Port.StrVal != "engine" {
			t.Errorf("got %s probe %+v of the engine, want /health of its own port", name, probe)
		}
	}
	if !slices.Contains(engine.Args, "--per-request-spec-decode-metrics=summary") {
		t.Errorf("got args %q: want the statistics of each request", engine.Args)
	}
}

// hasVolumes checks that each mount has its volume.
func hasVolumes(t *testing.T, pod core.PodSpec, c core.Container) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("container %s mounts %q, which is no volume of the Pod", c.Name, m.Name)
		}
	}
}

// The Pod's grace covers what runs in it one after another, and the records fit
// on their volume, the memory limit above what Go is held to.
func TestKubernetesLimits(t *testing.T) {
	pod, spectap, engine := sidecar(t)
	env := environmentOf(spectap)
	drain, err := time.ParseDuration(env["SPECTAP_DRAIN_TIMEOUT"])
	if err != nil {
		t.Fatal(err)
	}
	var wait, shutdown time.Duration
	if hook := engine.Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.Exec != nil {
		wait, _ = time.ParseDuration(hook.PreStop.Exec.Command[1] + "s")
	}
	for _, arg := range engine.Args {
		if text, ok := strings.CutPrefix(arg, "--shutdown-timeout="); ok {
			shutdown, _ = time.ParseDuration(text + "s")
		}
	}
	const records = 5 * time.Second // that a slow disk may take at the end
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if need := wait + shutdown + drain + records; wait == 0 || shutdown == 0 || grace <= need {
		t.Errorf("got a grace of %v, want more than preStop %v + engine %v + spectap %v + %v", grace, wait, shutdown, drain, records)
	}
	var size, keep int64
	fmt.Sscan(env["SPECTAP_RECORDS_MAX_BYTES"], &size)
	fmt.Sscan(env["SPECTAP_RECORDS_KEEP"], &keep)
	volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "spectap-records" })]
	if limit := volume.EmptyDir.SizeLimit.Value(); size == 0 || keep == 0 || (keep+1)*size >= limit {
		t.Errorf("got %d files of %d bytes on a volume of %d", keep+1, size, limit)
	}
	if filepath.Dir(env["SPECTAP_RECORDS"]) != spectap.VolumeMounts[0].MountPath {
		t.Errorf("got records %s, want them on the volume at %s", env["SPECTAP_RECORDS"], spectap.VolumeMounts[0].MountPath)
	}
	confined(t, spectap, nil)
}

// confined checks what a container of ours may do and use.
func confined(t *testing.T, c core.Container, pod *core.PodSecurityContext) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Fatalf("%s: got security context %+v", c.Name, s)
	}
	user, root, profile := s.RunAsUser, s.RunAsNonRoot, s.SeccompProfile
	if pod != nil {
		user, root, profile = pod.RunAsUser, pod.RunAsNonRoot, pod.SeccompProfile
	}
	if user == nil || *user == 0 || root == nil || !*root || profile == nil || profile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: got user %v, non-root %v, profile %v", c.Name, user, root, profile)
	}
	if !c.Resources.Limits.Cpu().IsZero() {
		t.Errorf("%s: got a CPU limit of %v: throttling would be measured as the engine's latency", c.Name, c.Resources.Limits.Cpu())
	}
	if held, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory(); environmentOf(c)["GOMEMLIMIT"] != "requests.memory" || held.IsZero() || held.Cmp(*limit) >= 0 {
		t.Errorf("%s: Go is held to %v of a limit of %v", c.Name, held, limit)
	}
}

// A Service reaches spectap, with the sidecar and before it.
func TestKubernetesService(t *testing.T) {
	m := kustomize(t, "vllm-spectap")
	_, spectap, _ := sidecar(t)
	labels := m.deployments[0].Spec.Template.Labels
	if len(m.services) != 1 || m.services[0].Spec.Ports[0].TargetPort.IntVal != portNamed(spectap, "http") || labels["app"] != m.services[0].Spec.Selector["app"] {
		t.Errorf("got Services %+v, want one that leads to port %d of %v", m.services, portNamed(spectap, "http"), labels)
	}
	alone := kustomize(t, "vllm").deployments[0].Spec.Template.Spec
	if len(alone.InitContainers) != 0 || alone.Containers[0].Ports[0].ContainerPort != m.services[0].Spec.Ports[0].TargetPort.IntVal {
		t.Errorf("got %+v, want the engine itself on the Service's port", alone)
	}
}

// Prometheus finds the admin port.
func TestKubernetesMonitors(t *testing.T) {
	m := kustomize(t, "vllm-spectap")
	_, spectap, _ := sidecar(t)
	template := m.deployments[0].Spec.Template
	pods := kustomize(t, "podmonitor").podMonitors
	if len(pods) != 1 || *pods[0].Spec.PodMetricsEndpoints[0].Port != "spectap-admin" || pods[0].Spec.Selector.MatchLabels["app"] != template.Labels["app"] {
		t.Errorf("got PodMonitors %+v", pods)
	}
	s := kustomize(t, "servicemonitor")
	if len(s.services) != 1 || len(s.serviceMonitors) != 1 {
		t.Fatalf("got %d Services and %d ServiceMonitors, want one each", len(s.services), len(s.serviceMonitors))
	}
	port := s.services[0].Spec.Ports[0]
	if port.TargetPort.IntVal != portNamed(spectap, "spectap-admin") || s.services[0].Spec.Selector["app"] != template.Labels["app"] {
		t.Errorf("got Service %+v, want one that leads to the admin port", s.services[0].Spec)
	}
	if e := s.serviceMonitors[0].Spec; e.Endpoints[0].Port != port.Name || e.Selector.MatchLabels["app"] != s.services[0].Labels["app"] {
		t.Errorf("got ServiceMonitor %+v, want the Service's port", e)
	}
	if a := template.Annotations; a["prometheus.io/port"] != fmt.Sprint(portNamed(spectap, "spectap-admin")) || a["prometheus.io/path"] != "/metrics" {
		t.Errorf("got annotations %v", a)
	}
}
