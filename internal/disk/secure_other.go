//go:build !unix

package disk

import "io/fs"

const (
	noFollow       = 0
	hasPermissions = false
)

// links returns 1: these systems do not remove a file that is open, and package os does not count
// the names.
func links(fs.FileInfo) int { return 1 }

// foreignOwner returns false: package os does not know the owner.
func foreignOwner(fs.FileInfo) (uid int, foreign bool) { return 0, false }

// SameDevice returns true: package os does not know the device.
func SameDevice(_, _ fs.FileInfo) bool { return true }
