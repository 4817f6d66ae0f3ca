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

// lockDirectory tries to lock the directory f without waiting. A file system that cannot lock
// directories counts as if it did. The lock file is all that keeps other processes out there.
func lockDirectory(f *os.File) (taken bool, err error) {
	taken, err = lockFile(f)
	for _, unable := range []error{
		errors.ErrUnsupported, syscall.EINVAL, syscall.EBADF, syscall.ENOLCK,
	} {
		if errors.Is(err, unable) {
			return true, nil
		}
	}
	return taken, err
}
