package spawn_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A lateJournal takes a while for each append once it is slow, so that what is decided meanwhile is
// one batch.
type lateJournal struct {
	session.Journal

	slow atomic.Bool
}

func (j *lateJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.slow.Load() {
		time.Sleep(time.Minute)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// byTurn answers each turn with its number, after a while.
func byTurn(d time.Duration) spawn.Runner {
	return runnerFunc(func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
		takes := d
		if t.Run.Label == "slow" {
			takes = time.Hour
		}
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return spawn.TurnResult{}, context.Cause(ctx)
		}
		return sayText(fmt.Sprint("answer ", t.N))
	})
}

// TestEventsOfLaterRuns: each event has the id of the run that it is about, live and replayed, and
// also where the end of a run and the beginning of the next one are in one batch. A wait ends for
// its own run.
func TestEventsOfLaterRuns(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprint("one batch ", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				journal := &lateJournal{Journal: store.Journal}
				store.Journal = journal
				s := openSupervisor(t, spawn.Config{Store: store, Runner: byTurn(20 * time.Second)})
				live, end := collect(t, s, spawn.EventQuery{Root: topKey})
				first, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "work"})
				require.NoError(t, err)
				waited := make(chan string, 1)
				go func() {
					infos, err := s.Wait(
						t.Context(), topKey, []spawn.RunRef{first.Ref()}, spawn.JoinOptions{})
					waited <- fmt.Sprint(infos[0].ID == first.ID, infos[0].Result.Text, err)
				}()
				time.Sleep(10 * time.Second)
				if slow {
					journal.slow.Store(true)
					x := session.Route{Channel: "x"}
					go func() { _ = s.SetRoute(t.Context(), topKey, topKey, x) }()
					time.Sleep(30 * time.Second) // the turn has ended; the tree does not know
				} else {
					time.Sleep(30 * time.Second)
				}
				receipt, err := s.Post(t.Context(), topKey, first.Key, spawn.Incoming{Text: "next"})
				require.NoError(t, err)
				require.True(t, receipt.Began)
				infos, err := s.Wait(
					t.Context(), topKey, []spawn.RunRef{receipt.Ref()}, spawn.JoinOptions{})
				require.NoError(t, err)
				require.Equal(t, "answer 2", infos[0].Result.Text)
				require.Equal(t, "trueanswer 1<nil>", <-waited)
				journal.slow.Store(false)
				synctest.Wait()
				end()
				shown := live()
				want := map[spawn.RunID][]spawn.EventKind{
					first.ID: {
						spawn.EventAdmitted, spawn.EventTurn, spawn.EventTurnEnded,
						spawn.EventEnded,
					},
					receipt.Run: {
						spawn.EventRestarted, spawn.EventTurn, spawn.EventTurnEnded,
						spawn.EventEnded,
					},
				}
				require.Equal(t, want, kindsByRun(shown))
				again, end := collect(t, s, spawn.EventQuery{
					Root: topKey, After: []spawn.Cursor{shown[0].Cursor},
				})
				synctest.Wait()
				end()
				require.Equal(t, shown[1:], again())
				for _, e := range shown {
					switch {
					case e.Kind == spawn.EventEnded && e.Run == first.ID:
						require.Equal(t, "answer 1", e.Text)
					case e.Kind == spawn.EventRestarted:
						require.Equal(t, "next", e.Text)
						require.Equal(t, "user", e.Class)
						require.Equal(t, spawn.StatusQueued, e.Status)
					}
				}
				now, end := collect(t, s, spawn.EventQuery{Root: topKey})
				synctest.Wait()
				end()
				require.Equal(t, receipt.Run, now()[0].State.Sessions[1].Run)
			})
		})
	}
}

// kindsByRun returns the kinds of the events of each run, in their order.
func kindsByRun(list []spawn.TreeEvent) map[spawn.RunID][]spawn.EventKind {
	kinds := make(map[spawn.RunID][]spawn.EventKind)
	for _, e := range list {
		if e.Run != "" {
			kinds[e.Run] = append(kinds[e.Run], e.Kind)
		}
	}
	return kinds
}

// TestCompletionsOfLaterRuns: the ends of two runs of one session that are both unread over a
// restart are two inputs, each with what its run came to, and are read once.
func TestCompletionsOfLaterRuns(t *testing.T) {
	store := session.NewMemory()
	var told []string
	var first spawn.RunInfo
	var second spawn.Receipt
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := openSupervisor(t, spawn.Config{
			Store: store, Runner: runnerFunc(
				func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					if tn.Run.ID == "" {
						select {
						case <-release:
						case <-ctx.Done():
						}
						return spawn.TurnResult{}, context.Cause(ctx)
					}
					return sayText(fmt.Sprint("answer ", tn.N))
				}),
		})
		require.NoError(t, errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
		synctest.Wait() // the turn of the main session reads nothing more
		var err error
		first, err = s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "work", Announce: true})
		require.NoError(t, err)
		synctest.Wait()
		second, err = s.Send(t.Context(), topKey, topKey, first.Key,
			spawn.Incoming{ID: "1", Text: "next"}, spawn.SendOptions{Announce: true})
		require.NoError(t, err)
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{
			Store: store, Runner: runnerFunc(
				func(_ context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
					for _, in := range tn.Inputs {
						if c := in.Completion; c != nil {
							told = append(told, fmt.Sprint(
								c.Run.ID, c.Run.Result.Text, c.Run.From, c.Requester))
						}
					}
					return spawn.TurnResult{}, nil
				}),
		})
		require.NoError(t, s.Idle(t.Context(), topKey))
		runs, err := s.OwnRuns(t.Context(), topKey, first.Key)
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.Equal(t, first.ID, runs[0].ID)
		require.Equal(t, "answer 1", runs[0].Result.Text)
		_, err = s.OwnRuns(t.Context(), topKey, topKey)
		require.ErrorAs(t, err, new(*spawn.InputError))
	})
	require.Equal(t, []string{
		fmt.Sprint(first.ID, "answer 1", session.Key{}, topKey),
		fmt.Sprint(second.Run, "answer 2", topKey, topKey),
	}, told)
}

// TestWaitForARunThatIsNotKept: a wait that began before a run was followed by several has what the
// run came to, also if the tree keeps it no longer.
func TestWaitForARunThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: byTurn(time.Second)})
		slow := mustSpawn(t, s, spawn.Request{Task: "work", Label: "slow"})
		key := mustSpawn(t, s, spawn.Request{Task: "work"})
		time.Sleep(time.Minute)
		receipt, err := s.Post(t.Context(), topKey, key, spawn.Incoming{Text: "next"})
		require.NoError(t, err)
		waited := make(chan []spawn.RunInfo, 1)
		go func() {
			refs := []spawn.RunRef{receipt.Ref(), refOf(slow)}
			infos, _ := s.Wait(t.Context(), topKey, refs, spawn.JoinOptions{})
			waited <- infos
		}()
		for range 3 {
			time.Sleep(time.Minute)
			require.NoError(t, errorOf(s.Post(t.Context(), topKey, key, spawn.Incoming{Text: "x"})))
		}
		_, err = s.Find(t.Context(), topKey, receipt.Ref())
		require.ErrorIs(t, err, spawn.ErrNotFound)
		infos := <-waited
		require.Equal(t, receipt.Run, infos[0].ID)
		require.Equal(t, "answer 2", infos[0].Result.Text)
	})
}

// TestUsageOfLaterRuns: what a session has used is the sum of all its runs, and each run has its
// own part.
func TestUsageOfLaterRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := session.Usage{Input: 3, Output: 4}
		s := openSupervisor(t, spawn.Config{Runner: runnerFunc(
			func(ctx context.Context, tn *spawn.TurnInput) (spawn.TurnResult, error) {
				err := tn.Spend(ctx, used)
				return spawn.TurnResult{Result: spawn.Result{Usage: tn.Spent()}}, err
			})})
		key := mustSpawn(t, s, spawn.Request{Task: "work", Key: "k"})
		synctest.Wait()
		before := mustFind(t, s, key)
		for range 3 {
			require.NoError(t, errorOf(s.Post(t.Context(), topKey, key, spawn.Incoming{Text: "x"})))
			synctest.Wait()
			require.Equal(t, used, mustFind(t, s, key).Result.Usage)
		}
		q := spawn.UsageQuery{Session: key, By: []spawn.UsageBy{spawn.UsageBySession}}
		report, err := s.Usage(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, session.Usage{Input: 12, Output: 16}, report.Total)
		require.Empty(t, report.Rows[0].Run, "it has had several")
		list, err := s.Sessions(t.Context(), spawn.SessionQuery{})
		require.NoError(t, err)
		for _, x := range list {
			if x.Key == key {
				require.Equal(t, report.Total, x.Usage)
			}
		}
		again, err := s.Spawn(
			t.Context(), topKey, topKey, spawn.Request{Task: "work", Key: "k"})
		require.NoError(t, err)
		require.Equal(t, before, again, "a key names the run that it has made")
	})
}

// TestRunThatIsFollowed: what a caller asks of a run that another one has followed does nothing to
// that one.
func TestRunThatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, spawn.Config{Runner: byTurn(time.Minute)})
		first := mustFind(t, s, mustSpawn(t, s, spawn.Request{Task: "work"})).Ref()
		time.Sleep(2 * time.Minute)
		receipt, err := s.Post(t.Context(), topKey, first.Session, spawn.Incoming{Text: "next"})
		require.NoError(t, err)
		synctest.Wait()
		ctx := t.Context()
		faster := spawn.Incoming{Text: "faster"}
		require.ErrorIs(t, s.Steer(ctx, topKey, topKey, first, faster), spawn.ErrEnded)
		require.NoError(t, s.StopRun(ctx, topKey, first, "x"))
		require.NoError(t, s.Steer(ctx, topKey, topKey, receipt.Ref(), faster))
		_, err = s.Find(ctx, topKey, spawn.RunRef{Session: first.Session, Run: "none"})
		require.ErrorIs(t, err, spawn.ErrNotFound)
		_, err = s.Wait(ctx, topKey, []spawn.RunRef{{first.Session, "none"}}, spawn.JoinOptions{})
		require.ErrorIs(t, err, spawn.ErrNotFound)
		require.Equal(t, spawn.StatusRunning, mustFind(t, s, first.Session).Status)
		require.NoError(t, s.StopRun(ctx, topKey, receipt.Ref(), "x"))
		require.Equal(t, spawn.StatusCancelled, mustFind(t, s, first.Session).Status)
	})
}
