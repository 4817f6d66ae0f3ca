package contain

import (
	"runtime/debug"
	"sync"
)

// Call calls f in a goroutine of its own, and waits for it. It returns what f returns, exited if f
// ends its goroutine, and what panicked makes of the value and the stack if f panics. An error, or
// a value, that cannot be read counts as f does that reads it: see [Read] and [Value].
//
// It takes two allocations: a channel for the error, as Go has it, would make them four.
func Call(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) error {
	c := &call{f: f, panicked: panicked, err: exited}
	c.returned.Add(1)
	go c.tell()
	c.returned.Wait()
	return c.err
}

// Go is [Call] that does not wait: the channel gets what Call would return, and takes it also from
// an f that ends when nothing receives any more.
func Go(
	f func() error, exited error, panicked func(value any, stack []byte) error,
) <-chan error {
	done := make(chan error, 1)
	go func() {
		c := &call{f: f, panicked: panicked, err: exited}
		defer func() { done <- c.err }()
		c.run()
	}()
	return done
}

// A call is a function that is called, and what came of it.
type call struct {
	f        func() error
	panicked func(value any, stack []byte) error
	err      error // that of a function that ends its goroutine, until it returns or panics
	returned sync.WaitGroup
}

// tell runs the function and tells who waits.
func (c *call) tell() {
	defer c.returned.Done()
	c.run()
}

func (c *call) run() {
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			c.err = c.panicked(Value(value), stack)
		}
	}()
	c.err = Read(c.f())
}
