package contain

import (
	"errors"
	"slices"
)

// Foreign returns err, which a function of the caller's has returned, for what wraps it: as err for
// errors.Is and errors.As, but that it is none of the errors own. What the library says with those
// about its own call, the function cannot say.
func Foreign(err error, own ...error) error {
	if err == nil {
		return nil
	}
	return foreign{err, own}
}

type foreign struct {
	err error
	own []error
}

func (f foreign) Error() string { return f.err.Error() }

// Is reports whether err is target, and target is none of the library's.
func (f foreign) Is(target error) bool {
	return !slices.Contains(f.own, target) && errors.Is(f.err, target)
}

// As is errors.As of err.
func (f foreign) As(target any) bool { return errors.As(f.err, target) }
