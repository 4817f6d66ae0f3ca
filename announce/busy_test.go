package announce_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

func TestErrBusy(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, fmt.Errorf("chat 42: %w", announce.ErrBusy), announce.ErrBusy)
	require.ErrorIs(t, announce.ErrBusy, spawn.ErrBusy, "a Deliver of package spawn defers with it as well")
}
