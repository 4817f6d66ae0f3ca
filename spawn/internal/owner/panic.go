package owner

import "fmt"

// A PanicError is a panic that was recovered and turned into an error.
type PanicError struct {
	Value any    // what the code panicked with
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns Value if it is an error, such as a runtime.Error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
