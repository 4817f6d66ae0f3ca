package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/session/sessiontest"
)

// leaseOver is how long after a death all that the process had is that of another one.
const leaseOver = session.DefaultLease + 5*time.Second

// threadsOnTwo is threadsOn with two processes.
func threadsOnTwo(t *testing.T, cfg agent.Config, f func(b threadBot)) {
	t.Helper()
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "heard " + tn.Input()}, nil
	})
	runThreads(t, agenttest.Cluster{}.Run, cfg, nil, f)
}

// by has a person write in a conversation to a bot that the transport reaches in one process.
func (b threadBot) by(rt *agent.Runtime, at session.Route, text string) session.Key {
	b.T().Helper()
	receipt, err := b.chat.Write(b.Context(), rt, at, "alice", text)
	require.NoError(b.T(), err)
	return receipt.Session
}

// What one process binds, the others know, whatever it is and whichever of them is asked.
func TestBindingsOfAnotherProcess(t *testing.T) {
	threadsOnTwo(t, agent.Config{}, func(b threadBot) {
		first, second := b.Runtimes()[0], b.Runtimes()[1]
		child, thread := b.spawnThread(agent.Task{Text: "paint", Label: "painter"})
		for i, rt := range []*agent.Runtime{second, first, second} {
			require.Equal(t, child.Key(), b.by(rt, thread, fmt.Sprint("more ", i)))
			b.Pass(time.Second)
		}
		list, err := second.Bindings(b.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, child.Key(), list[0].Target)

		own, err := b.chat.Key(b.general)
		require.NoError(t, err)
		moved, err := second.Focus(b.Context(), agent.FocusRequest{ // of a tree of first
			Conversation: thread, Session: own, By: "alice",
		})
		require.NoError(t, err)
		require.Equal(t, own, moved.Target)
		require.Equal(t, own, b.by(first, thread, "to the other one"))
		idle := time.Hour
		changed, err := first.LimitFocus(b.Context(), thread, "alice", binding.Limit{Idle: &idle})
		require.NoError(t, err)
		require.Len(t, changed, 1)
		_, err = first.Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: thread, By: "bob"})
		require.ErrorIs(t, err, binding.ErrNotOwner)
		_, err = first.Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: thread, By: "alice"})
		require.NoError(t, err)
		_, err = second.Unfocus(b.Context(),
			agent.UnfocusRequest{Conversation: thread, By: "alice"})
		require.ErrorIs(t, err, agent.ErrNotFound)
		threadsOwn, err := b.chat.Key(thread)
		require.NoError(t, err)
		require.Equal(t, threadsOwn, b.by(second, thread, "to its own"))
		b.Pass(time.Minute)
		require.Len(t, b.chat.Farewells(thread), 1, "of the last; the others were replaced")
		info, err := child.Info(b.Context())
		require.NoError(t, err)
		require.Empty(t, info.Conversations)
	})
}

// Of two processes that bind a conversation at the same time, one does, and the other is told so.
func TestTwoProcessesBindAtOnce(t *testing.T) {
	threadsOnTwo(t, agent.Config{}, func(b threadBot) {
		sessions := []session.Key{
			session.Must(session.MainKey("main")),
			session.Must(session.NamedKey("main", "other")),
		}
		for n := range 20 {
			at := b.chat.At("general", fmt.Sprint("room-", n))
			b.chat.Set(at, agent.ThreadOpen)
			errs, all := make([]error, 2), sync.WaitGroup{}
			for i, rt := range b.Runtimes() {
				all.Go(func() {
					_, errs[i] = rt.Focus(b.Context(), agent.FocusRequest{
						Conversation: at, Session: sessions[i], By: fmt.Sprint("person ", i),
					})
				})
			}
			all.Wait()
			won := slices.IndexFunc(errs, func(err error) bool { return err == nil })
			require.GreaterOrEqual(t, won, 0, "%v", errs)
			require.ErrorIs(t, errs[1-won], binding.ErrNotOwner)
			for _, rt := range b.Runtimes() {
				require.Equal(t, sessions[won], b.by(rt, at, "hello"))
			}
			for i, key := range sessions {
				has := func(x binding.Binding) bool {
					return x.Conversation == at && x.Target == key
				}
				require.Equal(t, i == won, slices.ContainsFunc(b.bindings(), has))
			}
		}
	})
}

// A binding expires once, and one farewell is said, whichever process is written to and whichever
// of them dies.
func TestExpiryInTwoProcesses(t *testing.T) {
	for _, dies := range []int{-1, 0, 1} {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			idle := 0.5
			threadsOnTwo(t, agent.Config{
				Threads: agent.Threads{Bindings: binding.Settings{IdleHours: &idle}},
			}, func(b threadBot) {
				var threads []session.Route
				var calls atomic.Int32 // of farewells
				b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
					if c.Op == "farewell" && c.Done {
						calls.Add(1)
					}
					return nil
				})
				for range 3 {
					_, thread := b.spawnThread(agent.Task{Text: "paint", Label: "painter"})
					threads = append(threads, thread)
				}
				b.Pass(20 * time.Minute)
				target := b.by(b.Runtimes()[1], threads[0], "still here")
				b.Pass(9 * time.Minute)
				switch dies {
				case 0:
					b.Crash()
				case 1:
					b.Cut(b.Runtimes()[1])
				}
				b.Pass(10 * time.Minute)
				require.Empty(t, b.chat.Farewells(threads[0]), "it was written to")
				for _, thread := range threads[1:] {
					require.Len(t, b.chat.Farewells(thread), 1)
				}
				require.Equal(t, target, b.by(b.Runtime(), threads[0], "and here"))
				b.Pass(time.Hour)
				told := b.chat.Farewells(threads[0])
				require.Len(t, told, 1)
				require.Equal(t, binding.ReasonIdle, told[0].Reason)
				require.Empty(t, b.bindings())
				require.EqualValues(t, 3, calls.Load(), "each farewell was said by one process")
			})
		})
	}
}

// A message that is sent again goes to the session that has it, also if another process has bound
// the conversation to another session since.
func TestMessageIsKnownToAnotherProcess(t *testing.T) {
	threadsOnTwo(t, agent.Config{}, func(b threadBot) {
		first, second := b.Runtimes()[0], b.Runtimes()[1]
		child, thread := b.spawnThread(agent.Task{Text: "paint"})
		require.Equal(t, child.Key(), b.by(first, thread, "hello"))
		_, err := second.Focus(b.Context(), agent.FocusRequest{
			Conversation: thread, Session: session.Must(session.MainKey("main")), By: "alice",
		})
		require.NoError(t, err)
		for _, rt := range []*agent.Runtime{second, first} {
			receipt, err := b.chat.WriteAgain(b.Context(), rt)
			require.NoError(t, err)
			require.Equal(t, child.Key(), receipt.Session)
			require.True(t, receipt.Existing)
		}
	})
}

// A gate is a journal that holds up what is appended to the tree of the main session.
type gate struct {
	session.Journal
	armed      atomic.Bool
	held, open chan struct{}
}

func (g *gate) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if root == topKey && g.armed.CompareAndSwap(true, false) {
		close(g.held)
		<-g.open
	}
	return g.Journal.Append(ctx, root, after, b)
}

// aProcess is a process of a bot on a channel, until the end of the test.
func aProcess(t *testing.T, store *session.Store, chat *agenttest.FakeChannel) *agent.Runtime {
	t.Helper()
	cfg := agent.Config{Store: store, Runner: sayOK}
	chat.Connect(&cfg)
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- rt.Run(context.WithoutCancel(t.Context())) }()
	synctest.Wait() // it is one of the processes: what is posted to it before, any of them takes
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			var still *agent.StillRunningError
			require.ErrorAs(t, err, &still)
		}
		require.NoError(t, <-ended)
	})
	return rt
}

// What a process is about to do with a conversation, another one waits for, and does not take for
// what a process that has died has left. If the process dies in between, the other one goes on when
// its lease is over.
func TestConversationThatIsBeingBound(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			chat := agenttest.NewFakeChannel("discord")
			engine := sessiontest.NewCluster(sessiontest.ClusterOptions{})
			store, second := engine.Open("a"), engine.Open("b")
			t.Cleanup(func() { engine.Heal(store) })
			g := &gate{
				Journal: store.Journal, held: make(chan struct{}), open: make(chan struct{}),
			}
			gated := *store
			gated.Journal = g
			a, b := aProcess(t, &gated, chat), aProcess(t, second, chat)
			at := chat.At("general", "1")
			chat.Set(at, agent.ThreadOpen)
			own, err := chat.Key(at)
			require.NoError(t, err)
			_, err = a.Session(topKey).Post(t.Context(), agent.Incoming{Text: "hello"})
			require.NoError(t, err)
			time.Sleep(time.Minute)
			g.armed.Store(true)
			var child *agent.Child[string]
			var spawnErr error
			var all sync.WaitGroup
			all.Go(func() {
				child, spawnErr = a.Session(topKey).Spawn(t.Context(), agent.Task{
					Text: "paint", Thread: true, Conversation: at,
				})
			})
			<-g.held
			var to session.Key
			all.Go(func() {
				receipt, err := chat.Write(t.Context(), b, at, "alice", "hello")
				require.NoError(t, err)
				to = receipt.Session
			})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.True(t, to.IsZero(), "it waits")
			if dies {
				engine.Cut(store)
				time.Sleep(leaseOver)
			}
			close(g.open)
			if !dies {
				all.Wait()
				require.NoError(t, spawnErr)
				require.Equal(t, child.Key(), to)
				return
			}
			time.Sleep(leaseOver)
			synctest.Wait()
			require.Equal(t, own, to)
			list, err := b.Bindings(t.Context())
			require.NoError(t, err)
			require.Empty(t, list)
			require.Len(t, chat.Farewells(at), 1)
			engine.Heal(store)
			all.Wait()
			time.Sleep(10 * time.Minute)
			bound, err := b.Bindings(t.Context())
			require.NoError(t, err)
			require.Empty(t, bound)
			require.Len(t, chat.Farewells(at), 1)
		})
	}
}

// A Focus that takes long is not taken for one that its process has left, by the one on duty.
func TestFocusWhileAnotherProcessLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chat := agenttest.NewFakeChannel("discord")
		engine := sessiontest.NewCluster(sessiontest.ClusterOptions{})
		b := aProcess(t, engine.Open("b"), chat)
		time.Sleep(10 * time.Second) // it is on duty
		store := engine.Open("a")
		g := &gate{
			Journal: store.Journal, held: make(chan struct{}), open: make(chan struct{}),
		}
		gated := *store
		gated.Journal = g
		a := aProcess(t, &gated, chat)
		at := chat.At("general", "1")
		chat.Set(at, agent.ThreadOpen)
		_, err := a.Session(topKey).Post(t.Context(), agent.Incoming{Text: "hello"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		g.armed.Store(true)
		focused := make(chan error, 1)
		go func() {
			_, err := a.Focus(t.Context(), agent.FocusRequest{
				Conversation: at, Session: topKey, By: "alice",
			})
			focused <- err
		}()
		<-g.held
		time.Sleep(10 * time.Second)
		close(g.open)
		require.NoError(t, <-focused)
		time.Sleep(time.Minute)
		receipt, err := chat.Write(t.Context(), b, at, "alice", "hello")
		require.NoError(t, err)
		require.Equal(t, topKey, receipt.Session)
		require.Empty(t, chat.Farewells(at))
	})
}

// At whichever write of whichever process that dies: threads are bound to a session that answers
// there or to none, nothing is lost, and nothing is told twice.
func TestThreadsOfTwoProcessesAtEveryCrash(t *testing.T) {
	threadsAtEveryCrash(t, agenttest.Cluster{}.EveryCrash)
}

// A message in a thread goes to the session that has it, whichever process is asked and whichever
// of them dies, and the farewell is said once.
func TestBoundThreadOverEveryCrash(t *testing.T) {
	run := func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: "heard " + tn.Input()}, nil
	}
	everyCrashInThreads(t, agenttest.Cluster{}.EveryCrash, run, func(b threadBot) {
		at := b.chat.At("general", "1")
		b.chat.Set(at, agent.ThreadOpen)
		target := session.Must(session.NamedKey("main", "helper"))
		require.NoError(t, b.Do(func(rt *agent.Runtime) error {
			_, err := rt.Focus(b.Context(), agent.FocusRequest{
				Conversation: at, Session: target, By: "alice",
			})
			return err
		}))
		for i := range 2 {
			text, again := fmt.Sprint("message ", i), false
			require.NoError(t, b.Do(func(*agent.Runtime) error {
				list := b.Runtimes()
				rt := list[len(list)-1]
				var receipt agent.Receipt
				var err error
				if again {
					receipt, err = b.chat.WriteAgain(b.Context(), rt)
				} else {
					again = true
					receipt, err = b.chat.Write(b.Context(), rt, at, "alice", text)
				}
				if err == nil && receipt.Session != target {
					err = errors.New("it went to " + receipt.Session.String())
				}
				return err
			}))
			b.Pass(time.Minute)
		}
		said := strings.Join(b.chat.Said(at), "\n")
		require.Equal(t, 1, strings.Count(said, "message 0"), said)
		require.Equal(t, 1, strings.Count(said, "message 1"), said)
		require.Len(t, b.bindings(), 1)
		require.NoError(t, b.Do(func(rt *agent.Runtime) error {
			_, err := rt.Unfocus(b.Context(),
				agent.UnfocusRequest{Conversation: at, By: "alice"})
			if errors.Is(err, agent.ErrNotFound) {
				return nil // before the crash
			}
			return err
		}))
		b.Pass(2 * leaseOver)
		require.Empty(t, b.bindings())
		require.Len(t, b.chat.Farewells(at), 1)
	})
}
