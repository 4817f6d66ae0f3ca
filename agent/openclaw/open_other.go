//go:build !unix

package openclaw

import "os"

// openFile opens a file to read from it.
func openFile(name string) (*os.File, error) { return os.Open(name) }
