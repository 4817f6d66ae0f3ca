//go:build linux || openbsd || dragonfly || solaris

package agentctx

import (
	"io/fs"
	"syscall"
)

// identify returns the identity of a file on disk, where there is one.
func identify(info fs.FileInfo) (identity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{
		device: uint64(st.Dev), //nolint:unconvert // the types differ between systems
		inode:  st.Ino, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}, true
}
