//go:build !unix && !windows

package agentctx

import "io/fs"

// onDisk returns false: here files cannot be told apart.
func onDisk(fs.FileInfo) bool { return false }

// links returns false: here links are not counted.
func links(fs.File, fs.FileInfo) (uint64, bool) { return 0, false }
