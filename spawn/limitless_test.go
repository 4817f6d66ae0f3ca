package spawn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// narrowJournal takes batches up to the limit that every journal has, and no larger ones.
type narrowJournal struct{ session.Journal }

func (j narrowJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	size := len(b.ID)
	for _, e := range b.Entries {
		text, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return 0, err
		}
		size += len(text) + 16
	}
	if size > session.BatchLimit && !b.Reset {
		return 0, fmt.Errorf("%w: %d bytes", session.ErrInvalidBatch, size)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// 1.3: without limits no caller and no Runner can bring a tree to a batch that its journal refuses:
// what is too long is a *LimitError, or a turn that fails, and nothing else of the tree suffers.
func TestNoLimitCannotBreakTheJournal(t *testing.T) {
	skipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		far := strings.Repeat("\x01", 11<<20) // JSON takes six times as much
		none := spawn.NoLimit
		cfg := spawn.Config{
			Store: &session.Store{Journal: narrowJournal{session.NewMemory().Journal}},
			Limits: spawn.Limits{
				Task: none, Label: none, Message: none, ID: none, Extra: none, Result: none,
			},
		}
		cfg.Runner = runnerFunc(
			func(_ context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				if tn.Session.Key == topKey {
					return spawn.TurnResult{}, nil
				}
				return sayText(far)
			},
		)
		s := openSupervisor(t, cfg)
		ctx := t.Context()
		var limit *spawn.LimitError
		for name, err := range map[string]error{
			"text":  errorOf(s.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x" + far})),
			"id":    errorOf(s.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x", ID: far})),
			"task":  errorOf(s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x" + far})),
			"key":   errorOf(s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: far})),
			"extra": errorOf(s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Extra: []byte(far)})),
		} {
			require.ErrorAs(t, err, &limit, name)
			require.Equal(t, "Limits", limit.Path, name)
		}
		run := mustSpawn(t, s, spawn.Request{Task: "say too much"})
		infos, err := s.Wait(ctx, topKey, refsOf(run), spawn.JoinOptions{})
		require.NoError(t, err)
		require.NotEqual(t, spawn.StatusRunning, infos[0].Status)

		var posts sync.WaitGroup
		errs := make(chan error, 40)
		for range cap(errs) { // more than one batch takes
			posts.Go(func() {
				errs <- errorOf(s.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x" + far[:2<<20]}))
			})
		}
		posts.Wait()
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.NoError(t, s.Idle(ctx, topKey))
	})
}

// A text of any length that has a limit of its own is refused for that one, and by its name.
func TestLongTextsAreRefusedByTheirOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := strings.Repeat("x", 11<<20)
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(workOn)})
		ctx := t.Context()
		run := mustSpawn(t, s, spawn.Request{Task: "x"})
		synctest.Wait()
		spawned := func(change func(*spawn.Request)) error {
			q := spawn.Request{Task: "x"}
			change(&q)
			return errorOf(s.Spawn(ctx, topKey, topKey, q))
		}
		posted := func(m spawn.Incoming) error { return errorOf(s.Post(ctx, topKey, topKey, m)) }
		for _, c := range []struct {
			field, path string
			err         error
		}{
			{"task", "Limits.Task", spawned(func(q *spawn.Request) { q.Task = far })},
			{"label", "Limits.Label", spawned(func(q *spawn.Request) { q.Label = far })},
			{"key", "Limits.ID", spawned(func(q *spawn.Request) { q.Key = far })},
			{"origin", "Limits.ID", spawned(func(q *spawn.Request) { q.Origin = far })},
			{"agent", "Limits.ID", spawned(func(q *spawn.Request) { q.Policy.Agent = far })},
			{"model", "Limits.ID", spawned(func(q *spawn.Request) { q.Policy.Model = far })},
			{"thinking", "Limits.ID", spawned(func(q *spawn.Request) { q.Policy.Thinking = far })},
			{"tools", "Limits.Extra", spawned(func(q *spawn.Request) { q.Policy.Tools = []string{far} })},
			{"extra", "Limits.Extra", spawned(func(q *spawn.Request) { q.Extra = []byte(far) })},
			{"text", "Limits.Message", posted(spawn.Incoming{Text: far})},
			{"id", "Limits.ID", posted(spawn.Incoming{Text: "x", ID: far})},
			{"meta", "Limits.Meta", posted(spawn.Incoming{Text: "x", Meta: map[string]string{"k": far}})},
			{"from.id", "Limits.ID", posted(spawn.Incoming{Text: "x", From: session.Sender{ID: far}})},
		} {
			var limit *spawn.LimitError
			require.ErrorAs(t, c.err, &limit, c.field)
			require.Equal(t, c.field, limit.Field)
			require.Equal(t, c.path, limit.Path, c.field)
		}
		var input *spawn.InputError
		err := s.Steer(ctx, topKey, topKey, refOf(run), spawn.Incoming{Text: far})
		require.ErrorAs(t, err, &input)
		require.Equal(t, "text", input.Field)
		require.Contains(t, input.Reason, "the limit is 4000")
	})
}
