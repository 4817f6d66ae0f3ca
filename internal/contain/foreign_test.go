package contain_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/contain"
)

// An error of the caller's is all that it was, but none of those that are named.
func TestForeign(t *testing.T) {
	own, other := errors.New("own"), errors.New("other")
	inner := &fs.PathError{Op: "open", Path: "x", Err: errors.Join(own, other)}
	err := fmt.Errorf("around: %w", contain.Foreign(inner, own))
	require.EqualError(t, err, "around: "+inner.Error())
	require.NotErrorIs(t, err, own)
	require.ErrorIs(t, err, other)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
	require.Same(t, inner, path)
	require.NoError(t, contain.Foreign(nil, own))
}
