package dirstore_test

import "errors"

// The errors of a disk that is full and of one that is read-only.
var (
	errDiskFull     = errors.New("the disk is full")
	errDiskReadOnly = errors.New("the disk is read-only")
)
