package spawn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// fullDisk is a Supervisor over a journal that can be full. Its turns take a minute.
type fullDisk struct {
	t *testing.T
	j *downJournal
	s *spawn.Supervisor
}

func newFullDisk(t *testing.T) *fullDisk {
	j := &downJournal{Journal: session.NewMemory().Journal}
	return &fullDisk{t, j, openSupervisor(t, spawn.Config{
		Store: &session.Store{Journal: j},
		Runner: runnerFunc(func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
			time.Sleep(time.Minute)
			return spawn.TurnResult{}, context.Cause(ctx)
		}),
	})}
}

func (d *fullDisk) post(text string) error {
	return errorOf(d.s.Post(d.t.Context(), topKey, topKey, spawn.Incoming{ID: text, Text: text}))
}

// recorded returns the texts of the messages that are on record.
func (d *fullDisk) recorded() (texts []string) {
	for e, err := range d.j.Journal.Read(d.t.Context(), topKey, 0) {
		require.NoError(d.t, err)
		if f, err := tree.FactOf(e.Payload); err == nil && f.Kind == tree.Posted {
			texts = append(texts, string(f.Text))
		}
	}
	return texts
}

// R15: while the disk is full every command says that it was not recorded and may be sent again,
// with the cause, if nothing was under way in its tree, and does so in time. Sent again when there
// is room, it happens once.
func TestFullDiskSaysThatNothingWasRecorded(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newFullDisk(t)
			var run session.Key
			if known {
				require.NoError(t, d.post("before"))
				run = mustSpawn(t, d.s, spawn.Request{Task: "x"})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
			}
			d.j.down.Store(true)
			for range 2 {
				for name, command := range map[string]func() error{
					"Post": func() error { return d.post("during") },
					"Spawn": func() error {
						_, err := d.s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
						return err
					},
				} {
					began := time.Now()
					err := command()
					require.ErrorIs(t, err, spawn.ErrNotRecorded, name)
					require.NotErrorIs(t, err, spawn.ErrUnconfirmed, name)
					require.ErrorContains(t, err, "disk full", name)
					require.LessOrEqual(t, time.Since(began), 2*time.Second, name)
				}
			}
			if known {
				_, err := d.s.Runs(t.Context(), topKey, topKey, true)
				require.ErrorIs(t, err, spawn.ErrUnreadable)
				require.ErrorIs(t, d.s.Stop(t.Context(), topKey, run, ""), spawn.ErrNotRecorded)
			}
			time.Sleep(time.Hour)
			d.j.down.Store(false)
			require.NoError(t, d.post("during"))
			require.NoError(t, d.s.Idle(t.Context(), topKey))
			if known {
				require.Equal(t, []string{"before", "during"}, d.recorded())
			} else {
				require.Equal(t, []string{"during"}, d.recorded())
			}
		})
	}
}

// R15: what is under way goes on while the disk is full. The first command may be recorded when
// there is room again, and is; those after it were not decided. What only reads speaks of reading.
func TestFullDiskDuringATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFullDisk(t)
		run := mustSpawn(t, d.s, spawn.Request{Task: "x"})
		synctest.Wait()
		d.j.down.Store(true)
		require.ErrorIs(t, d.post("first"), spawn.ErrUnconfirmed)
		for _, err := range []error{
			d.post("second"),
			d.s.Stop(t.Context(), topKey, run, ""),
			d.s.Steer(t.Context(), topKey, topKey, refOf(run), spawn.Incoming{Text: "x"}),
			d.s.CancelTurn(t.Context(), topKey, run),
			errorOf(d.s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})),
		} {
			require.ErrorIs(t, err, spawn.ErrNotRecorded)
			require.ErrorContains(t, err, "disk full")
		}
		for _, err := range []error{
			errorOf(d.s.Runs(t.Context(), topKey, topKey, true)),
			errorOf(d.s.Find(t.Context(), topKey, refOf(run))),
			errorOf(d.s.Outbox(t.Context(), topKey)),
		} {
			require.ErrorIs(t, err, spawn.ErrUnreadable)
			require.NotErrorIs(t, err, spawn.ErrUnconfirmed)
			require.ErrorContains(t, err, "the tree cannot be read now")
			require.ErrorContains(t, err, "disk full")
		}
		time.Sleep(time.Hour)
		d.j.down.Store(false)
		require.NoError(t, d.s.Idle(t.Context(), topKey))
		require.Equal(t, []string{"first"}, d.recorded())
		require.Equal(t, spawn.StatusOK, mustFind(t, d.s, run).Status)
	})
}

// R15: a caller whose ctx ends while the journal hangs learns both: that its ctx has ended, and
// that its command may be recorded. A call that only reads learns the former.
func TestContextThatEndsWhileTheJournalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFullDisk(t)
		d.j.wait = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.s.Post(ctx, topKey, topKey, spawn.Incoming{Text: "x"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, spawn.ErrUnconfirmed)
		require.NotErrorIs(t, err, spawn.ErrNotRecorded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = d.s.Outbox(ctx, topKey)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, spawn.ErrUnconfirmed)
		require.NotErrorIs(t, err, spawn.ErrUnreadable)
		require.NoError(t, d.s.Idle(t.Context(), topKey))
		require.Equal(t, []string{"x"}, d.recorded())
	})
}
