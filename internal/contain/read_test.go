package contain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

// custom is an error with methods of its own.
type custom struct {
	is, as func() bool
	text   func() string
	wraps  func() []error
}

func (e *custom) Error() string   { return e.text() }
func (e *custom) Is(error) bool   { return e.is() }
func (e *custom) As(any) bool     { return e.as() }
func (e *custom) Unwrap() []error { return e.wraps() }

func newCustom() *custom {
	no := func() bool { return false }
	return &custom{
		no, no, func() string { return "custom" }, func() []error { return []error{nil, io.EOF} },
	}
}

// endless wraps itself.
type endless struct{}

func (e endless) Error() string { return "endless" }
func (e endless) Unwrap() error { return e }

// The error comes back as it was if it can be read.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		nil, io.EOF, newCustom(), fmt.Errorf("a %w", newCustom()), errors.Join(io.EOF, newCustom()),
		context.DeadlineExceeded,
	} {
		require.Equal(t, err, contain.Read(err))
	}
}

// What reading an error does is what the function does that has returned it.
func TestErrorsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	exited := errors.New("exited")
	panicked := func(value any, _ []byte) error { return fmt.Errorf("panicked: %v", value) }
	yes := func() bool { return true }
	for name, c := range map[string]struct {
		change func(e *custom)
		want   string
	}{
		"Error":  {func(e *custom) { e.text = func() string { panic("bad") } }, "panicked: bad"},
		"Is":     {func(e *custom) { e.is = func() bool { panic("bad") } }, "panicked: bad"},
		"As":     {func(e *custom) { e.as = func() bool { panic("bad") } }, "panicked: bad"},
		"Unwrap": {func(e *custom) { e.wraps = func() []error { panic("bad") } }, "panicked: bad"},
		"exits": {
			func(e *custom) { e.is = func() bool { runtime.Goexit(); return false } }, "exited",
		},
		"every error": {
			func(e *custom) { e.is = yes },
			"panicked: the Is of an error of type *contain_test.custom says that it is every error",
		},
		"every type": {
			func(e *custom) { e.as = yes },
			"panicked: the As of an error of type *contain_test.custom says that it is every error",
		},
		"no end": {
			func(e *custom) { e.wraps = func() []error { return []error{endless{}} } },
			"panicked: the chain of an error of type contain_test.endless has no end",
		},
	} {
		bad := newCustom()
		c.change(bad)
		for _, err := range []error{bad, &wrapped{bad}} {
			got := contain.Call(func() error { return err }, exited, panicked)
			require.EqualError(t, got, c.want, name)
		}
		got := contain.Call(func() error { panic(bad) }, exited, panicked)
		switch {
		case c.want == "exited":
			require.Equal(t, exited, got, name)
		case name == "Error": // package fmt prints the panic of the text
			require.ErrorContains(t, got, "cannot be read")
		default:
			require.EqualError(t, got, "panicked: a *contain_test.custom that cannot be read", name)
		}
	}
}

// wrapped is an error with the text of another one.
type wrapped struct{ err error }

func (e *wrapped) Error() string { return e.err.Error() }
func (e *wrapped) Unwrap() error { return e.err }

// A value that can be read is the one that a function has panicked with.
func TestValue(t *testing.T) {
	t.Parallel()
	for _, value := range []any{"text", 7, io.EOF, struct{ N int }{1}} {
		require.Equal(t, value, contain.Value(value))
	}
}
