package dirstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockFailImmediately = 1
	lockExclusive       = 2

	errLockViolation syscall.Errno = 33
)

// lockFile tries to lock f without waiting. It locks one byte far behind the end of f: other
// processes cannot read a locked part, and they shall be able to read which process has the lock.
func lockFile(f *os.File) (taken bool, err error) {
	at := syscall.Overlapped{OffsetHigh: 0x7fffffff}
	ok, _, err := lockFileEx.Call(
		f.Fd(), lockExclusive|lockFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, errLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, fmt.Errorf("dirstore: lock %s: %w", f.Name(), err)
}

// lockDirectory does nothing: Windows cannot lock a directory, and does not remove or rename a lock
// file that is open.
func lockDirectory(*os.File) (taken bool, err error) { return true, nil }
