//go:build unix && !linux

package sweep

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group of its own, so that a Ctrl-C at the
// terminal reaches it through us alone.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
