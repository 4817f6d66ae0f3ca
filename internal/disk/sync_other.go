//go:build !linux

package disk

import "os"

func syncFile(f *os.File) error { return f.Sync() }
