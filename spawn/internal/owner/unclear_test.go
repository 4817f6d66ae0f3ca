package owner

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// After an append whose outcome is unclear, the owner does not take for its own what another owner
// has appended meanwhile.
func TestLostAcknowledgementBesideAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := session.NewMemory().Journal
		other := newProcess(inner)
		rival := other.owner()
		j := &journal{Journal: inner}
		j.before = func(n int) error {
			if n == 2 {
				post := &tree.Post{To: top, ID: "2", Text: "y"}
				require.NoError(t, rival.Do(t.Context(), post, nil))
				return errors.New("unclear")
			}
			return nil
		}
		p := newProcess(j)
		o := p.owner()
		require.NoError(t, o.Do(t.Context(), &tree.Post{To: top, ID: "1", Text: "x"}, nil))
		require.ErrorIs(t, o.Do(t.Context(), spawnCmd("a"), nil), ErrNotRecorded)
		p.end(o)
		other.end(rival)
	})
}
