package spawn_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A caller that asks for blocked deliveries, or retries one, takes over no tree that has nothing to
// do with them.
func TestBlockedTakesNoOtherTreeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, broken := session.NewMemory(), session.Must(session.NamedKey("main", "broken"))
		cfg := spawn.Config{
			Store: store, CallerRun: true, Runner: instantRunner,
			Deliver: func(_ context.Context, out spawn.Delivery) error {
				if out.To == broken {
					return errors.New("the receiver is away")
				}
				return nil
			},
		}
		first, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- first.Run(t.Context()) }()
		for _, root := range []session.Key{topKey, broken} {
			_, err := first.Spawn(t.Context(), root, root, spawn.Request{Task: "x", Announce: true})
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		require.NoError(t, first.Shutdown(t.Context()))
		require.NoError(t, <-done)

		epoch := func(root session.Key) uint64 {
			v, err := spawn.View(root, store.Journal.Read(t.Context(), root, 0))
			require.NoError(t, err)
			return v.Epoch
		}
		before, beside := epoch(broken), epoch(topKey)
		second, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		blocked, err := second.Blocked(t.Context())
		require.NoError(t, err)
		require.Len(t, blocked, 1)
		require.ErrorIs(t, second.Retry(t.Context(), "another"), spawn.ErrNotFound)
		require.Equal(t, beside, epoch(topKey))
		require.Equal(t, before, epoch(broken))
		require.NoError(t, second.Dismiss(t.Context(), blocked[0].Key))
		require.Equal(t, beside, epoch(topKey))
		require.Equal(t, before+1, epoch(broken))
		blocked, err = second.Blocked(t.Context())
		require.NoError(t, err)
		require.Empty(t, blocked)
		require.NoError(t, second.Shutdown(t.Context()))
	})
}

// A tree that cannot be read hides nothing of the others.
func TestBlockedListsWhatATreeThatCannotBeReadLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := spawn.Config{
			Store:     store,
			CallerRun: true,
			Runner:    instantRunner,
			Deliver:   func(context.Context, spawn.Delivery) error { return errors.New("the receiver is away") },
		}
		for _, name := range []string{"a", "m", "z"} {
			root := session.Must(session.NamedKey("main", name))
			if name == "m" {
				batch := session.Batch{
					ID:      "x",
					Entries: []session.Entry{{Payload: session.Raw(`{"v":1,"kind":"archived"}`)}},
				}
				_, err := store.Journal.Append(t.Context(), root, 0, batch)
				require.NoError(t, err)
				continue
			}
			s := openSupervisor(t, cfg)
			_, err := s.Spawn(t.Context(), root, root, spawn.Request{Task: "x", Announce: true})
			require.NoError(t, err)
			time.Sleep(2 * time.Hour)
		}
		s, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		blocked, err := s.Blocked(t.Context())
		require.ErrorIs(t, err, session.ErrCorrupt)
		require.Len(t, blocked, 2)
		for _, out := range blocked {
			require.NoError(t, s.Dismiss(t.Context(), out.Key))
		}
		require.ErrorIs(
			t, s.Retry(t.Context(), "none"), session.ErrCorrupt, "the delivery may be there",
		)
		require.NoError(t, s.Shutdown(t.Context()))
	})
}
