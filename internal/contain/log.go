package contain

import (
	"errors"
	"fmt"
	"log/slog"
)

var errExited = errors.New("contain: it has ended its goroutine")

// Log is [Call] of a function of the program that returns nothing. If it panics or ends its
// goroutine, that is logged by slog.Default: pkg is the package that calls it, name the function.
func Log(pkg, name string, f func()) {
	err := Call(func() error {
		f()
		return nil
	}, errExited, func(value any, stack []byte) error {
		return fmt.Errorf("it panicked: %v\n%s", value, stack)
	})
	if err != nil {
		slog.Error(pkg+": a function of the program failed", "function", name, "error", err.Error())
	}
}
