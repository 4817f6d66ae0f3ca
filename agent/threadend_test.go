package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
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

// sayOK answers every turn.
var sayOK = agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
	return agent.Result{Text: "ok"}, nil
})

// 7.18, 7.19: a session stays bound when its run ends, and not when it is stopped; a run is unbound
// when its result has been told.
func TestEndOfARunInAThread(t *testing.T) {
	for name, c := range map[string]struct {
		mode   agent.TaskMode
		stop   bool
		fail   bool
		reason binding.Reason
		bound  bool
	}{
		"session":         {mode: agent.TaskModeAuto, bound: true},
		"session stopped": {mode: agent.TaskModeSession, stop: true, reason: binding.ReasonSubagentStopped},
		"run":             {mode: agent.TaskModeRun, reason: binding.ReasonSubagentOK},
		"run stopped":     {mode: agent.TaskModeRun, stop: true, reason: binding.ReasonSubagentStopped},
		"session failed":  {mode: agent.TaskModeSession, fail: true, bound: true},
		"run failed":      {mode: agent.TaskModeRun, fail: true, reason: binding.ReasonSubagentError},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: agent.RunnerFunc(
				func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					err := pause(ctx, time.Minute)
					switch {
					case tn.Run == "":
						return agent.Result{Text: "I see."}, nil
					case err == nil && c.fail && tn.N == 1:
						return agent.Result{}, errors.New("the tool is broken")
					}
					return agent.Result{Text: "done"}, err
				})}
			threadsOn(t, cfg, nil, func(b threadBot) {
				child, thread := b.spawnThread(agent.Task{Text: "x", Mode: c.mode, Announce: true})
				b.Pass(30 * time.Second)
				require.Len(t, b.bindings(), 1)
				if c.stop {
					require.NoError(t, child.Stop(b.Context()))
				}
				b.Pass(time.Hour)
				if c.bound {
					require.Len(t, b.bindings(), 1)
					require.Empty(t, b.chat.Farewells(thread))
					require.Equal(t, child.Key(), b.write(thread, "more").Session)
					return
				}
				require.Empty(t, b.bindings())
				told := b.chat.Farewells(thread)
				require.Len(t, told, 1)
				require.Equal(t, c.reason, told[0].Reason)
				require.NotEmpty(t, told[0].Text)
				require.NotContains(t, told[0].Text, "broken", "why is for the requester")
				own, err := b.chat.Key(thread)
				require.NoError(t, err)
				require.Equal(t, own, b.write(thread, "more").Session)
			})
		})
	}
}

// A farewell is said at least once under a stable key, whatever the channel does, and holds up
// nothing else.
func TestFarewellOfAChannelThatFails(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, n int32) error{
		"fails": func(_ context.Context, n int32) error {
			if n < 3 {
				return errors.New("the channel is down")
			}
			return nil
		},
		"panics": func(_ context.Context, n int32) error {
			if n < 2 {
				panic("the channel is broken")
			}
			return nil
		},
		"ends its goroutine": func(_ context.Context, n int32) error {
			if n < 2 {
				runtime.Goexit()
			}
			return nil
		},
		"waits for its context": func(ctx context.Context, n int32) error {
			if n < 2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
		"hangs beyond its context": func(_ context.Context, n int32) error {
			if n < 2 {
				time.Sleep(10 * time.Minute)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			threadsOn(t, agent.Config{Runner: sayOK}, nil, func(b threadBot) {
				_, first := b.spawnThread(agent.Task{Text: "x"})
				_, second := b.spawnThread(agent.Task{Text: "x"})
				var calls, atOnce atomic.Int32
				b.chat.Intercept(func(ctx context.Context, c agenttest.FakeCall) error {
					if c.Op != "farewell" || c.At != first || c.Done {
						return nil
					}
					require.Equal(t, int32(1), atOnce.Add(1), "one call at a time")
					defer atOnce.Add(-1)
					return fail(ctx, calls.Add(1))
				})
				for _, at := range []session.Route{first, second} {
					_, err := b.Runtime().Unfocus(
						b.Context(), agent.UnfocusRequest{Conversation: at, By: "anyone"})
					require.NoError(t, err)
				}
				b.Pass(time.Second)
				require.Len(t, b.chat.Farewells(second), 1, "the other conversation goes on")
				b.Pass(29 * time.Minute)
				require.Len(t, b.chat.Farewells(first), 1)
			})
		})
	}
}

// A farewell that fails for half an hour is given up, and not tried by the next process. The log
// has where what was not said, and each failure before that names the session.
func TestFarewellIsGivenUp(t *testing.T) {
	var log bytes.Buffer
	var of session.Key
	cfg := agent.Config{Runner: sayOK, Logger: slog.New(slog.NewJSONHandler(&log, nil))}
	threadsOn(t, cfg, nil, func(b threadBot) {
		child, thread := b.spawnThread(agent.Task{Text: "x", Label: "painter"})
		of = child.Key()
		var calls atomic.Int32
		b.chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			if c.Op == "farewell" {
				calls.Add(1)
				return errors.New("the channel is down")
			}
			return nil
		})
		_, err := b.Runtime().Unfocus(
			b.Context(), agent.UnfocusRequest{Conversation: thread, By: "anyone"})
		require.NoError(t, err)
		b.Pass(2 * time.Hour)
		tries := calls.Load()
		require.Greater(t, tries, int32(5))
		require.Less(t, tries, int32(20))
		b.Crash()
		b.Pass(2 * time.Hour)
		require.Equal(t, tries, calls.Load())
	})
	given := 0
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		if !strings.Contains(record["msg"].(string), "farewell") {
			continue
		}
		require.Equal(t, of.String(), record["session"], line)
		require.Equal(t, map[string]any{
			"channel": "discord", "to": "general", "thread": "thread-1",
		}, record["conversation"], line)
		if record["level"] == "ERROR" {
			given++
			require.Equal(t, "manual", record["reason"])
			require.Contains(t, record["text"], `The agent "painter" was sent away`)
		}
	}
	require.Equal(t, 1, given)
}

// A farewell is given up once, also where the rest of what is owed for the end is tried on: the
// tree of the session, or what records the end in the log of bindings.
func TestFarewellIsGivenUpOnce(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(session.Key) bool
		fail error
	}{
		"the tree is damaged":    {isTree, session.ErrCorrupt},
		"the log is not written": {isBindings, errDisk},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
				cfg := cutConfig(memory, chat)
				cfg.Rules.Subagents.ArchiveAfter = policy.Off
				var at session.Route
				onCutWorld(t, cfg, func(w *cutWorld) { at = w.bound })
				var calls atomic.Int32
				chat.Set(at, agent.ThreadOpen)
				chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
					if c.Op != "farewell" {
						return nil
					}
					calls.Add(1)
					return errors.New("the channel is down")
				})
				var log bytes.Buffer
				j := &oddJournal{Journal: memory.Journal, of: c.of}
				cfg.Store, cfg.Logger = new(*memory), slog.New(slog.NewTextHandler(&log, nil))
				cfg.Store.Journal = j
				running(t, cfg, func(rt *agent.Runtime) {
					if c.of(topKey) {
						j.set(endless, endless, false, func() error { return c.fail })
					}
					_, err := rt.Unfocus(t.Context(),
						agent.UnfocusRequest{Conversation: at, By: "a"})
					require.NoError(t, err)
					j.set(endless, endless, false, func() error { return c.fail })
					time.Sleep(5 * time.Hour)
					j.set(0, 0, false, nil)
					time.Sleep(5 * time.Hour)
				})
				require.Less(t, calls.Load(), int32(20))
				require.Equal(t, 1, strings.Count(log.String(), "a farewell is given up"))
			})
		})
	}
}

// A channel that hangs for ever holds a shutdown up for the grace period, and no longer.
func TestShutdownWithAChannelThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		chat := agenttest.NewFakeChannel("discord")
		cfg := agent.Config{Runner: sayOK, Grace: 5 * time.Second}
		chat.Connect(&cfg)
		chat.Intercept(func(_ context.Context, c agenttest.FakeCall) error {
			if c.Op == "farewell" {
				<-release
			}
			return nil
		})
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- rt.Run(ctx) }()
		main := session.Must(session.MainKey("main"))
		at := chat.At("general", "1")
		chat.Set(at, agent.ThreadOpen) // the first look around finds it
		_, err = rt.Focus(t.Context(), agent.FocusRequest{
			Conversation: at, Session: main, By: "alice",
		})
		require.NoError(t, err)
		_, err = rt.Unfocus(t.Context(), agent.UnfocusRequest{Conversation: at, By: "alice"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		began := time.Now()
		cancel()
		var left *agent.StillRunningError
		require.ErrorAs(t, <-done, &left)
		require.Equal(t, []session.Key{main}, left.Deliveries)
		require.Equal(t, cfg.Grace, time.Since(began))
		close(release)
		synctest.Wait()
	})
}

// A channel that creates no thread, or not the one that was asked for, refuses the spawn, and
// nothing is left.
func TestThreadThatCannotBeCreated(t *testing.T) {
	for name, c := range map[string]struct {
		create func(ctx context.Context, in session.Route) (session.Route, error)
		want   string
	}{
		"fails": {func(context.Context, session.Route) (session.Route, error) {
			return session.Route{}, errors.New("no permission")
		}, "no permission"},
		"7.3 nothing": {func(context.Context, session.Route) (session.Route, error) {
			return session.Route{}, nil
		}, "no channel or no recipient"},
		"another account": {func(_ context.Context, in session.Route) (session.Route, error) {
			in.Account, in.Thread = "other", "1"
			return in, nil
		}, "another channel or account"},
		"the conversation itself": {func(_ context.Context, in session.Route) (session.Route, error) {
			return in, nil
		}, "itself"},
		"panics": {func(context.Context, session.Route) (session.Route, error) {
			panic("broken")
		}, "broken"},
		"ends its goroutine": {func(context.Context, session.Route) (session.Route, error) {
			runtime.Goexit()
			return session.Route{}, nil
		}, "ended its goroutine"},
		"hangs": {func(context.Context, session.Route) (session.Route, error) {
			time.Sleep(time.Hour)
			return session.Route{}, nil
		}, "not returned in its time"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Runner: sayOK, DeliverTimeout: time.Minute}
			cfg.Threads.Channels = map[string]agent.ThreadChannel{"discord": {
				Host: creator{create: c.create},
			}}
			agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
				_, err := h.Main().Spawn(h.Context(), agent.Task{
					Text: "x", Thread: true,
					Conversation: session.Route{Channel: "discord", To: "general"},
				})
				failed := new(agent.CallbackError)
				require.ErrorAs(t, err, &failed)
				require.Equal(t, `Threads.Channels["discord"].Host`, failed.Field)
				require.ErrorContains(t, err, c.want)
				require.Empty(t, h.Runs())
				list, err := h.Runtime().Bindings(h.Context())
				require.NoError(t, err)
				require.Empty(t, list)
				h.Pass(2 * time.Hour)
			})
		})
	}
}

// A creator is a ThreadHost that creates threads in its own way.
type creator struct {
	agent.ThreadHost

	create func(ctx context.Context, in session.Route) (session.Route, error)
}

func (c creator) CreateThread(ctx context.Context, t agent.NewThread) (session.Route, error) {
	return c.create(ctx, t.In)
}

func (creator) Farewell(context.Context, agent.Farewell) error { return nil }

// At the start of a process threads that are gone are unbound without a word, archived ones with
// one, and those of which the channel does not know are kept. It is asked about eight at once.
func TestThreadsAreProbedAtTheStart(t *testing.T) {
	threadsOn(t, agent.Config{Runner: sayOK}, nil, func(b threadBot) {
		var threads []session.Route
		for i := range 20 {
			_, thread := b.spawnThread(agent.Task{Text: fmt.Sprint("x", i)})
			threads = append(threads, thread)
			b.Pass(time.Second)
		}
		b.chat.Set(threads[0], agent.ThreadGone)
		b.chat.Set(threads[1], agent.ThreadArchived)
		b.chat.Set(threads[2], agent.ThreadUncertain)
		var mu sync.Mutex
		now, most := 0, 0
		b.chat.Intercept(func(ctx context.Context, c agenttest.FakeCall) error {
			if c.Op != "probe" || c.Done {
				return nil
			}
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			switch c.At {
			case threads[3]:
				return errors.New("500")
			case threads[4]:
				panic("broken")
			case threads[5]:
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			return nil
		})
		b.Crash()
		b.Pass(10 * time.Minute)
		require.Equal(t, 8, most)
		require.Len(t, b.bindings(), 18)
		require.Empty(t, b.chat.Farewells(threads[0]))
		require.Len(t, b.chat.Farewells(threads[1]), 1)
		for _, at := range threads[2:] {
			require.Empty(t, b.chat.Farewells(at))
		}
	})
}

// A binding whose session does not have it any more ends at the start of a process, with a
// farewell. One of an earlier version names no tree, and is found all the same.
func TestStaleBindingsEndAtTheStart(t *testing.T) {
	store := session.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		table, err := binding.Open(t.Context(), store.Journal)
		require.NoError(t, err)
		chat := agenttest.NewFakeChannel("discord")
		main := session.Must(session.MainKey("main"))
		gone := session.Must(main.Child("main", "gone"))
		for i, q := range []binding.Request{
			{Target: gone, Root: main}, {Target: gone}, {Target: main, Root: main},
		} {
			q.Conversation, q.By = chat.At("general", fmt.Sprint(i)), binding.SystemOwner
			chat.Set(q.Conversation, agent.ThreadOpen)
			_, err = table.Bind(t.Context(), q, time.Now())
			require.NoError(t, err)
		}
		cfg := agent.Config{Runner: sayOK, Store: store}
		chat.Connect(&cfg)
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- rt.Run(t.Context()) }()
		time.Sleep(time.Minute)
		for i := range 3 {
			told := chat.Farewells(chat.At("general", fmt.Sprint(i)))
			require.Len(t, told, 1, i)
			require.Equal(t, binding.ReasonStaleSession, told[0].Reason)
		}
		list, err := rt.Bindings(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)
		require.NoError(t, rt.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// 7.23, 7.14: a crash at any write leaves each conversation either bound to a session that answers
// there, or to none; nothing that people write is lost, and nothing is told twice.
func TestThreadsAtEveryCrash(t *testing.T) {
	threadsAtEveryCrash(t, agenttest.EveryCrash)
}

func threadsAtEveryCrash(t *testing.T, every threadRunner) {
	t.Helper()
	everyCrashInThreads(t, every, func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		switch {
		case tn.Run != "" && strings.Contains(tn.Input(), "[Subagent Task]"):
			return agent.Result{Text: "It is blue."}, nil
		case strings.Contains(tn.Input(), "Paint something."):
			_, err := tn.Call(ctx, agent.ToolCall{
				ID: "1", Name: "sessions_spawn",
				Args: []byte(`{"task":"paint","label":"painter","thread":true}`),
			})
			return agent.Result{Text: "Look into the thread."}, err
		}
		return agent.Result{Text: "heard " + tn.Input()}, nil
	}, func(b threadBot) {
		b.write(b.general, "Paint something.")
		b.Pass(time.Minute)
		threads := b.chat.Threads()
		require.Len(t, threads, 1, "one thread, whatever was repeated")
		b.write(threads[0], "Red, please.")
		b.Pass(time.Minute)
		said := strings.Join(b.chat.Said(threads[0]), "\n")
		// A run that a crash has cut says so in the thread. After a crash in its first turn, its
		// task is done with what people have written, and the answer to both goes there.
		answers := strings.Count(said, "Red, please.") + strings.Count(said, "Sorry") +
			strings.Count(said, "It is blue.")
		require.Equal(t, 1, answers, said)
		require.NoError(t, b.Do(func(rt *agent.Runtime) error {
			_, err := rt.Unfocus(b.Context(),
				agent.UnfocusRequest{Conversation: threads[0], By: binding.SystemOwner})
			if errors.Is(err, agent.ErrNotFound) {
				return nil // before the crash
			}
			return err
		}))
		b.Pass(time.Hour)
		require.Empty(t, b.bindings())
		told := b.chat.Farewells(threads[0])
		require.NotEmpty(t, told)
		for _, f := range told[:len(told)-1] { // a crash has left it, and the retry bound it again
			require.Equal(t, binding.ReasonStaleSession, f.Reason)
		}
	})
}

// everyCrashInThreads is agenttest.EveryCrash with a channel of its own for each crash.
func everyCrashInThreads(
	t *testing.T, every threadRunner, run agent.RunnerFunc, f func(b threadBot),
) {
	t.Helper()
	var now atomic.Pointer[agenttest.FakeChannel]
	cfg := agent.Config{Runner: run, Reply: func(ctx context.Context, d agent.Delivery) error {
		var c agent.Config
		now.Load().Connect(&c)
		return c.Reply(ctx, d)
	}}
	cfg.Threads.Channels = map[string]agent.ThreadChannel{"discord": {Host: presentHost{&now}}}
	now.Store(agenttest.NewFakeChannel("discord"))
	every(t, cfg, nil, func(h *agenttest.Harness) {
		chat := agenttest.NewFakeChannel("discord")
		now.Store(chat)
		f(threadBot{h, chat, chat.At("general", "")})
	})
}

// A presentHost is the channel of the present crash.
type presentHost struct {
	now *atomic.Pointer[agenttest.FakeChannel]
}

func (p presentHost) CreateThread(ctx context.Context, t agent.NewThread) (session.Route, error) {
	return p.now.Load().CreateThread(ctx, t)
}

func (p presentHost) Farewell(ctx context.Context, f agent.Farewell) error {
	return p.now.Load().Farewell(ctx, f)
}

func (p presentHost) ProbeThread(
	ctx context.Context, at session.Route,
) (agent.ThreadState, error) {
	return p.now.Load().ProbeThread(ctx, at)
}
