//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// groupAttr refuses: without Linux's process groups and parent-death signal a
// server could stay behind.
func groupAttr() (*syscall.SysProcAttr, error) {
	return nil, errors.New("spectap launch needs Linux, to end the server with all its processes; start the server yourself and use spectap sweep --url")
}

func signalGroup(int, syscall.Signal) error { return nil }

func groupMembers(int) []int { return nil }
