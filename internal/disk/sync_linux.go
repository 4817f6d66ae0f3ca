package disk

import (
	"errors"
	"os"
	"syscall"
)

// syncFile makes the content and the size of f durable. It leaves out the times of the file, which
// saves a second write on most file systems.
func syncFile(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = syscall.Fdatasync(int(fd)); !errors.Is(syncErr, syscall.EINTR) {
				return
			}
		}
	})
	if err == nil && syncErr != nil {
		err = &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return err
}
