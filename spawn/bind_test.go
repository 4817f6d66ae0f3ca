package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

var (
	threadOne = session.Route{Channel: "chat", To: "room", Thread: "1"}
	threadTwo = session.Route{Channel: "chat", Account: "work", To: "room", Thread: "2"}
)

func sayDone(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) { return sayText("done") }

// A conversation that is bound to a session holds its archive, over a restart too.
func TestBoundSessionIsNotArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := spawntest.NewRecorder(session.NewMemory().Journal)
		cfg := spawn.Config{
			Store: &session.Store{Journal: log}, Rules: policy.Rules{},
			Runner: runnerFunc(sayDone),
		}
		cfg.Rules.Subagents.ArchiveAfter = time.Hour
		s := openSupervisor(t, cfg)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{
			Task: "talk", Announce: true, Thread: true, Bind: threadOne, Session: true,
		})
		require.NoError(t, err)
		require.NoError(t, s.Bind(t.Context(), topKey, info.Key, threadTwo))
		require.NoError(t, s.Bind(t.Context(), topKey, info.Key, threadTwo), "again")
		time.Sleep(3 * time.Hour)
		bound, err := s.Bindings(t.Context(), topKey)
		require.NoError(t, err)
		require.Len(t, bound, 2)
		require.Equal(t, info.Key, bound[1].Session)
		require.Equal(t, threadTwo, bound[1].Route)
		_, err = s.Find(t.Context(), topKey, info.Ref())
		require.NoError(t, err)

		for _, route := range []session.Route{threadOne, threadTwo} {
			require.NoError(t, s.Unbind(t.Context(), topKey, info.Key, route, "manual"))
			require.NoError(t, s.Unbind(t.Context(), topKey, info.Key, route, "manual"), "again")
		}
		synctest.Wait()
		_, err = s.Find(t.Context(), topKey, info.Ref())
		require.ErrorIs(t, err, spawn.ErrNotFound, "nothing holds it")
		require.ErrorIs(t, s.Bind(t.Context(), topKey, info.Key, threadOne), spawn.ErrNotFound)
		require.NoError(t, spawntest.Audit(log.History(topKey)))
	})
}

// A dry spawn refuses what the spawn would refuse, and admits nothing.
func TestDrySpawnAdmitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(sayDone)})
		q := spawn.Request{Task: "talk", Key: "k", Thread: true, Dry: true}
		info, err := s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		require.Zero(t, info)
		list, err := s.Runs(t.Context(), topKey, topKey, true)
		require.NoError(t, err)
		require.Empty(t, list)
		q.Policy.Agent = "stranger"
		_, err = s.Spawn(t.Context(), topKey, topKey, q)
		require.ErrorAs(t, err, new(*policy.Refusal))

		q.Policy.Agent, q.Dry, q.Bind, q.ID = "", false, threadOne, spawn.RunID(session.NewID())
		info, err = s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		require.Equal(t, q.ID, info.ID)
		q.Dry, q.ID = true, ""
		known, err := s.Spawn(t.Context(), topKey, topKey, q)
		require.NoError(t, err)
		require.Equal(t, info.ID, known.ID, "the key is known")
	})
}
