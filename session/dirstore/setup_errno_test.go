//go:build !plan9

package dirstore_test

import "syscall"

// The errors of a disk that is full and of one that is read-only.
var (
	errDiskFull     error = syscall.ENOSPC
	errDiskReadOnly error = syscall.EROFS
)
