//go:build !linux

package disk

import "os"

// syncFile makes f durable.
func syncFile(f *os.File) error { return f.Sync() }
