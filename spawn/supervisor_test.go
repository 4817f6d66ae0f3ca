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

// runnerFunc is a Runner.
type runnerFunc func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error)

func (f runnerFunc) RunTurn(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
	return f(ctx, t)
}

func sayText(text string) (spawn.TurnResult, error) {
	return spawn.TurnResult{Result: spawn.Result{Text: text}}, nil
}

var topKey = session.Must(session.MainKey("main"))

// openSupervisor runs a Supervisor until the test ends.
func openSupervisor(t *testing.T, cfg spawn.Config) *spawn.Supervisor {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = session.NewMemory()
	}
	s, err := spawn.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-done)
	})
	return s
}

func TestChildIsDeliveredToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan spawn.Delivery, 10)
		s := openSupervisor(t, spawn.Config{
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					return sayText("42: " + tn.Inputs[0].Text)
				},
			),
			CallerRun: true,
			Deliver:   func(_ context.Context, o spawn.Delivery) error { got <- o; return nil },
		})
		info, err := s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "count", Announce: true},
		)
		require.NoError(t, err)
		require.Equal(t, 1, info.Depth)
		o := <-got
		require.Equal(t, "42: count", o.Completion.Run.Result.Text)
		require.Equal(t, spawn.StatusOK, o.Completion.Run.Status)
		synctest.Wait()
		out, err := s.Outbox(t.Context(), topKey)
		require.NoError(t, err)
		require.Empty(t, out)
	})
}

func TestManagedRequesterGetsOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := make(chan string, 10)
		s := openSupervisor(t, spawn.Config{
			Replies: true,
			Deliver: func(_ context.Context, o spawn.Delivery) error {
				replies <- o.Reply.Text
				return nil
			},
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					if tn.Session.Depth > 0 {
						return sayText("done " + tn.Inputs[0].Text)
					}
					if in := tn.Inputs[0]; in.Completion != nil {
						return spawn.TurnResult{
							Reply: "child: " + in.Completion.Run.Result.Text,
						}, nil
					}
					_, err := tn.Spawn(ctx, spawn.Request{Task: tn.Inputs[0].Text, Announce: true})
					return spawn.TurnResult{Reply: "on it"}, err
				},
			),
		})
		require.NoError(
			t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "work"})),
		)
		require.NoError(
			t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{ID: "1", Text: "work"})),
		)
		require.Equal(t, "on it", <-replies)
		require.Equal(t, "child: done work", <-replies)
	})
}

func TestStopCutsARunnerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := openSupervisor(t, spawn.Config{
			Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					<-release
					return sayText("too late")
				},
			),
		})
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "hang"})
		require.NoError(t, err)
		synctest.Wait()
		start := time.Now()
		err = s.Stop(t.Context(), topKey, info.Key, "enough")
		var still *spawn.StillRunningError
		require.ErrorAs(t, err, &still)
		require.Equal(t, []session.Key{info.Key}, still.Sessions)
		require.Equal(t, spawn.DefaultGrace, time.Since(start))
		got, err := s.Find(t.Context(), topKey, refOf(info.Key))
		require.NoError(t, err)
		require.Equal(t, spawn.StatusCancelled, got.Status)
		close(release)
		synctest.Wait()
		require.NoError(t, s.Stop(t.Context(), topKey, info.Key, "again"))
	})
}
