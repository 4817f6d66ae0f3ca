//go:build !unix

package kill

import "os"

// pause does nothing: the system cannot stop a process.
func pause(*os.Process) (goOn func()) { return func() {} }
