package contain

import "runtime/debug"

// Call calls f in a goroutine of its own, and waits for it. It returns what f returns, exited if f
// ends its goroutine, and what panicked makes of the value and the stack if f panics. An error, or
// a value, that cannot be read counts as f does that reads it: see [Read] and [Value].
func Call(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) error {
	return <-Go(f, exited, panicked)
}

// Go is [Call] that does not wait: the channel gets what Call would return, and takes it also from
// an f that ends when nothing receives any more.
func Go(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) <-chan error {
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
	return done
}
