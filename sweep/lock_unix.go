//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sweep

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// flock locks a file for this process, without waiting. On NFS Linux makes a lock
// of the server's of it, which holds for all machines; some shared disks, as Lustre
// mounted without flock, take none.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return fmt.Errorf("%w: %w", errNoLocks, err)
		}
	}
}
