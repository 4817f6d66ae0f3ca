//go:build unix

package kill

import (
	"os"
	"syscall"
)

// pause stops a process until goOn is called.
func pause(p *os.Process) (goOn func()) {
	_ = p.Signal(syscall.SIGSTOP) // it may be dead already
	return func() { _ = p.Signal(syscall.SIGCONT) }
}
