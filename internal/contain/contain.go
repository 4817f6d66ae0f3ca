package contain

import "runtime/debug"

// Call calls f in a goroutine of its own, and waits for it. It returns what f returns, exited if f
// ends its goroutine, and what panicked makes of the value and the stack if f panics. An error, or
// a value, that cannot be read counts as f does that reads it: see [Read] and [Value].
func Call(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) error {
	done := make(chan error, 1)
	go func() {
		err := exited // unless f returns
		defer func() { done <- err }()
		defer func() {
			if value := recover(); value != nil {
				stack := debug.Stack()
				err = panicked(Value(value), stack)
			}
		}()
		err = Read(f())
	}()
	return <-done
}
