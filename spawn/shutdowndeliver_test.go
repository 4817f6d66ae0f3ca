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

// A partingCase is a turn under way when a Shutdown begins, and a receiver of what it says.
type partingCase struct {
	callerRun bool          // what leaves the tree is a completion, and not a reply
	turn      time.Duration // how long the turn takes
	soft      time.Duration // how long the soft phase may take
	deliver   func(ctx context.Context, n int) error

	calls     int  // of Deliver during the shutdown
	owed      int  // deliveries that are left to the next life
	mayRepeat bool // what the next life says of them
}

var partingCases = map[string]partingCase{
	"a reply":      {turn: time.Minute, soft: time.Hour, calls: 1},
	"a completion": {callerRun: true, turn: time.Minute, soft: time.Hour, calls: 1},
	"a slow receiver": {
		turn: time.Minute, soft: time.Hour, calls: 1,
		deliver: func(ctx context.Context, _ int) error { return sleepFor(ctx, time.Minute) },
	},
	"a receiver that fails": {
		turn: time.Minute, soft: time.Hour, calls: 1, owed: 1, mayRepeat: true,
		deliver: func(context.Context, int) error { return errors.New("offline") },
	},
	"a busy receiver": {
		turn: time.Minute, soft: time.Hour, calls: 1, owed: 1,
		deliver: func(context.Context, int) error { return spawn.ErrBusy },
	},
	"a receiver that is cut": {
		turn: time.Minute, soft: 90 * time.Second, calls: 1, owed: 1, mayRepeat: true,
		deliver: func(ctx context.Context, _ int) error { return sleepFor(ctx, time.Hour) },
	},
	"a turn that says so in the hard phase": {
		turn: time.Hour, soft: time.Minute, calls: 0, owed: 1,
	},
}

// sleepFor returns after a time, or with the error of ctx when that ends.
func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What a turn says that finishes in the soft phase of a Shutdown is handed to Deliver before
// Shutdown returns. What is left is delivered by the next life, which knows whether it may repeat.
func TestShutdownDeliversWhatTurnsSay(t *testing.T) {
	for name, c := range partingCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testParting(t, c) })
		})
	}
}

func testParting(t *testing.T, c partingCase) {
	t.Helper()
	var got []spawn.Delivery
	cfg := spawn.Config{
		Store: session.NewMemory(), Replies: !c.callerRun, CallerRun: c.callerRun,
		Runner: runnerFunc(func(ctx context.Context, _ *spawn.TurnInput) (spawn.TurnResult, error) {
			_ = sleepFor(ctx, c.turn)
			return spawn.TurnResult{Reply: "hi", Result: spawn.Result{Text: "hi"}}, nil
		}),
		Deliver: func(ctx context.Context, d spawn.Delivery) error {
			got = append(got, d)
			if c.deliver == nil {
				return nil
			}
			return c.deliver(ctx, len(got))
		},
	}
	s, ran := runUntil(forADay(t), t, cfg)
	if c.callerRun {
		mustSpawn(t, s, spawn.Request{Task: "x", Announce: true})
	} else {
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
	}
	synctest.Wait()
	soft, cancel := context.WithTimeout(t.Context(), c.soft)
	defer cancel()
	require.NoError(t, s.Shutdown(soft))
	require.NoError(t, <-ran)
	require.Len(t, got, c.calls)
	v := viewTop(t, cfg.Store.Journal)
	require.Len(t, v.Outbox, c.owed)

	got, c.deliver = nil, nil
	next, ran := runUntil(forADay(t), t, cfg)
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Len(t, got, c.owed)
	for _, d := range got {
		require.Equal(t, c.mayRepeat, d.MayRepeat)
	}
	require.NoError(t, next.Shutdown(t.Context()))
	require.NoError(t, <-ran)
}

// Of several deliveries that wait for one destination only the first was tried. The next life is
// told so of each, over a life that only reads, too. After a life that dies any of them may have
// been tried.
func TestUnsentIsKnownOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		cfg := spawn.Config{Store: store, Replies: true}
		cfg.Runner = runnerFunc(
			func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
				return spawn.TurnResult{Reply: "hi"}, nil
			},
		)
		cfg.Deliver = func(context.Context, spawn.Delivery) error { return errors.New("offline") }
		s, ran := runUntil(forADay(t), t, cfg)
		for range 3 {
			require.NoError(
				t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})),
			)
			synctest.Wait()
		}
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)

		repeats := func(s *spawn.Supervisor) (list []bool) {
			out, err := s.Outbox(t.Context(), topKey)
			require.NoError(t, err)
			for _, d := range out {
				list = append(list, d.MayRepeat)
			}
			return list
		}
		reader, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, false}, repeats(reader))
		require.NoError(t, reader.Shutdown(t.Context()))

		dies, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, false}, repeats(dies))
		after, err := spawn.Open(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, []bool{true, true, true}, repeats(after))
		require.NoError(t, after.Shutdown(t.Context()))
		require.NoError(t, dies.Shutdown(t.Context()))
	})
}
