package agent

import (
	"runtime/debug"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// A CallbackError is a part of the Config that did not return, or one that returned an error. A
// turn that it broke off fails with it.
type CallbackError struct {
	// Field is the path of that part, such as "Prompts.Loader", "Now", "Runner" or
	// `Runners.Agents["coder"]`.
	Field string
	// Err is a *[spawn.PanicError], [spawn.ErrExited], or what [Prompts.Describe] returned.
	Err error
	// Stack is the stack of the goroutine at that moment. Nil: the part has returned.
	Stack []byte
}

// newCallbackError returns the error of a field that panicked with a value, or ended its goroutine
// if that is nil.
func newCallbackError(field string, value any) *CallbackError {
	e := &CallbackError{Field: field, Err: spawn.ErrExited, Stack: debug.Stack()}
	if value != nil {
		e.Err = &spawn.PanicError{Value: value, Stack: e.Stack}
	}
	return e
}

func (e *CallbackError) Error() string {
	text := "it ended its goroutine"
	if e.Err != spawn.ErrExited { //nolint:errorlint // what the constructor set
		text = e.Err.Error()
	}
	return "agent: " + e.Field + ": " + text
}

// protect calls a function of the Config, which may panic or end its goroutine, and returns its
// error.
func protect(field string, f func() error) error {
	err := error(newCallbackError(field, nil)) // unless f returns
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				err = newCallbackError(field, value)
			}
		}()
		err = f()
	}()
	<-done
	return err
}

// Unwrap returns Err.
func (e *CallbackError) Unwrap() error { return e.Err }
