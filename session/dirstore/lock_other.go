//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package session

import (
	"errors"
	"fmt"
	"os"
)

func lockFile(f *os.File) (taken bool, err error) {
	return false, fmt.Errorf("session: lock %s: %w on this system", f.Name(), errors.ErrUnsupported)
}
