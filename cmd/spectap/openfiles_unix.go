//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open: its soft limit, which
// Go has raised to the hard one. 0 where it is not known, or there is none.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
