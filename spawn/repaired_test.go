package spawn_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// deliverAll runs a Supervisor on a store, spawns children one after the other, and returns what
// was delivered.
func deliverAll(t *testing.T, store *session.Store, children int) (all []spawn.Delivery) {
	t.Helper()
	arrived := make(chan spawn.Delivery, 100)
	s, err := spawn.Open(t.Context(), spawn.Config{
		Store: store, CallerRun: true,
		Deliver: func(_ context.Context, out spawn.Delivery) error { arrived <- out; return nil },
		Runner: runnerFunc(func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
			return sayText("done")
		}),
	})
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
	for range children {
		_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "report", Announce: true})
		require.NoError(t, err)
		time.Sleep(time.Minute)
	}
	time.Sleep(time.Minute)
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-ran)
	close(arrived)
	for out := range arrived {
		all = append(all, out)
	}
	return all
}

// prefixes returns journals that have what the journal of the tree had after each of its batches,
// and before the first.
func prefixes(t *testing.T, j session.Journal) (list []session.Journal) {
	t.Helper()
	var batches []session.Batch
	for e, err := range j.Read(t.Context(), topKey, 0) {
		require.NoError(t, err)
		if n := len(batches); n == 0 || batches[n-1].ID != e.Batch {
			batches = append(batches, session.Batch{ID: e.Batch, Due: time.Now()})
		}
		last := &batches[len(batches)-1]
		last.Entries = append(last.Entries, session.Entry{Payload: e.Payload})
	}
	for n := range len(batches) + 1 {
		kept, last := session.NewMemory().Journal, session.Seq(0)
		for _, b := range batches[:n] {
			var err error
			last, err = kept.Append(t.Context(), topKey, last, b)
			require.NoError(t, err)
		}
		list = append(list, kept)
	}
	return list
}

// I19: a journal has lost its end, at any batch, and is marked as repaired, and that happens again.
// No delivery has the key of another one that was handed out, nor an epoch that is not above those
// of the time before. What was in the outbox keeps its key.
func TestKeysAndEpochsAfterARepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		content, epoch := make(map[string]spawn.RunID), uint64(0)
		for _, out := range deliverAll(t, store, 3) {
			require.Regexp(t, `^[0-9a-f-]{36}\.[0-9]+$`, out.Key)
			content[out.Key], epoch = out.Completion.Run.ID, max(epoch, out.Epoch)
		}
		require.Len(t, content, 3)
		repeated := 0
		for n, first := range prefixes(t, store.Journal) {
			known, above := maps.Clone(content), epoch
			journals := []session.Journal{first}
			for round := range 2 {
				var next []session.Journal
				for _, j := range journals {
					what := fmt.Sprintf("batch %d, round %d", n, round)
					mark, err := session.MarkRepaired(t.Context(), j, time.Now())
					require.NoError(t, err)
					kept := &session.Store{Journal: j, Transcripts: session.NewMemory().Transcripts}
					seen := above
					for _, out := range append(deliverAll(t, kept, 2), deliverAll(t, kept, 1)...) {
						if id, ok := known[out.Key]; ok {
							require.Equal(t, id, out.Completion.Run.ID, what)
							repeated++
						} else {
							require.Contains(t, out.Key, "."+mark.ID+".", what)
						}
						require.Greater(t, out.Epoch, above, what)
						known[out.Key] = out.Completion.Run.ID
						seen = max(seen, out.Epoch)
					}
					above = seen
					require.NoError(t, spawntest.Audit(j.Read(t.Context(), topKey, 0)), what)
					if n%4 == 0 { // a repair of what has come since
						next = prefixes(t, j)
					}
				}
				journals = next
			}
		}
		require.Positive(t, repeated, "an entry that was kept in the outbox keeps its key")
	})
}
