package owner

import (
	"fmt"
	"runtime/debug"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

// A PanicError is a panic that was recovered and turned into an error.
type PanicError struct {
	Value any    // what the code panicked with
	Stack []byte // of the goroutine that panicked
}

// NewPanic returns the error of a panic that the deferred function which calls it has recovered. A
// value that cannot be read is replaced, see [contain.Value].
func NewPanic(value any) *PanicError {
	stack := debug.Stack()
	return &PanicError{Value: contain.Value(value), Stack: stack}
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns Value if it is an error, such as a runtime.Error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
