package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The Authority is the turn's own: what a Runner writes there changes neither what Rights says nor
// what a later turn has.
func TestAuthorityIsTheTurnsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := policy.Rules{}
		var sup *spawn.Supervisor
		turns := 0
		sup, err := spawn.Open(t.Context(), spawn.Config{
			Store: session.NewMemory(), Rules: rules, Tools: []string{"read", "write"},
			Runner: runnerFunc(
				func(ctx context.Context, in *spawn.TurnInput) (spawn.TurnResult, error) {
					turns++
					require.Equal(t, []string{"read", "write"}, in.Authority.Tools)
					in.Authority.Tools[0], in.Authority.Sandboxed = "exec", true
					now := in.Rights(ctx, sup.Rules())
					require.Equal(t, []string{"read", "write"}, now.Tools)
					require.False(t, now.Sandboxed)
					return sayText("done")
				},
			),
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- sup.Run(context.WithoutCancel(t.Context())) }()
		for range 2 {
			_, err = sup.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, 2, turns)
		require.NoError(t, sup.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}
