//go:build !unix && !windows

package agentctx

import "io/fs"

// onDisk returns false: on this system files cannot be told apart.
func onDisk(fs.FileInfo) bool { return false }

// hardLinks returns false: here links are not counted.
func hardLinks(fs.File, fs.FileInfo) (uint64, bool) { return 0, false }
