//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package dirstore

import (
	"errors"
	"fmt"
	"os"
)

// lockFile returns [errors.ErrUnsupported].
func lockFile(f *os.File) (taken bool, err error) {
	return false, fmt.Errorf("dirstore: lock %s: %w on this system", f.Name(), errors.ErrUnsupported)
}

// lockDirectory does nothing: lockFile returns the error.
func lockDirectory(*os.File) (taken bool, err error) { return true, nil }
