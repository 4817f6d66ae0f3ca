package ctxguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/ctxguard"
)

func TestFrom(t *testing.T) {
	t.Parallel()
	require.NoError(t, ctxguard.From(t.Context())(t.Context()))
	bad := errors.New("bad")
	ctx := ctxguard.With(t.Context(), func(context.Context) error { return bad })
	require.ErrorIs(t, ctxguard.From(ctx)(t.Context()), bad)
}
