//go:build !unix

package disk

import "io/fs"

// unlinked is of no use where a file that is open cannot be removed.
func unlinked(fs.FileInfo) bool { return false }
