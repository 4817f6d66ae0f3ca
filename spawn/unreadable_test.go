package spawn_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// reads are the calls that read a tree that this process has not opened.
var reads = map[string]func(context.Context, *spawn.Supervisor) error{
	"Runs": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Runs(ctx, topKey, topKey, true))
	},
	"Outbox": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Outbox(ctx, topKey))
	},
	"Bindings": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Bindings(ctx, topKey))
	},
	"RouteOf": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.RouteOf(ctx, topKey, topKey))
	},
	"Blocked": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Blocked(ctx))
	},
	"Retry": func(ctx context.Context, s *spawn.Supervisor) error {
		return s.Retry(ctx, "x.1")
	},
	"Dismiss": func(ctx context.Context, s *spawn.Supervisor) error {
		return s.Dismiss(ctx, "x.1")
	},
	"Usage of one": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Usage(ctx, spawn.UsageQuery{Session: topKey}))
	},
	"Usage of all": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Usage(ctx, spawn.UsageQuery{}))
	},
	"Sessions": func(ctx context.Context, s *spawn.Supervisor) error {
		return errorOf(s.Sessions(ctx, spawn.SessionQuery{}))
	},
}

// unlistable is a journal that cannot list its logs.
type unlistable struct{ session.Journal }

func (unlistable) Roots(context.Context, session.RootQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) { yield(session.Head{}, errDisk) }
}

// R15: each call that reads says so if the journal fails, with the cause, whether it reads one tree
// or all. One whose context has ended says that.
func TestEveryReadSaysThatItCannot(t *testing.T) {
	store := session.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		first := openSupervisor(t, spawn.Config{Store: store, Runner: instantRunner})
		_, err := first.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})
		require.NoError(t, err)
	})
	broken := &outage{Journal: store.Journal}
	broken.fail("read", errDisk)
	for name, read := range reads {
		synctest.Test(t, func(t *testing.T) {
			for _, j := range []session.Journal{broken, unlistable{broken}} {
				s, err := spawn.Open(t.Context(), spawn.Config{
					Store: &session.Store{Journal: j}, Runner: instantRunner,
				})
				require.NoError(t, err)
				err = read(t.Context(), s)
				require.ErrorIs(t, err, spawn.ErrUnreadable, name)
				require.ErrorIs(t, err, errDisk, name)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				err = read(ended, s)
				require.ErrorIs(t, err, context.Canceled, name)
				require.NotErrorIs(t, err, spawn.ErrUnreadable, name)
				require.NoError(t, s.Shutdown(t.Context()))
			}
		})
	}
}
