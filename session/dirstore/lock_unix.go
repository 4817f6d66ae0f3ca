//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dirstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile tries to lock f without waiting. The lock belongs to this open file, so a second Open in
// the same process does not get it either.
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
