package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// An outliving is a call that asks something of the caller's which does not return.
type outliving struct {
	method string // of the store; "": something else hangs
	reads  bool   // it is not a command
	shows  bool   // it reads what is archived as well
	call   func(ctx context.Context, w *outliveWorld) error
}

// An outliveWorld is a Runtime in which something hangs until the end of the test, and ignores its
// ctx.
type outliveWorld struct {
	rt             *agent.Runtime
	main           *agent.Session
	child          *agent.Child[string]
	archived, gone session.Key // gone never was
	at             session.Route
	free           chan struct{}
	hangs          string // what of the Config hangs
	obeys          bool   // a ThreadHost hangs until its ctx ends
}

var outlivings = map[string]outliving{
	"post with a part": {method: "Files.Put", call: func(ctx context.Context, w *outliveWorld) error {
		return errorOf(w.main.Post(ctx, agent.Incoming{Parts: []agent.Part{
			{Kind: agent.PartImage, MediaType: "image/png", Data: []byte("png")},
		}}))
	}},
	"spawn with an attachment": {method: "Files.Put", call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return errorOf(w.main.Spawn(ctx, agent.Task{Text: "x", Attachments: attaching("a", "1")}))
	}},
	"spawn with a reader": {call: func(ctx context.Context, w *outliveWorld) error {
		return errorOf(w.main.Spawn(ctx, agent.Task{Text: "x", Attachments: []agent.Attachment{{
			Name: "a", Reader: readFunc(func([]byte) (int, error) { <-w.free; return 0, io.EOF }),
		}}}))
	}},
	"revive": {method: "Transcripts.Read", call: func(ctx context.Context, w *outliveWorld) error {
		return w.rt.Session(w.archived).Revive(ctx)
	}},
	"revive, the record": {method: "Files.Open", call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return w.rt.Session(w.archived).Revive(ctx)
	}},
	"post to one that is archived": archivedCall(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return errorOf(w.rt.Session(key).Post(ctx, agent.Incoming{Text: "x"}))
	}),
	"delete one that is archived": archivedCall(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return w.rt.DeleteSession(ctx, key)
	}),
	"steer one that is archived": archivedCall(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return w.main.Steer(ctx, key, "x")
	}),
	"focus one that is archived": archivedCall(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return errorOf(w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: w.at, Session: key, By: "a", NewThread: true,
		}))
	}),
	"status of one that is archived": archivedRead(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return errorOf(w.rt.Session(key).Status(ctx))
	}),
	"runs of one that is archived": archivedRead(func(
		ctx context.Context, w *outliveWorld, key session.Key,
	) error {
		return errorOf(w.rt.Session(key).OwnRuns(ctx))
	}),
	"history": {method: "Transcripts.Read", reads: true, shows: true, call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return errorOf(w.child.Session().History(ctx, agent.HistoryQuery{}))
	}},
	"history of one that is archived": {
		method: "Transcripts.Read", reads: true, shows: true,
		call: func(ctx context.Context, w *outliveWorld) error {
			return errorOf(w.rt.Session(w.archived).History(ctx, agent.HistoryQuery{}))
		},
	},
	"file": {method: "Files.Open", reads: true, call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return errorOf(w.child.Session().OpenFile(ctx, anyFile))
	}},
	"file of one that is archived": {method: "Files.Open", reads: true, call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return errorOf(w.rt.Session(w.archived).OpenFile(ctx, anyFile))
	}},
	"spawn, whose hook hangs": {call: func(ctx context.Context, w *outliveWorld) error {
		w.hangs = "spawning"
		return errorOf(w.main.Spawn(ctx, agent.Task{Text: "x"}))
	}},
	"post, whose owner is asked": {call: func(ctx context.Context, w *outliveWorld) error {
		w.hangs = "owner"
		return errorOf(w.main.Post(ctx, agent.Incoming{
			Text: "x", From: session.Sender{ID: "ann"},
		}))
	}},
	"spawn in a thread": {call: func(ctx context.Context, w *outliveWorld) error {
		w.hangs = "create"
		return errorOf(w.main.Spawn(ctx, agent.Task{Text: "x", Thread: true, Conversation: w.at}))
	}},
	"focus in a thread": {call: func(ctx context.Context, w *outliveWorld) error {
		w.hangs = "create"
		return errorOf(w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: w.at, Session: w.child.Key(), By: "a", NewThread: true,
		}))
	}},
}

// anyFile is the name of a file that may not be there.
var anyFile = session.File{Hash: strings.Repeat("a", 64), Size: 1}

type keyedCall = func(ctx context.Context, w *outliveWorld, key session.Key) error

// archivedCall returns a command of a session that is archived, as its transcript says.
func archivedCall(f keyedCall) outliving {
	return outliving{method: "Transcripts.Read", call: func(
		ctx context.Context, w *outliveWorld,
	) error {
		return f(ctx, w, w.archived)
	}}
}

func archivedRead(f keyedCall) outliving {
	c := archivedCall(f)
	c.reads = true
	return c
}

// inOutliveWorld calls f in a Runtime over a store.
func inOutliveWorld(
	t *testing.T, store *session.Store,
	f func(t *testing.T, w *outliveWorld, chat *agenttest.FakeChannel),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &outliveWorld{
			free: make(chan struct{}), at: session.Route{Channel: "fake", To: "general"},
			gone: session.Must(topKey.Child("main", session.NewID())),
		}
		defer synctest.Wait()
		hang := func(what string) {
			if w.hangs == what {
				<-w.free
			}
		}
		cfg := agent.Config{Runner: sayOK, Store: store, Grace: 5 * time.Second}
		chat := agenttest.NewFakeChannel("fake")
		chat.Connect(&cfg)
		host := cfg.Threads.Channels["fake"]
		host.Host = stuckHost{host.Host, func(ctx context.Context) {
			if w.obeys {
				<-ctx.Done()
				return
			}
			hang("create")
		}}
		cfg.Threads.Channels["fake"] = host
		cfg.Hooks.Spawning = func(context.Context, agent.SpawningHook) error {
			hang("spawning")
			return nil
		}
		cfg.Owner = func(context.Context, session.Key, session.Sender) (bool, error) {
			hang("owner")
			return false, nil
		}
		cfg.Rules.Owners = []policy.Person{{ID: "bob"}}
		cfg.Rules.Attachments.Enabled = true
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		w.rt, w.main = rt, rt.Session(topKey)
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		for _, child := range []*session.Key{&w.archived, nil} {
			w.child, err = w.main.Spawn(t.Context(), agent.Task{Text: "x", Name: "n"})
			require.NoError(t, err)
			_, err = w.child.Wait(t.Context())
			require.NoError(t, err)
			if child != nil {
				*child = w.child.Key()
				require.NoError(t, rt.DeleteSession(t.Context(), w.child.Key()))
			}
		}
		f(t, w, chat)
		_ = errors.Join(rt.Shutdown(t.Context()), <-ran) // either may name what hangs
	})
}

// A stuckHost is a ThreadHost that calls a function before it has created a thread, and ignores its
// ctx.
type stuckHost struct {
	agent.ThreadHost

	hang func(ctx context.Context)
}

func (h stuckHost) CreateThread(
	ctx context.Context, t agent.NewThread,
) (session.Route, error) {
	h.hang(ctx)
	return h.ThreadHost.CreateThread(context.WithoutCancel(ctx), t)
}

// A call returns when its ctx ends, and when the hard phase of a shutdown begins, whatever of the
// caller's does not return: a store, a hook, a ThreadHost, a Reader. A command says that nothing is
// recorded. A shutdown says that something has not returned, and takes one grace period.
func TestCallsThatDoNotOutliveTheirContext(t *testing.T) {
	for name, c := range outlivings {
		for _, shut := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", shut), func(t *testing.T) {
				store, hangs := deaf(c.method)
				inOutliveWorld(t, store, func(
					t *testing.T, w *outliveWorld, _ *agenttest.FakeChannel,
				) {
					defer close(w.free)
					defer hangs.free()
					hangs.gate = make(chan struct{}) // of the bubble
					hangs.arm()
					ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
					defer cancel()
					over := make(chan error, 1)
					began := time.Now()
					if shut {
						ended, end := context.WithCancel(t.Context())
						end()
						time.AfterFunc(time.Second, func() { over <- w.rt.Shutdown(ended) })
					}
					err := c.call(ctx, w)
					took, want, cause := time.Since(began), 9*time.Second, context.DeadlineExceeded
					if shut {
						want, cause = time.Second, agent.ErrShutdown
					}
					require.ErrorIs(t, err, cause)
					require.Equal(t, want, took, "%v", err)
					require.Equal(t, !c.reads, errors.Is(err, agent.ErrNotRecorded), "%v", err)
					require.NotErrorIs(t, err, agent.ErrNotFound)
					require.NotErrorIs(t, err, agent.ErrUnconfirmed)
					if shut {
						var still *agent.StillRunningError
						require.ErrorAs(t, <-over, &still)
						require.LessOrEqual(t, time.Since(began), 6200*time.Millisecond)
					}
				})
			})
		}
	}
}

// unreadableLines are Transcripts that cannot be read.
type unreadableLines struct {
	session.Transcripts

	err *error
}

func (u unreadableLines) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	if *u.err != nil {
		return func(yield func(session.Line, error) bool) { yield(session.Line{}, *u.err) }
	}
	return u.Transcripts.Read(ctx, ref, q)
}

// Whether a session is archived is in its transcript. If that cannot be read, a call says so, and
// not that the session is not there. One that never was is not found.
func TestArchivedSessionsThatCannotBeRead(t *testing.T) {
	for name, c := range outlivings {
		if c.method != "Transcripts.Read" || c.shows {
			continue
		}
		for _, bad := range []error{errDisk, session.ErrCorrupt, session.ErrClosed} {
			t.Run(fmt.Sprint(name, " ", bad), func(t *testing.T) {
				store, failing := session.NewMemory(), error(nil)
				store.Transcripts = unreadableLines{store.Transcripts, &failing}
				inOutliveWorld(t, store, func(
					t *testing.T, w *outliveWorld, _ *agenttest.FakeChannel,
				) {
					defer close(w.free)
					if name != "revive" {
						require.ErrorIs(t, c.call(t.Context(), w), agent.ErrArchived)
					}
					failing = bad
					err := c.call(t.Context(), w)
					failing = nil
					require.ErrorIs(t, err, bad)
					require.NotErrorIs(t, err, agent.ErrNotFound)
					require.Equal(t, !c.reads, errors.Is(err, agent.ErrNotRecorded), "%v", err)
					if name != "revive" {
						require.ErrorIs(t, err, agent.ErrUnreadable)
					}
					w.archived = w.gone
					err = c.call(t.Context(), w)
					require.ErrorIs(t, err, agent.ErrNotFound)
					require.NotErrorIs(t, err, agent.ErrArchived)
					require.NotErrorIs(t, err, agent.ErrNotRecorded)
				})
			})
		}
	}
}

// A thread that a ThreadHost creates after its caller has left gets one farewell.
func TestThreadThatIsCreatedLate(t *testing.T) {
	for _, name := range []string{"spawn in a thread", "focus in a thread"} {
		t.Run(name, func(t *testing.T) {
			inOutliveWorld(t, session.NewMemory(), func(
				t *testing.T, w *outliveWorld, chat *agenttest.FakeChannel,
			) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, outlivings[name].call(ctx, w), agent.ErrNotRecorded)
				time.Sleep(time.Minute)
				require.Empty(t, chat.Threads())
				close(w.free)
				time.Sleep(time.Minute)
				require.Len(t, chat.Threads(), 1)
				require.Len(t, chat.Farewells(chat.Threads()[0]), 1)
				bound, err := w.rt.Bindings(t.Context())
				require.NoError(t, err)
				require.Empty(t, bound)
			})
		})
	}
}

// A spawn in a thread whose binding is recorded after its caller has left, or never is, has one
// farewell there: under one key, whatever is tried meanwhile and by whichever process.
func TestFarewellOfASpawnThatIsRecordedLate(t *testing.T) {
	for _, lands := range []bool{true, false} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprint(lands, " ", again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testLateFarewell(t, lands, again)
				})
			})
		}
	}
}

// testLateFarewell has the append of a binding return after its caller has left. It is in the log
// if it lands. The process after that has nothing more to say.
func testLateFarewell(t *testing.T, lands, again bool) {
	store, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
	j := &lateJournal{Journal: store.Journal, lands: lands, free: make(chan struct{})}
	store.Journal = j
	var thread session.Route
	onCutWorld(t, cutConfig(store, chat), func(w *cutWorld) {
		before := len(chat.Threads())
		j.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.main.Spawn(ctx, agent.Task{Text: "x", Thread: true, Conversation: w.at})
		require.ErrorIs(t, err, agent.ErrUnconfirmed)
		require.Len(t, chat.Threads(), before+1)
		thread = chat.Threads()[before]
		time.Sleep(time.Minute)
		j.hangs.Store(false)
		close(j.free)
		time.Sleep(time.Hour)
		require.Len(t, chat.Farewells(thread), 1)
	})
	if again {
		onCutWorld(t, cutConfig(store, chat), func(*cutWorld) { time.Sleep(time.Hour) })
	}
	require.Len(t, chat.Farewells(thread), 1)
}

// A lateJournal has appends to the log of bindings return when it is freed: then they happen if
// they land.
type lateJournal struct {
	session.Journal

	lands bool
	hangs atomic.Bool
	free  chan struct{}
}

func (j *lateJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if isBindings(root) && j.hangs.Load() {
		<-j.free
		if !j.lands {
			return 0, errDisk
		}
		ctx = context.WithoutCancel(ctx)
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A client's answer may come in the moment in which its ctx ends. What is done with the thread then
// shares nothing with the caller that leaves, and the thread gets one farewell.
func TestThreadThatIsCreatedAsItsCallerLeaves(t *testing.T) {
	for _, name := range []string{"spawn in a thread", "focus in a thread"} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // which of the two is first is up to chance
				inOutliveWorld(t, session.NewMemory(), func(
					t *testing.T, w *outliveWorld, chat *agenttest.FakeChannel,
				) {
					defer close(w.free)
					w.obeys = true
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := outlivings[name].call(ctx, w)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, agent.ErrNotRecorded)
					time.Sleep(time.Minute)
					require.Len(t, chat.Threads(), 1)
					require.Len(t, chat.Farewells(chat.Threads()[0]), 1)
				})
			}
		})
	}
}

// tableCommands change the table of bindings. A message does so only when it is recorded itself.
var tableCommands = map[string]func(ctx context.Context, w *cutWorld) error{
	"focus": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: session.Route{Channel: "fake", To: "other"}, Session: w.ended.Key(), By: "a",
		}))
	},
	"focus in a thread": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: w.at, Session: w.ended.Key(), By: "a", NewThread: true,
		}))
	},
	"unfocus": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: w.bound, By: "a"}))
	},
	"limit": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.rt.LimitFocus(ctx, w.bound, "a", binding.Limit{Idle: new(time.Hour)}))
	},
	"spawn in a thread": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.main.Spawn(ctx, agent.Task{Text: "x", Thread: true, Conversation: w.at}))
	},
	"spawn in a conversation": func(ctx context.Context, w *cutWorld) error {
		return errorOf(w.main.Spawn(ctx, agent.Task{
			Text: "x", Thread: true,
			Conversation: session.Route{Channel: "fake", To: "general", Thread: "other"},
		}))
	},
}

// A command over an append to the table of bindings that ignores its ctx leaves when its own ctx
// ends, or when the hard phase of a shutdown begins, and says that the append may come to be.
func TestTableCommandsLeaveInTime(t *testing.T) {
	for name, command := range tableCommands {
		for _, shut := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", shut), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
					j := &lateJournal{Journal: store.Journal, free: make(chan struct{})}
					store.Journal = j
					onCutWorld(t, cutConfig(store, chat), func(w *cutWorld) {
						defer close(j.free)
						j.hangs.Store(true)
						ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
						defer cancel()
						want, cause := 9*time.Second, context.DeadlineExceeded
						over := make(chan error, 1)
						if shut {
							want, cause = time.Second, agent.ErrShutdown
							ended, end := context.WithCancel(t.Context())
							end()
							time.AfterFunc(time.Second, func() { over <- w.rt.Shutdown(ended) })
						}
						began := time.Now()
						err := command(ctx, w)
						require.Equal(t, want, time.Since(began), "%v", err)
						require.ErrorIs(t, err, cause)
						require.ErrorIs(t, err, agent.ErrUnconfirmed)
						require.NotErrorIs(t, err, agent.ErrNotRecorded)
						if shut {
							t.Log(<-over) // it may name what hangs
						}
					})
				})
			})
		}
	}
}

// A thread whose binding hangs in the store as the process shuts down ends with one farewell, also
// over a restart: whether the append happens after all or never, and whether the caller has left
// before the shutdown or with it.
func TestThreadsThatAShutdownCuts(t *testing.T) {
	for _, name := range []string{"focus in a thread", "spawn in a thread"} {
		for _, lands := range []bool{false, true} {
			for _, within := range []time.Duration{time.Second, time.Minute} {
				t.Run(fmt.Sprint(name, " ", lands, " ", within), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						testCutThread(t, tableCommands[name], lands, within)
					})
				})
			}
		}
	}
}

func testCutThread(
	t *testing.T, command func(context.Context, *cutWorld) error, lands bool, within time.Duration,
) {
	store, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
	j := &lateJournal{Journal: store.Journal, lands: lands, free: make(chan struct{})}
	store.Journal = j
	var thread session.Route
	onCutWorld(t, cutConfig(store, chat), func(w *cutWorld) {
		before := len(chat.Threads())
		j.hangs.Store(true)
		ended, end := context.WithCancel(t.Context())
		end()
		over := make(chan error, 1)
		time.AfterFunc(time.Second, func() { over <- w.rt.Shutdown(ended) })
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		err := command(ctx, w)
		require.ErrorIs(t, err, agent.ErrUnconfirmed)
		require.Len(t, chat.Threads(), before+1)
		thread = chat.Threads()[before]
		t.Log(<-over) // it may name what hangs
	})
	j.hangs.Store(false)
	close(j.free)
	synctest.Wait()
	require.LessOrEqual(t, len(chat.Farewells(thread)), 1)
	onCutWorld(t, cutConfig(store, chat), func(w *cutWorld) {
		time.Sleep(time.Hour)
		list, err := w.rt.Bindings(t.Context())
		require.NoError(t, err)
		for _, b := range list {
			require.NotEqual(t, thread, b.Conversation)
		}
	})
	require.Len(t, chat.Farewells(thread), 1)
}
