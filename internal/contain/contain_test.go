package contain_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

func TestCall(t *testing.T) {
	t.Parallel()
	own, exited := errors.New("own"), errors.New("exited")
	panicked := func(value any, stack []byte) error {
		return fmt.Errorf("%v at %d bytes", value, min(len(stack), 1))
	}
	for _, c := range []struct {
		f    func() error
		want error
	}{
		{func() error { return nil }, nil},
		{func() error { return own }, own},
		{func() error { runtime.Goexit(); return nil }, exited},
		{func() error { panic("bad") }, errors.New("bad at 1 bytes")},
	} {
		require.Equal(t, c.want == nil, contain.Call(c.f, exited, panicked) == nil)
		if c.want != nil {
			require.EqualError(t, contain.Call(c.f, exited, panicked), c.want.Error())
		}
	}
}
