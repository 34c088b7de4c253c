package deploy

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// slurmExample is the example for Model-Optimizer's launcher.
const slurmExample = "slurm/Qwen3-8B_spectap_dflash.yaml"

// launcherJob is the YAML file of a job as Model-Optimizer's launcher reads it:
// tools/launcher/core.py (SandboxPipeline, GlobalVariables, SandboxTask) and
// slurm_config.py (slurm_factory's parameters). Its launch.py refuses other members.
type launcherJob struct {
	JobName  string `yaml:"job_name"`
	Pipeline struct {
		GlobalVars  map[string]string `yaml:"global_vars"` // of globalVars
		Task0       *launcherTask     `yaml:"task_0"`
		Task1       *launcherTask     `yaml:"task_1"`
		Task2       *launcherTask     `yaml:"task_2"`
		Task3       *launcherTask     `yaml:"task_3"`
		Task4       *launcherTask     `yaml:"task_4"`
		Assets      []string          `yaml:"assets"`
		TestLevel   int               `yaml:"test_level"`
		AllowToFail bool              `yaml:"allow_to_fail"`
		Skip        bool              `yaml:"skip"`
		Note        string            `yaml:"note"`
	} `yaml:"pipeline"`
}

// globalVars are the names that the launcher has for <<global_vars.NAME>>.
var globalVars = []string{"hf_model", "hf_data", "hf_local", "output_dir"}

type launcherTask struct {
	Script      string              `yaml:"script"`
	Args        []string            `yaml:"args"`
	Environment []map[string]string `yaml:"environment"`
	Skip        bool                `yaml:"skip"`
	SlurmConfig struct {
		Factory             string   `yaml:"_factory_"`
		Host                string   `yaml:"host"`
		Account             string   `yaml:"account"`
		Partition           string   `yaml:"partition"`
		Nodes               int      `yaml:"nodes"`
		TasksPerNode        int      `yaml:"ntasks_per_node"`
		GPUsPerNode         int      `yaml:"gpus_per_node"`
		Container           string   `yaml:"container"`
		ModelOptInstallPath string   `yaml:"modelopt_install_path"`
		ContainerMounts     []string `yaml:"container_mounts"`
		SrunArgs            []string `yaml:"srun_args"`
		Array               string   `yaml:"array"`
		Retries             int      `yaml:"retries"`
		Requeue             bool     `yaml:"requeue"`
		Time                string   `yaml:"time"`
	} `yaml:"slurm_config"`
}

// readJob reads the example strictly and fills its variables in, as the launcher does.
func readJob(t *testing.T) *launcherJob {
	t.Helper()
	var job launcherJob
	d := yaml.NewDecoder(strings.NewReader(readText(t, slurmExample)))
	d.KnownFields(true)
	if err := d.Decode(&job); err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`<<global_vars\.(\w+)>>`)
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(whole string) string {
			name := variable.FindStringSubmatch(whole)[1]
			value, ok := job.Pipeline.GlobalVars[name]
			if !ok || !slices.Contains(globalVars, name) {
				t.Errorf("%s is no variable of the launcher's, or has no value", whole)
			}
			return value
		})
	}
	task := job.Pipeline.Task0
	if task == nil {
		t.Fatal("the example has no task_0")
	}
	for i, arg := range task.Args {
		task.Args[i] = fill(arg)
	}
	for _, one := range task.Environment {
		for name, value := range one {
			one[name] = fill(value)
		}
	}
	return &job
}

// variable is the value of a task's variable.
func (task *launcherTask) variable(name string) string {
	for _, one := range task.Environment {
		if value, ok := one[name]; ok {
			return value
		}
	}
	return ""
}

// rendered is the end of the script that NeMo-Run makes of a task for sbatch:
// neither values nor arguments are quoted.
func (task *launcherTask) rendered() string {
	var b strings.Builder
	for _, one := range task.Environment {
		for name, value := range one {
			b.WriteString("export " + strings.ToUpper(name) + "=" + value + "\n")
		}
	}
	b.WriteString("exec bash " + task.Script + " " + strings.Join(task.Args, " ") + "\n")
	return b.String()
}

// The example is what the launcher reads, and survives how it is passed on.
func TestSlurmExampleSchema(t *testing.T) {
	task := readJob(t).Pipeline.Task0
	if s := task.SlurmConfig; s.Factory != "slurm_factory" || s.Nodes != 1 || s.TasksPerNode != 1 || s.GPUsPerNode != 1 {
		t.Errorf("got %+v, want slurm_factory with one task on one GPU", s)
	}
	if got := task.variable("CONTAINER_IMAGE"); got == "" || got != task.SlurmConfig.Container {
		t.Errorf("CONTAINER_IMAGE is %q, want the container %q", got, task.SlurmConfig.Container)
	}
	plain := regexp.MustCompile(`^[-A-Za-z0-9_./:=]+$`)
	for _, one := range task.Environment {
		for name, value := range one {
			if !plain.MatchString(value) {
				t.Errorf("%s: %q reaches the task changed: want characters that a shell leaves alone", name, value)
			}
		}
	}
	for _, arg := range strings.Fields(strings.Join(task.Args, " ")) {
		if !plain.MatchString(arg) {
			t.Errorf("%q reaches the task changed: want characters that a shell leaves alone", arg)
		}
	}
}

func TestSlurmShellCheck(t *testing.T) {
	shellcheck := tool(t, "shellcheck")
	for _, name := range []string{"run.sh", "sweep.sbatch"} {
		if out, err := exec.Command(shellcheck, "--norc", filepath.Join("slurm", name)).CombinedOutput(); err != nil {
			t.Errorf("shellcheck %s: %v\n%s", name, err, out)
		}
	}
}

// sbatch reads its options up to the first command.
func TestSlurmBatchOptions(t *testing.T) {
	options, commands := []string{}, false
	for line := range strings.Lines(readText(t, "slurm/sweep.sbatch")) {
		option, ok := strings.CutPrefix(strings.TrimSpace(line), "#SBATCH ")
		switch {
		case ok && commands:
			t.Errorf("sbatch does not see %q: it stands behind a command", line)
		case ok:
			options = append(options, option)
		case strings.TrimSpace(line) != "" && line[0] != '#':
			commands = true
		}
	}
	for _, want := range []string{"--nodes=1", "--ntasks=1", "--gpus-per-node=1", "--signal=TERM@60"} {
		if !slices.Contains(options, want) {
			t.Errorf("sweep.sbatch lacks %s, got %q", want, options)
		}
	}
}
