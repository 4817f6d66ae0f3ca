//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dirstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile locks f for this very open file: a second Open in the same process does not get the lock
// either.
func lockFile(f *os.File) (taken bool, err error) {
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("dirstore: lock %s: %w", f.Name(), err)
		}
	}
}
