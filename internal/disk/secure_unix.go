//go:build unix

package disk

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	// A pipe that has taken the name of a file since OpenFile has looked keeps no call waiting.
	noFollow       = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	hasPermissions = true
)

// links returns the number of names of an open file. What is written to a file without a name is
// lost when it is closed.
func links(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Nlink)
	}
	return 1
}

// foreignOwner returns the owner of a file, and whether that is another user than this process has.
func foreignOwner(info fs.FileInfo) (uid int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), int(stat.Uid) != os.Geteuid()
}

// SameDevice reports whether two files are on one file system, as far as the system says that.
func SameDevice(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return !ok || !ok2 || x.Dev == y.Dev
}
