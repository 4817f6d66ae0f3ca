package contain

import "fmt"

// Read reads an error of the caller's as those read it who log, record and tell it, and returns it.
// It calls Error, and the Is, As and Unwrap of each error of its chain. If one of them panics, ends
// the goroutine or does not return, so does Read: a function of the caller's is contained together
// with the Read of its error, right where it returns and before any lock, and then a bad error is a
// function that has panicked, exited or not returned.
//
// Read panics for a chain without end, and for an Is or As that says that its error is one which
// only this package knows: each question about such an error would have a wrong answer.
func Read(err error) error {
	if err == nil {
		return nil
	}
	_ = err.Error()
	left := maxChain
	walk(err, &left)
	return err
}

// maxChain is how many errors a chain, or a tree of joined errors, has at most.
const maxChain = 100_000

// probe is an error that no error of a caller's can be.
type probe struct{ _ int }

func (*probe) Error() string { return "contain: a probe" }

func walk(err error, left *int) {
	for err != nil {
		if *left--; *left < 0 {
			panic(fmt.Sprintf("the chain of an error of type %T has no end", err))
		}
		if x, ok := err.(interface{ Is(target error) bool }); ok && x.Is(new(probe)) {
			panic(fmt.Sprintf("the Is of an error of type %T says that it is every error", err))
		}
		if x, ok := err.(interface{ As(target any) bool }); ok {
			var as *probe
			if x.As(&as) {
				panic(fmt.Sprintf("the As of an error of type %T says that it is every error", err))
			}
		}
		switch x := err.(type) { //nolint:errorlint // it is one step of the chain
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				walk(e, left)
			}
			return
		default:
			return
		}
	}
}

// Value returns what a function of the caller's has panicked with, for those who print it or look
// for an error in it. If printing it, or reading its chain, panics, Value returns a text with its
// type instead. If that ends the goroutine or does not return, neither does Value.
func Value(value any) (readable any) {
	if _, plain := value.(string); plain {
		return value
	}
	defer func() {
		if recover() != nil {
			readable = fmt.Sprintf("a %T that cannot be read", value)
		}
	}()
	_ = fmt.Sprint(value) // package fmt contains panics, and prints that there was one
	if err, ok := value.(error); ok {
		return Read(err)
	}
	return value
}
