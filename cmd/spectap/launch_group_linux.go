package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// groupAttr puts a child into a process group of its own: what a terminal or we
// ourselves get does not reach it, and its children can be ended with it. The
// kernel sends the child SIGTERM when the thread that started it ends, so that a
// launch that is killed leaves no server behind. Only the child itself gets it,
// not its group.
func groupAttr() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}, nil
}

// signalGroup sends a signal to all processes of a group; a group that is gone
// is no error.
func signalGroup(pgid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pgid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// groupMembers returns the ids of a group's processes that run. Those that have
// ended and that nobody has reaped do not count: as a container's first process
// we may be the one who would have to.
func groupMembers(pgid int) []int {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return nil
	}
	var members []int
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		// "PID (NAME) STATE PPID PGRP ...": the name may hold anything.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(pgid) || bytes.ContainsAny(fields[0], "ZX") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			members = append(members, pid)
		}
	}
	return members
}
