//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedSignals are the signals that are passed on; those that are ignored since
// the process began, as SIGHUP under nohup, stay so.
func passedSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}, signal.Ignored)
}

// asksToEnd says that a signal is for ending a program.
func asksToEnd(s os.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// fromTerminal says that a signal comes from the keys or the end of a terminal.
func fromTerminal(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// ownGroupUnlessTerminal gives a command a process group of its own, unless we are
// in the foreground of a terminal: there it stays in ours, so that it can read the
// terminal, and so that Ctrl-C and Ctrl-Z reach both, and the script around us.
func ownGroupUnlessTerminal(cmd *exec.Cmd) (own bool) {
	own = !inForeground()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: own}
	return own
}

// inForeground says that our process group has a terminal and its keys.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// sendSignal sends a signal to the command, to all of its group where it has one.
func sendSignal(process *os.Process, group bool, s os.Signal) {
	if group {
		_ = syscall.Kill(-process.Pid, s.(syscall.Signal)) // fails where it has ended
		return
	}
	_ = process.Signal(s) // as above
}
