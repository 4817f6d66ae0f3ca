package agent_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/internal/growth"
	"github.com/offshoot-sdk/offshoot/session"
)

// inTurn has f look at a turn whose Runner does not return before f does, and which cancel cancels.
func inTurn(
	t *testing.T, f func(t *testing.T, life context.Context, tn *agent.Turn, cancel func()),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		type begun struct {
			life context.Context
			tn   *agent.Turn
		}
		turns, release := make(chan begun), make(chan struct{})
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			turns <- begun{ctx, tn}
			<-release
			return agent.Result{}, context.Cause(ctx)
		})
		cfg.Grace = time.Minute
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(t.Context()) }()
		s := rt.Session(topKey)
		_, err = s.Post(t.Context(), agent.Incoming{Text: "one"})
		require.NoError(t, err)
		b := <-turns
		f(t, b.life, b.tn, func() { require.NoError(t, s.CancelTurn(t.Context())) })
		close(release)
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// requireEnded requires that a context has ended, or has not, whichever of its methods is asked.
func requireEnded(t *testing.T, ctx context.Context, ended bool) {
	t.Helper()
	synctest.Wait()
	require.Equal(t, ended, ctx.Err() != nil)
	select {
	case <-ctx.Done():
		require.True(t, ended)
	default:
		require.False(t, ended)
	}
}

// What is written when a turn is cancelled has a second from then on, or from when it began to be
// written, whether or not the store has looked at its context by then.
func TestWritingOutlastsItsTurn(t *testing.T) {
	inTurn(t, func(t *testing.T, life context.Context, tn *agent.Turn, cancel func()) {
		seen, endSeen := agent.Outlasting(tn, context.WithoutCancel(life))
		asked, endAsked := agent.Outlasting(tn, context.WithoutCancel(life))
		unseen, endUnseen := agent.Outlasting(tn, context.WithoutCancel(life))
		time.Sleep(5 * time.Second)
		long, stop := context.WithTimeout(context.WithoutCancel(life), time.Second/2)
		defer stop()
		short, endShort := agent.Outlasting(tn, long)
		requireEnded(t, seen, false)
		require.NoError(t, asked.Err())
		cancel()
		requireEnded(t, seen, false)
		time.Sleep(time.Second * 9 / 10)
		requireEnded(t, seen, false)
		requireEnded(t, short, true)
		later, endLater := agent.Outlasting(tn, context.WithoutCancel(life))
		time.Sleep(time.Second / 5)
		requireEnded(t, seen, true)
		require.ErrorIs(t, asked.Err(), context.Canceled, "its first look after the turn has ended")
		requireEnded(t, later, false)
		require.ErrorIs(t, unseen.Err(), context.Canceled)
		requireEnded(t, unseen, true)
		time.Sleep(time.Second)
		requireEnded(t, later, true)
		for _, end := range []func(){endSeen, endAsked, endUnseen, endShort, endLater} {
			end()
		}
	})
}

// What a turn begins with has half of the grace period once a person has cancelled it, and tells
// why it ends.
func TestWhatATurnBeginsWithOutlastsIt(t *testing.T) {
	inTurn(t, func(t *testing.T, life context.Context, tn *agent.Turn, cancel func()) {
		seen, endSeen := agent.KeepInputs(tn, life)
		requireEnded(t, seen, false)
		time.Sleep(5 * time.Second)
		cancel()
		time.Sleep(29 * time.Second)
		requireEnded(t, seen, false)
		time.Sleep(2 * time.Second)
		requireEnded(t, seen, true)
		require.ErrorIs(t, context.Cause(seen), agent.ErrTurnCancelled)
		endSeen()
	})
	inTurn(t, func(t *testing.T, life context.Context, tn *agent.Turn, cancel func()) {
		unseen, end := agent.KeepInputs(tn, life)
		cancel()
		time.Sleep(31 * time.Second)
		require.ErrorIs(t, unseen.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(unseen), agent.ErrTurnCancelled)
		end()
	})
}

// A context that was ended has ended, whether or not it was looked at before, and so has one that
// was made of it.
func TestLastingThatIsOver(t *testing.T) {
	inTurn(t, func(t *testing.T, life context.Context, tn *agent.Turn, _ func()) {
		fresh, endFresh := agent.Outlasting(tn, life)
		endFresh()
		requireEnded(t, fresh, true)
		seen, endSeen := agent.Outlasting(tn, life)
		below, stop := context.WithCancel(seen)
		defer stop()
		requireEnded(t, below, false)
		endSeen()
		requireEnded(t, seen, true)
		requireEnded(t, below, true)
		require.NoError(t, life.Err())
	})
}

// A child from Spawn to Deliver takes 61 allocations and 20.4 KB, with three tools and two files of
// a workspace that no Cache identifies. The bounds leave room for tables that grow.
func TestChildTakesFewAllocations(t *testing.T) {
	skipUnderRace(t)
	const children, most = 1_000, 61
	var wg sync.WaitGroup
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("done")
	})
	cfg.Workspace, cfg.Tools = workspace("a line of"), toolbox("read", "write", "exec")
	cfg.Deliver = func(context.Context, agent.Delivery) error { wg.Done(); return nil }
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(t.Context())) }()
	requester := rt.Session(session.Must(session.NamedKey("main", "bench")))
	run := func() {
		for range children {
			wg.Add(1)
			_, err := requester.Spawn(t.Context(), agent.Task{Text: "count", Announce: true})
			require.NoError(t, err)
			wg.Wait()
		}
	}
	run()
	objects, bytes := growth.Allocated(run)
	require.Less(t, objects/children, uint64(most))
	require.Less(t, bytes/children, uint64(21_000))
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-done)
}
