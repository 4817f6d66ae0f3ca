//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lstat is os.Lstat into memory of the caller's.
func lstat(name string, s *syscall.Stat_t) error {
	for {
		if err := syscall.Lstat(name, s); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Look implements [Looker].
func (system) Look(name string) (kind fs.FileMode, there bool, err error) {
	var s syscall.Stat_t
	err = lstat(name, &s)
	switch {
	case errors.Is(err, syscall.ENOENT):
		return 0, false, nil
	case err == nil && s.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return fs.ModeDir, true, nil
	case err == nil && s.Mode&syscall.S_IFMT == syscall.S_IFREG:
		return 0, true, nil
	}
	return kindIn(os.Lstat(name)) // the other kinds, and errors, have their names there
}

// isSame is IsSame where it is sure.
func isSame(name string, want fs.FileInfo) (same, sure bool) {
	is, sure := want.Sys().(*syscall.Stat_t)
	if !sure {
		return false, false
	}
	var s syscall.Stat_t
	return lstat(name, &s) == nil && s.Dev == is.Dev && s.Ino == is.Ino, true
}

// isSecure reports that there is nothing to do for Secure. False says nothing.
func isSecure(name string, dir bool) bool {
	var s syscall.Stat_t
	if lstat(name, &s) != nil || fs.FileMode(s.Mode)&othersPerm != 0 || int(s.Uid) != os.Geteuid() {
		return false
	}
	kind := s.Mode & syscall.S_IFMT
	return kind == syscall.S_IFDIR || kind == syscall.S_IFREG && !dir
}
