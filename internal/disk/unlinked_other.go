//go:build !unix

package disk

import "io/fs"

// unlinked returns false: these systems do not remove a file that is open.
func unlinked(fs.FileInfo) bool { return false }
