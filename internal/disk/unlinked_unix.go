//go:build unix

package disk

import (
	"io/fs"
	"syscall"
)

// unlinked reports whether a file that is open has lost its last name: what is written to it is gone when it is closed.
func unlinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
