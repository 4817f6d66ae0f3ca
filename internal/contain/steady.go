package contain

import "runtime/debug"

// A Witness is what a method Steady takes. No program can name it, so that only the library has
// such methods.
type Witness struct{}

// A steady value is of the library: none of its methods panics, ends its goroutine, or calls code
// of the caller's. Steady returns the value itself: what embeds a steady value is not one.
type steady interface{ Steady(Witness) any }

// IsSteady reports whether a value needs no goroutine of its own for its methods.
func IsSteady(value any) bool {
	s, ok := value.(steady)
	return ok && s.Steady(Witness{}) == value
}

// Here calls f, which calls a steady value. It returns what f returns, and should f panic all the
// same, what panicked makes of that.
func Here(f func() error, panicked func(value any, stack []byte) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = panicked(Value(value), stack)
		}
	}()
	return f()
}
