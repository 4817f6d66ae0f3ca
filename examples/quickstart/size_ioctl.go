//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalSize reports whether a file is a terminal, and how many columns it has; 0 if it does not
// say.
func terminalSize(f *os.File) (columns int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(
		syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)),
	)
	return int(size.columns), errno == 0
}
