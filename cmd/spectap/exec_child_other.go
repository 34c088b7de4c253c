//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// passedSignals are the signals that are caught.
func passedSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func asksToEnd(os.Signal) bool { return true }

// fromTerminal says that the console sends a signal to all of its programs.
func fromTerminal(os.Signal) bool { return true }

// ownGroupUnlessTerminal does nothing: the console's Ctrl-C reaches both.
func ownGroupUnlessTerminal(*exec.Cmd) (own bool) { return false }

// sendSignal ends the command: there is nothing gentler here.
func sendSignal(process *os.Process, _ bool, _ os.Signal) { _ = process.Kill() } // fails where it has ended
