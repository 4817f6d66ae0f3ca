package spawn

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The sessions of an agent share a grant, and agents that no configuration has take no memory for
// good.
func TestTopGrantsAreShared(t *testing.T) {
	var g topGrants
	first := g.of("main")
	require.Equal(t, "main", first.Agent)
	for n := range 2 * maxTopGrants {
		agent := strconv.Itoa(n)
		require.Equal(t, agent, g.of(agent).Agent)
	}
	require.Same(t, first, g.of("main"))
	require.Len(t, g.byAgent, maxTopGrants)
}
