//go:build unix

package disk

import (
	"io/fs"
	"syscall"
)

// unlinked reports whether an open file has lost its last name. What is written to it is lost when
// it is closed.
func unlinked(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
