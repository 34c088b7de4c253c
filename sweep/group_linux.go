package sweep

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group of its own, so that a Ctrl-C at the
// terminal reaches it through us alone. The kernel sends it SIGTERM when the
// thread that started it ends, so that a sweep that is killed leaves no load behind.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
