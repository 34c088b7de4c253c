//go:build unix

package sweep

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group of its own, so that a Ctrl-C at the
// terminal reaches it through us alone.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills what is left of a program's process group.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // fails where nothing is left
