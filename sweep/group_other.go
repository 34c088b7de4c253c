//go:build !unix

package sweep

import "os/exec"

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// killGroup kills the program alone.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // fails where it has ended
