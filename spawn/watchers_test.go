package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// echoConfig answers each message with its text, and has replies delivered.
func echoConfig(store *session.Store) spawn.Config {
	return spawn.Config{
		Store: store, Replies: true, Model: "test/main",
		Deliver: func(context.Context, spawn.Delivery) error { return nil },
		Runner: runnerFunc(func(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			t.Delta("one ")
			t.Delta("two")
			if t.Session.Key.IsSubagent() {
				return sayText("done")
			}
			return spawn.TurnResult{Reply: "echo", Result: spawn.Result{Text: "echo"}}, nil
		}),
	}
}

// tell sends messages to a chat, one after the other.
func tell(t *testing.T, s *spawn.Supervisor, chat session.Key, n int) {
	t.Helper()
	for i := range n {
		require.NoError(
			t, errorOf(s.Post(t.Context(), chat, chat, spawn.Incoming{Text: fmt.Sprint(i)})),
		)
		synctest.Wait()
	}
}

// one is what the events of one message are.
var one = []string{"posted", "turn", "turn_ended", "delivered"}

// kinds repeats the events of one message, after first.
func kinds(first string, n int) []string {
	list := []string{first}
	for range n {
		list = append(list, one...)
	}
	return list
}

// A stream without a cursor begins with the tree as it is: one that does not exist, one in memory
// and one that sleeps. It ends where it began to watch.
func TestEventsBeginWithTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		s := openSupervisor(t, echoConfig(store))
		none, end := collect(t, s, spawn.EventQuery{Root: topKey})
		tell(t, s, topKey, 2)
		require.Equal(t, kinds("snapshot of 1", 2), lines(none()))
		first := none()[0]
		require.Equal(t, spawn.Beginning(topKey), first.Cursor)
		require.Zero(t, first.State.Runs)

		_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Label: "lab"})
		require.NoError(t, err)
		synctest.Wait()
		warm, endWarm := collect(t, s, spawn.EventQuery{Root: topKey})
		other, err := spawn.Open(t.Context(), echoConfig(store)) // where it sleeps
		require.NoError(t, err)
		asleep, endAsleep := collect(t, other, spawn.EventQuery{Root: topKey})
		for name, seen := range map[string]func() []spawn.TreeEvent{"warm": warm, "asleep": asleep} {
			got := seen()
			require.Len(t, got, 1, name)
			all := none()
			require.Equal(t, all[len(all)-1].Cursor, got[0].Cursor, name)
			require.False(t, got[0].Time.IsZero())
			require.Equal(t, "test/main", got[0].Model, name)
			st := got[0].State
			require.Equal(t, []int{1, 0, 1, 0}, []int{st.Runs, st.Live, st.Total, st.Omitted}, name)
			require.Equal(t, topKey, st.Sessions[0].Session)
			require.Equal(t, 2, st.Sessions[0].Turn)
			run := st.Sessions[1]
			require.Equal(t, "lab", run.Label)
			require.Equal(t, 1, run.Depth)
			require.Equal(t, topKey, run.Parent)
			require.Equal(t, spawn.StatusOK, run.Status)
			require.NotEmpty(t, run.Run)
		}
		for _, f := range []func(){end, endWarm, endAsleep} {
			f()
		}
		require.Zero(t, s.Watchers()+other.Watchers())
		require.NoError(t, other.Shutdown(t.Context()))
	})
}

// One stream over all trees: those that are in memory, those that wake and those that are made. A
// tree that sleeps costs nothing.
func TestEventsOfAllTrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		before := openSupervisor(t, echoConfig(store))
		for n := range 3 {
			tell(t, before, chatKey(n), 1)
		}
		s := openSupervisor(t, echoConfig(store))
		_, err := s.Runs(t.Context(), chatKey(0), chatKey(0), false) // now it is in memory
		require.NoError(t, err)
		seen, end := collect(t, s, spawn.EventQuery{})
		of := func(n int) (list []string) {
			var own []spawn.TreeEvent
			for _, e := range seen() {
				if e.Cursor.Root() == chatKey(n) {
					own = append(own, e)
				}
			}
			return lines(own)
		}
		require.Len(t, seen(), 1)
		_, _, trees := s.Held(topKey)
		require.Equal(t, 1, trees)
		require.Equal(t, []string{"snapshot of 1"}, of(0))
		tell(t, s, chatKey(0), 2)
		tell(t, s, chatKey(1), 1)
		tell(t, s, chatKey(9), 1)
		require.Equal(t, kinds("snapshot of 1", 2), of(0))
		require.Equal(t, kinds("snapshot of 1", 1), of(1), "it has woken")
		require.Empty(t, of(2), "it sleeps")
		require.Equal(t, kinds("snapshot of 1", 1), of(9), "it is new")

		var after []spawn.Cursor
		for _, e := range seen() {
			if e.State != nil {
				after = append(after, e.Cursor)
			}
		}
		again, endAgain := collect(t, s, spawn.EventQuery{After: after})
		require.Len(t, again(), len(seen())-len(after))
		endAgain()
		end()
		require.Zero(t, s.Watchers())

		s = openSupervisor(t, echoConfig(store)) // it remembers two trees
		s.BoundWatchers(100, 1<<20, 2)
		seen, end = collect(t, s, spawn.EventQuery{})
		defer end()
		for n := range 10 {
			tell(t, s, chatKey(n), 1)
			_, _, trees := s.Held(topKey)
			require.LessOrEqual(t, trees, 2)
		}
		tell(t, s, chatKey(0), 1)
		require.Equal(t, append(kinds("snapshot of 1", 1), kinds("snapshot of 1", 1)...), of(0))
	})
}

// A watcher that never reads, and one that hangs in its loop, cost a bounded amount, and the tree
// and the other watchers nothing. When they read, they have everything.
func TestWatcherThatDoesNotRead(t *testing.T) {
	for name, q := range map[string]spawn.EventQuery{
		"one tree": {Root: topKey, Deltas: spawn.DeltasShown}, "all trees": {Deltas: spawn.DeltasShown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openSupervisor(t, echoConfig(session.NewMemory()))
				s.BoundWatchers(50, 1<<20, 100)
				good, end := collect(t, s, spawn.EventQuery{Root: topKey})
				defer end()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				never := s.Events(ctx, q)
				var late []spawn.TreeEvent
				goOn, hung := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(hung)
					for e, err := range s.Events(ctx, q) {
						assert.NoError(t, err)
						if len(late) == 0 {
							<-goOn
						}
						if kept(e.Kind) {
							late = append(late, e)
						}
					}
				}()
				synctest.Wait()
				for range 20 {
					tell(t, s, topKey, 10)
					events, bytes, _ := s.Held(topKey)
					require.LessOrEqual(t, events, 2*50)
					require.LessOrEqual(t, bytes, 2<<20)
				}
				require.Len(t, good(), 1+4*200)
				close(goOn)
				synctest.Wait()
				var unread []spawn.TreeEvent
				all := len(good())
				reading, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				go func() {
					for e, err := range never {
						assert.NoError(t, err)
						if kept(e.Kind) {
							unread = append(unread, e)
						}
						if len(unread) == all {
							return
						}
					}
				}()
				<-reading.Done()
				require.Equal(t, lines(good()), lines(unread))
				leave()
				<-hung
				require.Equal(t, good()[1:], late[1:])
				require.Equal(t, good()[1:], unread[1:])
			})
		})
	}
}

// Deltas go first: a queue that deltas have filled keeps what is recorded.
func TestDeltasAreDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		store.Journal = readsOnce{store.Journal}
		cfg := echoConfig(store)
		cfg.Runner = runnerFunc(
			func(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
				for range 1000 {
					t.Delta("x")
				}
				return spawn.TurnResult{Reply: "x"}, nil
			},
		)
		s := openSupervisor(t, cfg)
		s.BoundWatchers(20, 1<<20, 100)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		events := s.Events(ctx, spawn.EventQuery{Root: topKey, Deltas: spawn.DeltasShown})
		tell(t, s, topKey, 1)
		var got []spawn.TreeEvent
		for e, err := range events {
			require.NoError(t, err)
			got = append(got, e)
		}
		require.Equal(t, kinds("snapshot of 1", 1), lines(got))
	})
}

// readsOnce is a Journal that can be read to open a tree, which is from the first entry on and has
// none yet.
type readsOnce struct{ session.Journal }

func (j readsOnce) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for _, err := range j.Journal.Read(ctx, root, after) {
			yield(session.Entry{}, errors.Join(errors.New("it was read again"), err))
			return
		}
	}
}

// What a query does not select is not queued, live or replayed.
func TestEventsAreFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, echoConfig(session.NewMemory()))
		tell(t, s, topKey, 1)
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Announce: true})
		require.NoError(t, err)
		synctest.Wait()
		run := []string{"admitted", "turn", "turn_ended", "ended"}
		ended := []spawn.EventKind{spawn.EventEnded}
		some := []spawn.EventKind{spawn.EventTurn, spawn.EventSaid}
		for name, c := range map[string]struct {
			q    spawn.EventQuery
			want []string
		}{
			"a session":                     {spawn.EventQuery{Root: topKey, Session: info.Key}, run},
			"a session of a tree not named": {spawn.EventQuery{Session: info.Key}, run},
			"a run":                         {spawn.EventQuery{Run: info.ID}, run},
			"a kind":                        {spawn.EventQuery{Kinds: ended}, []string{"ended"}},
			"kinds of a run": {
				spawn.EventQuery{Run: info.ID, Kinds: some}, []string{"turn"},
			},
		} {
			c.q.After = []spawn.Cursor{spawn.Beginning(topKey)}
			seen, end := collect(t, s, c.q)
			var got []spawn.TreeEvent
			for _, e := range seen() {
				if e.Cursor.Root() == topKey {
					require.Equal(t, info.ID, e.Run, name)
					got = append(got, e)
				}
			}
			require.Equal(t, c.want, lines(got), name)
			end()
			c.q.After = nil
			ctx, leave := context.WithCancel(t.Context())
			_ = s.Events(ctx, c.q) // it does not read
			tell(t, s, chatKey(7), 1)
			tell(t, s, topKey, 5)
			held, _, _ := s.Held(topKey)
			require.LessOrEqual(t, held, 2, "%s: no more than the state of each tree", name)
			leave()
			synctest.Wait()
			require.Zero(t, s.Watchers(), name)
		}
		deltas, end := collect(t, s, spawn.EventQuery{
			Root: topKey, Kinds: []spawn.EventKind{spawn.EventDelta},
		})
		tell(t, s, topKey, 1)
		require.Equal(t, []string{"snapshot of 2", "delta", "delta"}, lines(deltas()))
		for _, e := range deltas()[1:] {
			require.Equal(t, "test/main", e.Model)
			require.Equal(t, "main", e.Agent)
			require.False(t, e.Cursor.IsZero())
		}
		end()
	})
}

// A stream ends with its ctx, with the loop and with a shutdown, whether a loop has begun or not,
// and leaves nothing behind.
func TestEventsEnd(t *testing.T) {
	for name, q := range map[string]spawn.EventQuery{"one": {Root: topKey}, "all": {}} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			s, err := spawn.Open(t.Context(), echoConfig(store))
			require.NoError(t, err)
			ran := make(chan error, 1)
			go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			unread := s.Events(ctx, q)
			broken := s.Events(t.Context(), q)
			var ended sync.WaitGroup
			var last []spawn.TreeEvent
			for _, c := range []context.Context{ctx, t.Context()} {
				events := s.Events(c, q)
				ended.Go(func() {
					for e, err := range events {
						assert.NoError(t, err)
						last = append(last, e)
					}
				})
				synctest.Wait()
				tell(t, s, topKey, 1)
				if c == ctx {
					leave()
					ended.Wait()
				}
			}
			for _, err := range broken {
				require.NoError(t, err)
				break
			}
			for _, err := range broken {
				t.Error("a second loop", err)
			}
			for _, err := range unread {
				t.Error("its ctx has ended", err)
			}
			synctest.Wait()
			require.Equal(t, 1, s.Watchers(), name)
			require.NoError(t, s.Shutdown(t.Context()))
			require.NoError(t, <-ran)
			ended.Wait()
			require.Zero(t, s.Watchers(), name)
			require.Equal(t, spawn.EventDelivered, last[len(last)-1].Kind, "what was recorded is shown")
			for _, err := range s.Events(t.Context(), q) {
				require.NoError(t, err)
				t.Error("an event after the shutdown")
			}
		})
	}
}

// brokenRead is a Journal whose Read fails in the middle, in one of several ways.
type brokenRead struct {
	session.Journal
	how string
}

func (j *brokenRead) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		n := 0
		for e, err := range j.Journal.Read(ctx, root, after) {
			if n++; n > 10 {
				switch j.how {
				case "fails":
					yield(session.Entry{}, errors.New("the disk is gone"))
					return
				case "panics":
					panic("the disk is gone")
				case "is spoiled":
					e.Payload = session.Raw(`{"k":"the disk is gone"}`)
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A journal that fails while it is read ends the stream with its error. The last cursor is good.
func TestEventsOfAJournalThatFails(t *testing.T) {
	for _, how := range []string{"fails", "panics", "is spoiled"} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			journal := &brokenRead{Journal: store.Journal}
			s := openSupervisor(t, echoConfig(&session.Store{
				Journal: journal, Transcripts: store.Transcripts,
			}))
			all, end := collect(t, s, spawn.EventQuery{Root: topKey})
			defer end()
			tell(t, s, topKey, 5)
			journal.how = how
			at, failed := spawn.Beginning(topKey), 0
			var seen []spawn.TreeEvent
			for e, err := range s.Events(t.Context(), spawn.EventQuery{After: []spawn.Cursor{at}}) {
				if err != nil {
					require.ErrorIs(t, err, spawn.ErrUnreadable)
					if how == "is spoiled" {
						var spoiled *spawn.JournalError
						require.ErrorAs(t, err, &spoiled)
					} else {
						require.ErrorContains(t, err, "the disk is gone")
					}
					require.ErrorContains(t, err, topKey.String())
					failed++
					continue
				}
				at, seen = e.Cursor, append(seen, e)
			}
			require.Equal(t, 1, failed, how)
			require.NotEmpty(t, seen)
			journal.how = ""
			rest, end := collect(t, s, spawn.EventQuery{Root: topKey, After: []spawn.Cursor{at}})
			require.Equal(t, all()[1:], append(seen, rest()...))
			end()
			require.Equal(t, 1, s.Watchers())
		})
	}
}

// What another owner of the tree has recorded is read from the journal.
func TestEventsOfAnotherOwner(t *testing.T) {
	for name, q := range map[string]spawn.EventQuery{"one": {Root: topKey}, "all": {}} {
		synctest.Test(t, func(t *testing.T) {
			store := session.NewMemory()
			one, two := openSupervisor(t, echoConfig(store)), openSupervisor(t, echoConfig(store))
			seen, end := collect(t, one, q)
			defer end()
			for i := range 12 {
				s := one
				if i/3%2 == 1 {
					s = two
				}
				for errorOf(s.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})) != nil {
					synctest.Wait()
				}
				time.Sleep(time.Minute)
			}
			for errorOf(one.Post(t.Context(), topKey, topKey, spawn.Incoming{Text: "x"})) != nil {
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			history, err := one.HistoryOf(topKey, store.Journal.Read(t.Context(), topKey, 0))
			require.NoError(t, err)
			var got []spawn.TreeEvent
			for _, e := range seen() {
				if kept(e.Kind) {
					got = append(got, e)
				}
			}
			require.Equal(t, spawn.EventSnapshot, got[0].Kind, name)
			require.Equal(t, history, got[1:], name)
		})
	}
}

// A query that makes no sense is an error that says which field.
func TestEventQueriesAreChecked(t *testing.T) {
	s, err := spawn.Open(t.Context(), echoConfig(session.NewMemory()))
	require.NoError(t, err)
	child := session.Must(session.Parse("agent:main:subagent:x"))
	here, there := spawn.Beginning(topKey), spawn.Beginning(chatKey(1))
	for field, q := range map[string]spawn.EventQuery{
		"EventQuery.Root":    {Root: child},
		"EventQuery.Session": {Session: session.BindingsRoot()},
		"EventQuery.Kinds":   {Kinds: []spawn.EventKind{spawn.EventEnded, 0}},
		"EventQuery.After":   {Root: topKey, After: []spawn.Cursor{there}},
	} {
		n := 0
		for _, err := range s.Events(t.Context(), q) {
			var invalid *spawn.InputError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, field, invalid.Field)
			n++
		}
		require.Equal(t, 1, n, field)
	}
	for _, after := range [][]spawn.Cursor{{here, {}}, {here, there, here}} {
		for _, err := range s.Events(t.Context(), spawn.EventQuery{After: after}) {
			require.ErrorContains(t, err, "EventQuery.After")
		}
	}
	for _, err := range s.Events(t.Context(), spawn.EventQuery{Session: child}) {
		require.ErrorIs(t, err, spawn.ErrNotFound)
	}
	require.Zero(t, s.Watchers())
}

// A tree of any size has a state of a bounded size, with those that live first.
func TestStateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := openSupervisor(t, spawn.Config{
			Store: session.NewMemory(),
			Runner: (&spawntest.Runner{}).On("stay", spawntest.Play{spawntest.Block(release)}).
				On("", spawntest.Play{spawntest.Say("x")}),
		})
		spawn.LiftLimits(s)
		stay, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "stay"})
		require.NoError(t, err)
		for range 300 {
			_, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x"})
			require.NoError(t, err)
		}
		synctest.Wait()
		seen, end := collect(t, s, spawn.EventQuery{Root: topKey})
		st := seen()[0].State
		require.Len(t, st.Sessions, spawn.MaxStateSessions)
		require.Equal(t, 302-spawn.MaxStateSessions, st.Omitted)
		require.Equal(t, stay.Key, st.Sessions[1].Session, "it lives, and is the oldest")
		end()
		close(release)
	})
}

// The event of a run that leaves the tree says which run it was, live and replayed.
func TestRunThatHasLeftIsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSupervisor(t, echoConfig(session.NewMemory()))
		q := spawn.EventQuery{Root: topKey, Kinds: []spawn.EventKind{spawn.EventArchived}}
		live, end := collect(t, s, q)
		defer end()
		info, err := s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "x", Label: "lab"})
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		q.After = []spawn.Cursor{spawn.Beginning(topKey)}
		replayed, end := collect(t, s, q)
		defer end()
		require.Len(t, replayed(), 1)
		require.Equal(t, live()[1:], replayed())
		e := replayed()[0]
		require.Equal(t, []any{info.ID, topKey, 1, "lab", "main", spawn.StatusOK},
			[]any{e.Run, e.Parent, e.Depth, e.Label, e.Agent, e.Status})
	})
}

// BenchmarkDeltas shows text to ten watchers, of which one does not read.
func BenchmarkDeltas(b *testing.B) {
	done := make(chan struct{})
	cfg := echoConfig(session.NewMemory())
	cfg.Runner = runnerFunc(func(_ context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
		for b.Loop() {
			t.Delta("a word ")
		}
		close(done)
		return sayText("x")
	})
	s, err := spawn.Open(b.Context(), cfg)
	require.NoError(b, err)
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(b.Context())) }()
	var watching sync.WaitGroup
	for i := range 10 {
		events := s.Events(b.Context(), spawn.EventQuery{Root: topKey, Deltas: spawn.DeltasShown})
		if i == 0 {
			continue
		}
		watching.Go(func() {
			for _, err := range events {
				assert.NoError(b, err)
			}
		})
	}
	b.ReportAllocs()
	require.NoError(b, errorOf(s.Post(b.Context(), topKey, topKey, spawn.Incoming{Text: "go"})))
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deltas/s")
	require.NoError(b, s.Shutdown(b.Context()))
	require.NoError(b, <-ran)
	watching.Wait()
}
