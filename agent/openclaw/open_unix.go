//go:build unix

package openclaw

import (
	"os"
	"syscall"
)

// openFile opens a file to read from it, and does not wait for the other end of a pipe.
func openFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
