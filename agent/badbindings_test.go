package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
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

// An oddJournal is a Journal that misbehaves over some logs, in the next calls.
type oddJournal struct {
	session.Journal

	mu      sync.Mutex
	of      func(root session.Key) bool
	act     func() error
	pass    int // appends that do not misbehave yet
	appends int // that misbehave
	reads   int
	late    bool // the append has happened then
	free    chan struct{}
}

func (j *oddJournal) set(appends, reads int, late bool, act func() error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.appends, j.reads, j.late, j.act = appends, reads, late, act
}

// next returns what the next call does, and whether it does its work before; nil: nothing odd.
func (j *oddJournal) next(root session.Key, left *int) (act func() error, late bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.of(root) || *left == 0 {
		return nil, false
	}
	*left--
	return j.act, j.late
}

func (j *oddJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	act, late := j.next(root, &j.appends)
	if act != nil && j.passes() {
		act = nil
	}
	if act == nil || late {
		seq, err := j.Journal.Append(ctx, root, after, b)
		if act == nil || err != nil {
			return seq, err
		}
	}
	return 0, act()
}

// passes reports whether an append is still one of those that do not misbehave.
func (j *oddJournal) passes() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pass--
	return j.pass >= 0
}

func (j *oddJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	if act, _ := j.next(root, &j.reads); act != nil {
		err := act()
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, err) }
	}
	return j.Journal.Read(ctx, root, after)
}

func isBindings(root session.Key) bool { return root == session.BindingsRoot() }

func isTree(root session.Key) bool { return root.IsValid() }

// oddities are what a journal does, over its free channel.
var oddities = map[string]func(free <-chan struct{}) error{
	"fails":                  func(<-chan struct{}) error { return errDisk },
	"says that it is not":    func(<-chan struct{}) error { return session.ErrNotFound },
	"panics":                 func(<-chan struct{}) error { panic("disk on fire") },
	"panics with an error":   func(<-chan struct{}) error { panic(session.ErrConflict) },
	"ends the goroutine":     func(<-chan struct{}) error { runtime.Goexit(); return nil },
	"sees others where none": func(<-chan struct{}) error { return session.ErrConflict },
	"is damaged":             func(<-chan struct{}) error { return session.ErrCorrupt },
	"hangs":                  func(free <-chan struct{}) error { <-free; return errDisk },
}

const endless = 1 << 30

// bindingCommands are the cutCommands that are about bindings.
var bindingCommands = []string{
	"focus", "focus in a new thread", "unfocus", "limit", "spawn in a thread",
	"post to a bound conversation",
}

// Whatever a journal does over the log of bindings, or to the tree of the session: a command that
// fails says whether it is on record, as every other does, and one that was not recorded has
// changed nothing. One that the journal fails once is tried again. In the next process the
// conversation has one session, in the log and in its tree alike.
func TestBindingsOfAJournalThatMisbehaves(t *testing.T) {
	for what, act := range oddities {
		for _, name := range bindingCommands {
			for when, set := range map[string]func(j *oddJournal, act func() error){
				"once":         func(j *oddJournal, act func() error) { j.set(1, 0, false, act) },
				"once, late":   func(j *oddJournal, act func() error) { j.set(1, 0, true, act) },
				"always":       func(j *oddJournal, act func() error) { j.set(endless, 0, false, act) },
				"always, late": func(j *oddJournal, act func() error) { j.set(endless, 0, true, act) },
				"and cannot be read": func(j *oddJournal, act func() error) {
					j.set(endless, endless, false, act)
				},
			} {
				for where, of := range map[string]func(session.Key) bool{
					"log": isBindings, "tree": isTree, "both": func(session.Key) bool { return true },
				} {
					if !playsOneOf(8) {
						continue
					}
					t.Run(where+" "+what+" "+when+" "+name, func(t *testing.T) {
						c := oddCase{what: what, name: name, of: of, inLog: where == "log"}
						c.once = when == "once" || when == "once, late"
						synctest.Test(t, func(t *testing.T) {
							c.play(t, func(j *oddJournal) {
								set(j, func() error { return act(j.free) })
							})
						})
					})
				}
			}
		}
	}
}

// A binding that ends while the tree of its session cannot be read, in a whole life of a process,
// is said to have ended, and leaves the tree when that was repaired.
func TestBindingEndsWhileItsTreeIsDamaged(t *testing.T) {
	for _, damage := range []error{
		session.ErrCorrupt, session.ErrFormat, session.ErrUnsafe, session.ErrReadOnly, errDisk,
	} {
		for _, how := range []string{"unfocus", "expiry"} {
			if !playsOneOf(3) {
				continue
			}
			t.Run(fmt.Sprint(how, " ", damage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
					cfg := cutConfig(memory, chat)
					cfg.Rules.Subagents.ArchiveAfter = policy.Off
					var w cutWorld
					onCutWorld(t, cfg, func(made *cutWorld) {
						w = *made
						chat.Set(w.bound, agent.ThreadOpen)
					})
					j := &oddJournal{Journal: memory.Journal, of: isTree}
					j.set(endless, endless, false, func() error { return damage })
					broken := cfg
					broken.Store = new(*memory)
					broken.Store.Journal = j
					running(t, broken, func(rt *agent.Runtime) {
						if how == "unfocus" {
							q := agent.UnfocusRequest{Conversation: w.bound, By: "a"}
							_, err := rt.Unfocus(t.Context(), q)
							require.NoError(t, err)
						}
						time.Sleep(26 * time.Hour)
						if session.IsPermanent(damage) { // else the tree is told first
							require.Len(t, chat.Farewells(w.bound), 1)
						}
					})
					running(t, cfg, func(rt *agent.Runtime) {
						time.Sleep(26 * time.Hour)
						requireAgreement(t, rt, memory)
						require.Empty(t, boundTo(t, rt, w.ended.Key()))
					})
					for _, said := range chat.Farewells(w.bound) {
						require.Equal(t, chat.Farewells(w.bound)[0].Key, said.Key)
					}
				})
			})
		}
	}
}

// An oddCase is a command, and where the journal misbehaves.
type oddCase struct {
	what, name string
	of         func(session.Key) bool
	once       bool
	inLog      bool // and not in the tree
}

func (c oddCase) play(t *testing.T, misbehave func(j *oddJournal)) {
	memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
	j := &oddJournal{Journal: memory.Journal, of: c.of, free: make(chan struct{})}
	store := *memory
	store.Journal = j
	var before, now []session.Route
	var w cutWorld
	var failed error
	onCutWorld(t, cutConfig(&store, chat), func(made *cutWorld) {
		w = *made
		chat.Set(w.bound, agent.ThreadOpen)
		before = boundTo(t, w.rt, w.ended.Key())
		requireAgreement(t, w.rt, memory)
		misbehave(j)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		began := time.Now()
		failed = cutCommands[c.name](ctx, made)
		cancel()
		if c.inLog && c.name == "post to a bound conversation" {
			require.LessOrEqual(t, time.Since(began), time.Second, "the log is not waited for")
		}
		j.set(0, 0, false, nil)
		close(j.free)
		if failed != nil {
			not := errors.Is(failed, agent.ErrNotRecorded)
			require.NotEqual(t, not, errors.Is(failed, agent.ErrUnconfirmed), "%v", failed)
			require.NotErrorIs(t, failed, agent.ErrNotFound)
		}
		if c.once && c.what != "hangs" && c.what != "sees others where none" ||
			c.inLog && c.name == "post to a bound conversation" {
			require.NoError(t, failed)
		}
		now = boundTo(t, w.rt, w.ended.Key())
		if errors.Is(failed, agent.ErrNotRecorded) {
			require.Equal(t, before, now)
		}
		time.Sleep(time.Minute)
	})
	running(t, cutConfig(memory, chat), func(rt *agent.Runtime) {
		time.Sleep(time.Hour)
		requireAgreement(t, rt, memory)
		now = boundTo(t, rt, w.ended.Key())
		switch {
		case errors.Is(failed, agent.ErrNotRecorded):
			require.Equal(t, before, now)
		case failed == nil && (c.name == "focus" || c.name == "unfocus"):
			require.Empty(t, now)
		case failed == nil && c.name == "focus in a new thread":
			require.Len(t, now, 2)
		}
		if c.name == "focus" && len(now) == 0 {
			require.Equal(t, []session.Route{w.bound}, boundTo(t, rt, w.main.Key()))
		}
		if c.name == "post to a bound conversation" { // the transport posts it again
			require.NoError(t, cutCommands[c.name](t.Context(), &cutWorld{rt: rt, bound: w.bound}))
			require.Equal(t, 1, told(t, memory, "1"))
		}
		list, err := rt.Bindings(t.Context())
		require.NoError(t, err)
		for _, at := range chat.Threads() { // each is of a session, or says that it is not
			if len(chat.Farewells(at)) == 0 {
				is := func(of binding.Binding) bool { return of.Conversation == at }
				require.True(t, slices.ContainsFunc(list, is), "%v", at)
			}
		}
	})
}

// A Focus that moves a conversation to a session of another tree, of which no binding is on record,
// does all or nothing, after whichever of its appends the store has gone, for a while or for ever,
// or keeps what is appended to the log of bindings and does not say so. The
// conversation has one session, in the log and in its tree alike.
func TestFocusWhenTheStoreGoes(t *testing.T) {
	for i := range 7 * 4 {
		n, forEver, blind := i%7, i/7%2 == 0, i/14 == 0
		t.Run(fmt.Sprint(n, " ", forEver, " ", blind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
				other := session.Must(session.MainKey("other"))
				j := &oddJournal{Journal: memory.Journal, of: isBindings}
				if !blind {
					j.of = func(session.Key) bool { return true }
				}
				store := *memory
				store.Journal = j
				var at session.Route
				var failed error
				cfg := cutConfig(&store, chat)
				cfg.Grace = time.Second
				var ended session.Key
				onCutWorld(t, cfg, func(w *cutWorld) {
					at, ended = w.bound, w.ended.Key()
					chat.Set(at, agent.ThreadOpen)
					j.pass = n
					j.set(endless, 0, false, func() error { return errDisk })
					if blind { // what is appended is kept, and cannot be read
						j.set(endless, endless, true, j.act)
					}
					q := agent.FocusRequest{Conversation: at, Session: other, By: "a"}
					_, failed = w.rt.Focus(t.Context(), q)
					if !forEver {
						j.set(0, 0, false, nil)
						time.Sleep(time.Minute)
						requireAgreement(t, w.rt, memory)
					}
				})
				running(t, cutConfig(memory, chat), func(rt *agent.Runtime) {
					time.Sleep(time.Minute)
					requireAgreement(t, rt, memory)
					to := ended
					if failed == nil {
						to = other
					} else if len(boundTo(t, rt, other)) > 0 {
						require.ErrorIs(t, failed, agent.ErrUnconfirmed)
						to = other
					}
					require.Equal(t, []session.Route{at}, boundTo(t, rt, to))
					require.Empty(t, chat.Farewells(at))
				})
			})
		})
	}
}

// A store that fails in the middle of a spawn with a thread, for a while or until the next process,
// leaves nothing half done: the thread is the sub-agent's, in the log of bindings and in its tree,
// or it is bound to none and people were told once that nothing came of it. A spawn that was not
// recorded has left no sub-agent.
func TestThreadOfASpawnWhenTheStoreGoes(t *testing.T) {
	happened := make(map[string]int)
	for where, of := range map[string]func(session.Key) bool{
		"log": isBindings, "tree": isTree, "both": func(session.Key) bool { return true },
	} {
		for i := range 2 * 4 { // a spawn appends to each once
			n, forEver, late := i%2, i/2%2 == 0, i/4 == 0
			t.Run(fmt.Sprint(where, " ", n, " ", forEver, " ", late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					j := &oddJournal{of: of, pass: n}
					happened[playSpawnWhenTheStoreGoes(t, j, forEver, late)]++
				})
			})
		}
	}
	t.Log(happened)
	for _, what := range []string{"recorded", "recorded after all", "farewell"} {
		require.NotZero(t, happened[what], what)
	}
}

// playSpawnWhenTheStoreGoes returns what became of the thread of a spawn.
func playSpawnWhenTheStoreGoes(
	t *testing.T, j *oddJournal, forEver, late bool,
) (became string) {
	memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
	store, pass := *memory, j.pass
	j.Journal, store.Journal = memory.Journal, j
	cfg := cutConfig(&store, chat)
	cfg.Grace = time.Second
	var child *agent.Child[string]
	var failed error
	settled := func(rt *agent.Runtime) {
		requireAgreement(t, rt, memory)
		at := chat.Threads()[1] // the first one is that of the world
		said := chat.Farewells(at)
		list, err := rt.Bindings(t.Context())
		require.NoError(t, err)
		i := slices.IndexFunc(list, func(b binding.Binding) bool { return b.Conversation == at })
		switch {
		case failed == nil:
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, child.Key(), list[i].Target)
			became = "recorded"
		case i >= 0:
			require.ErrorIs(t, failed, agent.ErrUnconfirmed)
			became = "recorded after all"
		default:
			require.Len(t, said, 1)
			if became = "farewell"; !errors.Is(failed, agent.ErrUnconfirmed) {
				require.Equal(t, binding.ReasonSpawnFailed, said[0].Reason)
			}
			return
		}
		require.Empty(t, said)
	}
	onCutWorld(t, cfg, func(w *cutWorld) {
		j.pass = pass
		j.set(endless, 0, late, func() error { return errDisk })
		child, failed = w.main.Spawn(t.Context(), agent.Task{
			Text: "x", Thread: true, Conversation: w.at,
		})
		if !forEver {
			j.set(0, 0, false, nil)
			time.Sleep(time.Minute)
			settled(w.rt)
		}
	})
	running(t, cutConfig(memory, chat), func(rt *agent.Runtime) {
		time.Sleep(time.Minute)
		settled(rt)
	})
	return became
}

// A claimJournal calls claimed when the log of bindings has grown.
type claimJournal struct {
	session.Journal

	claimed func()
}

func (j *claimJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	seq, err := j.Journal.Append(ctx, root, after, b)
	if err == nil && isBindings(root) {
		j.claimed()
	}
	return seq, err
}

// What comes between the thread of a spawn and its run, and forbids that, leaves a thread that is
// bound to none, in which people are told at once that nothing came of it.
func TestSpawnIsRefusedWhenItsThreadIsBound(t *testing.T) {
	for name, between := range map[string]func(ctx context.Context, w *cutWorld) error{
		"the last children": func(ctx context.Context, w *cutWorld) error {
			alive := agent.Task{Text: "x", Label: "alive"}
			_, err := w.rt.Session(w.alive.Key()).Spawn(ctx, alive)
			_, other := w.rt.Session(w.alive.Key()).Spawn(ctx, alive)
			return errors.Join(err, other)
		},
		"another task under the key": func(ctx context.Context, w *cutWorld) error {
			_, err := w.rt.Session(w.alive.Key()).Spawn(ctx, agent.Task{Text: "y", Key: "k"})
			return err
		},
		"a stop": func(ctx context.Context, w *cutWorld) error { return w.alive.Stop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
				j := &claimJournal{Journal: memory.Journal, claimed: func() {}}
				store := *memory
				store.Journal = j
				cfg := cutConfig(&store, chat)
				cfg.Rules.Subagents.MaxSpawnDepth = 2
				cfg.Rules.Subagents.MaxChildren = 2
				onCutWorld(t, cfg, func(w *cutWorld) {
					j.claimed = sync.OnceFunc(func() {
						require.NoError(t, between(t.Context(), w))
					})
					_, err := w.rt.Session(w.alive.Key()).Spawn(t.Context(), agent.Task{
						Text: "x", Key: "k", Thread: true, Conversation: w.at,
					})
					require.Error(t, err)
					require.NotErrorIs(t, err, agent.ErrUnconfirmed)
					time.Sleep(time.Minute)
					at := chat.Threads()[1]
					said := chat.Farewells(at)
					require.Len(t, said, 1)
					require.Equal(t, binding.ReasonSpawnFailed, said[0].Reason)
					list, err := w.rt.Bindings(t.Context())
					require.NoError(t, err)
					require.False(t, slices.ContainsFunc(list, func(b binding.Binding) bool {
						return b.Conversation == at
					}))
				})
			})
		})
	}
}

// While the log of bindings cannot be read, a command says that it is not recorded, and creates no
// thread; what only reads says that it is unreadable, and nothing of a record. Both name the cause
// of a ctx that has ended. A moment later all is well.
func TestBindingsThatCannotBeRead(t *testing.T) {
	for what, act := range oddities {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
				j := &oddJournal{Journal: memory.Journal, of: isBindings, free: make(chan struct{})}
				store := *memory
				store.Journal = j
				var w cutWorld
				onCutWorld(t, cutConfig(memory, chat), func(made *cutWorld) { w = *made })
				chat.Set(w.bound, agent.ThreadOpen)
				j.set(0, endless, false, func() error { return act(j.free) })
				running(t, cutConfig(&store, chat), func(rt *agent.Runtime) {
					now := w
					now.rt, now.main = rt, rt.Session(w.main.Key())
					for _, name := range bindingCommands {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						err := cutCommands[name](ctx, &now)
						require.ErrorIs(t, err, agent.ErrNotRecorded, name)
						require.NotErrorIs(t, err, agent.ErrUnconfirmed, name)
						require.NotErrorIs(t, err, agent.ErrNotFound, name)
						_, err = rt.Bindings(ctx)
						require.Error(t, err)
						require.NotErrorIs(t, err, agent.ErrNotRecorded)
						if ctx.Err() == nil {
							require.ErrorIs(t, err, agent.ErrUnreadable)
						}
						cancel()
						_, err = rt.Bindings(ctx)
						require.Equal(t, context.Cause(ctx), err)
					}
					require.Len(t, chat.Threads(), 1)
					j.set(0, 0, false, nil)
					close(j.free)
					time.Sleep(time.Minute)
					require.Equal(t, []session.Route{w.bound}, boundTo(t, rt, w.ended.Key()))
					requireAgreement(t, rt, memory)
					require.NoError(t, cutCommands["post to a bound conversation"](t.Context(), &now))
					require.Equal(t, 1, told(t, memory, "1"))
				})
			})
		})
	}
}

// boundTo returns the conversations that are bound to a session.
func boundTo(t *testing.T, rt *agent.Runtime, key session.Key) (list []session.Route) {
	t.Helper()
	all, err := rt.Bindings(t.Context())
	require.NoError(t, err)
	for _, of := range all {
		if of.Target == key {
			list = append(list, of.Conversation)
		}
	}
	return list
}

// requireAgreement checks that the trees on record have the conversations that are bound, and no
// others.
func requireAgreement(t *testing.T, rt *agent.Runtime, store *session.Store) {
	t.Helper()
	want, got := make(map[session.Route][]session.Key), make(map[session.Route][]session.Key)
	all, err := rt.Bindings(t.Context())
	require.NoError(t, err)
	for _, of := range all {
		want[of.Conversation] = []session.Key{of.Target}
	}
	for f := range factsOfTrees(t, store) {
		switch f.Kind {
		case "bound":
			got[f.Route] = append(got[f.Route], f.Run)
		case "unbound":
			got[f.Route] = slices.DeleteFunc(got[f.Route],
				func(k session.Key) bool { return k == f.Run })
		}
	}
	maps.DeleteFunc(got, func(_ session.Route, keys []session.Key) bool { return len(keys) == 0 })
	require.Equal(t, want, got)
}

// told returns how often a message was told to a session.
func told(t *testing.T, store *session.Store, id string) (n int) {
	t.Helper()
	for f := range factsOfTrees(t, store) {
		if f.ID == id && (f.Kind == "posted" || f.Kind == "restarted") {
			n++
		}
	}
	return n
}

// factsOfTrees yields what is on record of the trees of a store.
func factsOfTrees(t *testing.T, store *session.Store) iter.Seq[treeFact] {
	return func(yield func(treeFact) bool) {
		for head, err := range store.Journal.Roots(t.Context(), session.RootQuery{}) {
			require.NoError(t, err)
			if isBindings(head.Root) {
				continue
			}
			for e, err := range store.Journal.Read(t.Context(), head.Root, 0) {
				require.NoError(t, err)
				var f treeFact
				require.NoError(t, readAs(e, &f))
				if !yield(f) {
					return
				}
			}
		}
	}
}
