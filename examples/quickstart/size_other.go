//go:build !(linux || darwin || freebsd)

package main

import "os"

// terminalSize reports whether a file seems to be a terminal. How many columns it has takes more
// than the standard library here.
func terminalSize(f *os.File) (columns int, ok bool) {
	info, err := f.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
