package spawn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/sessiontest"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// A Store of several processes is refused while a Supervisor would not know of the others.
func TestStoreOfSeveralProcessesIsRefused(t *testing.T) {
	store := sessiontest.NewCluster(sessiontest.ClusterOptions{}).Open("a")
	cfg := spawn.Config{Store: store, Runner: &spawntest.Runner{}}
	_, err := spawn.Open(t.Context(), cfg)
	var bad *spawn.InputError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Store.Owners", bad.Field)
	store.Owners = nil
	_, err = spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
}
