package thread_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
)

// What a shutdown leaves behind is told: by the calls of Shutdown that are there at the end or have
// come to it, and else by Run.
func TestEnding(t *testing.T) {
	var none thread.Ending
	require.False(t, none.IsTold())

	var left thread.Ending
	left.Enter()
	require.True(t, left.Leave())
	require.False(t, left.IsTold(), "Run tells")

	var there thread.Ending
	there.Enter()
	there.Enter()
	require.True(t, there.IsTold())
	require.True(t, there.Leave(), "the other one tells")
	require.False(t, there.Leave(), "Run has counted on it")
	there.Tell()

	var over thread.Ending
	over.Enter()
	over.Tell()
	require.True(t, over.IsTold())
}
