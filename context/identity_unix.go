//go:build unix

package agentctx

import (
	"io/fs"
	"syscall"
)

// onDisk reports whether info describes a file of the operating system.
func onDisk(info fs.FileInfo) bool {
	_, ok := info.Sys().(*syscall.Stat_t)
	return ok
}

// hardLinks returns how many names an open file has, where that can be told.
func hardLinks(_ fs.File, info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Nlink), true //nolint:unconvert // the type differs between systems
}
