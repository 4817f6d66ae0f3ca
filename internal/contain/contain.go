package contain

import "runtime/debug"

// Call calls f in a goroutine of its own, and waits for it. It returns what f returns, exited if f
// ends its goroutine, and what panicked makes of the value and the stack if f panics.
func Call(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) error {
	done := make(chan error, 1)
	go func() {
		err := exited // unless f returns
		defer func() {
			if value := recover(); value != nil {
				err = panicked(value, debug.Stack())
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}
