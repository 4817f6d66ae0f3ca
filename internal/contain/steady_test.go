package contain_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

// steady is a value of the library.
type steady struct{ _ int }

func (s *steady) Steady(contain.Witness) any { return s }

// TestIsSteady holds what a program may make of a steady value against it: whatever has methods of
// its own is not one.
func TestIsSteady(t *testing.T) {
	t.Parallel()
	of := &steady{}
	require.True(t, contain.IsSteady(of))
	type byPointer struct{ *steady }
	type byValue struct{ steady }
	type unlike struct {
		*steady
		list []int
	}
	for _, other := range []any{
		nil, 1, (*steady)(nil),
		byPointer{of},
		&byPointer{of}, &byValue{*of},
		unlike{steady: of},
		unlike{of, []int{1}},
		&unlike{of, nil}, &struct{ steady any }{of},
	} {
		t.Run(fmt.Sprintf("%T", other), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, other == any((*steady)(nil)), contain.IsSteady(other))
		})
	}
}

func TestHere(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	panicked := func(value any, stack []byte) error {
		return fmt.Errorf("%v at %d bytes", value, min(len(stack), 1))
	}
	require.NoError(t, contain.Here(func() error { return nil }, panicked))
	require.ErrorIs(t, contain.Here(func() error { return own }, panicked), own)
	err := contain.Here(func() error { panic("bad") }, panicked)
	require.EqualError(t, err, "bad at 1 bytes")
}
