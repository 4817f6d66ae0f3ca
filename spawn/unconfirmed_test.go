package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// pausedJournal is a Journal whose appends take as long as it says.
type pausedJournal struct {
	session.Journal

	takes time.Duration
}

func (j *pausedJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	time.Sleep(j.takes)
	return j.Journal.Append(ctx, root, after, b)
}

// An error that is ErrUnconfirmed says how the caller repeats that very call so that it happens
// once, in the words of the call: a spawn has a Key, a message an ID, and a stop neither.
func TestUnconfirmedSaysHowToRepeat(t *testing.T) {
	type call func(ctx context.Context, s *spawn.Supervisor, run session.Key) error
	spawned := func(key string) call {
		return func(ctx context.Context, s *spawn.Supervisor, _ session.Key) error {
			_, err := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "x", Key: key})
			return err
		}
	}
	posted := func(id string) call {
		return func(ctx context.Context, s *spawn.Supervisor, _ session.Key) error {
			return errorOf(s.Post(ctx, topKey, topKey, spawn.Incoming{ID: id, Text: "x"}))
		}
	}
	steered := func(id string) call {
		return func(ctx context.Context, s *spawn.Supervisor, run session.Key) error {
			return s.Steer(ctx, topKey, topKey, refOf(run), spawn.Incoming{ID: id, Text: "x"})
		}
	}
	for name, c := range map[string]struct {
		call call
		want string
	}{
		"spawn with a key":    {spawned("k"), "; spawn it again with the same Key"},
		"spawn without a key": {spawned(""), "another spawn may make a second run"},
		"post with an ID":     {posted("m"), "; send it again with the same ID"},
		"post without an ID":  {posted(""), "may be told twice if it is sent again"},
		"steer with an ID":    {steered("m"), "; send it again with the same ID"},
		"steer without an ID": {steered(""), "may be told twice if it is sent again"},
		"cancel": {func(ctx context.Context, s *spawn.Supervisor, run session.Key) error {
			return s.CancelTurn(ctx, topKey, run)
		}, "; the call may be repeated"},
		"stop": {func(ctx context.Context, s *spawn.Supervisor, run session.Key) error {
			return s.Stop(ctx, topKey, run, "enough")
		}, "; the call may be repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &pausedJournal{Journal: session.NewMemory().Journal}
				s, ran := runUntil(forADay(t), t, spawn.Config{
					Store: &session.Store{Journal: j}, Runner: runnerFunc(workOn),
				})
				run := mustSpawn(t, s, spawn.Request{Task: "work"})
				synctest.Wait()
				gone, end := context.WithCancelCause(t.Context())
				end(context.Canceled)
				err := c.call(gone, s, run)
				require.ErrorIs(t, err, spawn.ErrNotRecorded, "of a ctx that has ended before")
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, spawn.ErrUnconfirmed)
				j.takes = 2 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = c.call(ctx, s, run)
				require.ErrorIs(t, err, spawn.ErrUnconfirmed)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), "same key")
				soon, leave := context.WithTimeout(t.Context(), time.Minute)
				defer leave()
				require.NoError(t, s.Shutdown(soon))
				require.NoError(t, <-ran)
			})
		})
	}
}

// The tree of a sub-agent cannot be found after a shutdown: that is not to say that it is not on
// record.
func TestRootOfAfterAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran := runUntil(forADay(t), t, spawn.Config{Runner: runnerFunc(workOn)})
		run := mustSpawn(t, s, spawn.Request{Task: "work"})
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.RootOf(gone, run)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.RootOf(t.Context(), session.Must(topKey.Child("main", "other")))
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.NoError(t, s.Shutdown(gone))
		require.NoError(t, <-ran)
		_, err = s.RootOf(t.Context(), run)
		require.ErrorIs(t, err, spawn.ErrShutdown)
		require.NotErrorIs(t, err, spawn.ErrNotFound)
		empty, err := spawn.Open(t.Context(), spawn.Config{
			Store: session.NewMemory(), Runner: runnerFunc(workOn),
		})
		require.NoError(t, err)
		require.NoError(t, empty.Shutdown(t.Context()))
		_, err = empty.RootOf(t.Context(), run)
		require.ErrorIs(t, err, spawn.ErrShutdown)
	})
}
