package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// nesting is a bot whose sub-agents spawn one more each, down to a depth, and take a second beside.
func nesting(depth int, cleanup agent.Cleanup) agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		at := tn.Session.Depth
		if at > 0 && at < depth && tn.N == 1 {
			_, err := agent.Spawn[string](ctx, tn, agent.Task{
				Text: "down", Label: fmt.Sprint("depth", at+1), Cleanup: cleanup,
				Announce: true, Key: "down",
			})
			if err != nil {
				return agent.Result{}, err
			}
		}
		return agent.Result{Text: fmt.Sprint("at ", at)}, pause(ctx, time.Second)
	})
	cfg.Rules.Subagents.MaxSpawnDepth = 5
	return cfg
}

// 2.12: a sub-agent that is to be deleted is archived as soon as its end was read, and all below it
// before, at depth 1, 2 and 5, wherever the process dies, also where nothing else is ever archived.
func TestCleanupDelete(t *testing.T) {
	for _, depth := range []int{1, 2, 5} {
		for _, all := range []bool{true, false} { // or the topmost alone
			t.Run(fmt.Sprint(depth, " ", all), func(t *testing.T) {
				below := agent.CleanupKeep
				if all {
					below = agent.CleanupDelete
				}
				cfg := nesting(depth, below)
				cfg.Rules.Subagents.ArchiveAfter = policy.Off
				agenttest.EveryCrash(t, cfg, nil, func(h *harness) { deleteNested(h, depth) })
			})
		}
	}
}

func deleteNested(h *harness, depth int) {
	task := agent.Task{
		Text: "down", Label: "depth1", Cleanup: agent.CleanupDelete, Announce: true, Key: "top",
	}
	require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
		_, err := agent.Spawn[string](h.Context(), rt.Session(topKey), task)
		return err
	}))
	keys := make([]session.Key, 0, depth)
	for range 3 * depth { // a second each
		for _, r := range h.Runs() {
			if !slices.Contains(keys, r.Key) {
				keys = append(keys, r.Key)
			}
		}
		h.Pass(time.Second)
	}
	h.Pass(time.Minute)
	require.Empty(h.T(), h.Runs())
	for _, k := range keys {
		var page agent.HistoryPage
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) (err error) {
			page, err = rt.Session(k).History(h.Context(), agent.HistoryQuery{})
			return err
		}))
		require.True(h.T(), page.Archived)
	}
}

// Deleting does not depend on how a run ends, or on whether its requester is told. A program that
// waits gets the outcome, and one that does not asks for the history.
func TestCleanupDeleteOfEveryEnd(t *testing.T) {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if err := pause(ctx, time.Second/2); err != nil { // its requester begins to wait
			return agent.Result{}, err
		}
		_, task, _ := strings.Cut(tn.Messages[0].Text, "[Subagent Task]: ")
		switch task {
		case "fails":
			return agent.Result{}, errDisk
		case "is silent":
			return textResult("NO_REPLY")
		case "hangs":
			return agent.Result{}, pause(ctx, time.Hour)
		}
		return textResult("done")
	})
	cfg.Rules.Subagents.ArchiveAfter = policy.Off
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, announce := range []bool{true, false} {
			for _, text := range []string{"works", "fails", "is silent", "hangs", "times out"} {
				task := agent.Task{Text: text, Announce: announce, Cleanup: agent.CleanupDelete}
				if text == "times out" {
					task.Text, task.Timeout = "hangs", time.Minute
				}
				c, err := h.Main().Spawn(h.Context(), task)
				require.NoError(t, err)
				waited := make(chan error, 1)
				go func() {
					_, err := c.Wait(h.Context())
					waited <- err
				}()
				time.Sleep(time.Second)
				if text == "hangs" {
					require.NoError(t, c.Stop(h.Context()))
				}
				err = <-waited
				if text == "works" || text == "is silent" {
					require.NoError(t, err)
				} else {
					var ended *agent.RunError
					require.ErrorAs(t, err, &ended, "%v", announce)
				}
				time.Sleep(time.Second)
				require.Empty(t, h.Runs(), "%s %v", text, announce)
				_, err = c.Info(h.Context())
				require.ErrorIs(t, err, agent.ErrNotFound)
				page, err := c.Session().History(h.Context(), agent.HistoryQuery{})
				require.NoError(t, err)
				require.True(t, page.Archived)
			}
		}
		_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Cleanup: 7})
		var input *agent.InputError
		require.ErrorAs(t, err, &input)
		require.Equal(t, "Task.Cleanup", input.Field)
	})
}

// 2.12: what a program deletes is stopped and archived with all that is below it, at depth 1, 2 and
// 5, wherever the process dies. The call can be repeated, also in the next process, and nothing
// else is touched.
func TestDeleteSession(t *testing.T) {
	for _, depth := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			below := min(max(depth+1, 3), 5) // as deep as it goes
			reached := 0
			agenttest.EveryCrash(t, nesting(below, agent.CleanupKeep), nil, func(h *harness) {
				if deleteAt(h, depth) {
					reached++
				}
			})
			require.Positive(t, reached)
		})
	}
}

// deleteAt deletes the sub-agent at a depth of one of two lines of them. It reports false if there
// is none: the process has died before it was spawned.
func deleteAt(h *harness, depth int) bool {
	var top, other session.Key
	require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
		s := rt.Session(topKey)
		c, err := s.Spawn(h.Context(), agent.Task{Text: "down", Key: "a", Label: "a"})
		if err != nil {
			return err
		}
		d, err := s.Spawn(h.Context(), agent.Task{Text: "down", Key: "b", Label: "b"})
		if err == nil {
			top, other = c.Key(), d.Key()
		}
		return err
	}))
	h.Pass(1500 * time.Millisecond)
	key := top
	var above []session.Key
	for _, r := range h.Runs() { // those above come first
		if r.Depth <= depth && strings.HasPrefix(r.Key.String(), top.String()) {
			key = r.Key
			above = append(above, key)
		}
	}
	if len(above) < depth {
		return false
	}
	err := h.Do(func(rt *agent.Runtime) error {
		return rt.DeleteSession(h.Context(), key)
	})
	if err != nil { // the process that began it has died
		require.ErrorIs(h.T(), err, agent.ErrArchived)
	}
	err = h.Do(func(rt *agent.Runtime) error {
		return errorOf(rt.Session(key).Post(h.Context(), agent.Incoming{Text: "late"}))
	})
	require.ErrorIs(h.T(), err, agent.ErrArchived)
	var left []session.Key
	for _, r := range h.Runs() {
		require.False(h.T(), strings.HasPrefix(r.Key.String(), key.String()), "%v is left", r.Key)
		left = append(left, r.Key)
	}
	require.Subset(h.T(), left, append(above[:depth-1], other), "what is above and beside stays")
	return true
}

// A top-level session that is not the main one goes on in a new conversation. What cannot be
// deleted is a clear error.
func TestDeleteTopLevelSession(t *testing.T) {
	direct := session.Must(session.DirectKey("main", "irc", "ann"))
	cfg := repeating()
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(direct, "one")
		h.Pass(time.Minute)
		c, err := h.Session(direct).Spawn(h.Context(), agent.Task{Text: "work"})
		require.NoError(t, err)
		h.Pass(time.Second / 2)
		h.PostTo(direct, "two")
		require.NoError(t, h.Runtime().DeleteSession(h.Context(), direct))
		require.Empty(t, h.Runs())
		h.Pass(time.Minute)
		page, err := h.Session(direct).History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		require.False(t, page.Archived)
		require.NotContains(t, fmt.Sprint(textsOfPage(page)), "one")
		h.PostTo(direct, "three")
		h.Pass(time.Minute)

		remove := func(k session.Key) error { return h.Runtime().DeleteSession(h.Context(), k) }
		var main *agent.MainSessionError
		require.ErrorAs(t, remove(topKey), &main)
		require.Equal(t, topKey, main.Session)
		require.ErrorAs(t, remove(session.GlobalKey()), &main)
		require.ErrorIs(t, remove(c.Key()), agent.ErrArchived)
		require.ErrorIs(t, remove(childKeyOf(t, direct)), agent.ErrNotFound)
		require.ErrorIs(t, remove(session.Must(session.DirectKey("main", "irc", "bob"))),
			agent.ErrNotFound)
		var input *agent.InputError
		require.ErrorAs(t, remove(session.Key{}), &input)
	})
}

// A turn cannot wait for its own end.
func TestDeleteSessionOfATurn(t *testing.T) {
	var rt *agent.Runtime
	var errs []error
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		errs = append(errs, rt.DeleteSession(ctx, tn.Session.Key))
		return textResult("x")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		rt = h.Runtime()
		c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		require.NoError(t, err)
		var input *agent.InputError
		require.Len(t, errs, 1)
		require.ErrorAs(t, errs[0], &input)
	})
}

// A session can be deleted from a turn, a delivery and a hook of its tree that its archive waits
// for: the call does not wait for its caller. Idle cannot, and says so.
func TestDeleteSessionFromWhatItsArchiveWaitsFor(t *testing.T) {
	for _, from := range []string{"tool", "Deliver", "Reply", "Ended"} {
		t.Run(from, func(t *testing.T) {
			var rt *agent.Runtime
			var called atomic.Int32
			call := func(ctx context.Context, at string, key session.Key) {
				if at != from || called.Add(1) > 1 {
					return
				}
				began := time.Now()
				require.NoError(t, rt.DeleteSession(ctx, key))
				var input *agent.InputError
				require.ErrorAs(t, rt.Session(topKey).Idle(ctx), &input)
				require.Zero(t, time.Since(began))
			}
			var child atomic.Pointer[session.Key]
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Session.Key.IsSubagent() {
					return agent.Result{Text: "done"}, pause(ctx, time.Second)
				}
				call(ctx, "tool", *child.Load())
				return textResult("done")
			})
			cfg.Deliver = func(ctx context.Context, d agent.Delivery) error {
				call(ctx, "Deliver", d.Completion.Run.Key)
				return nil
			}
			cfg.Reply = func(ctx context.Context, _ agent.Delivery) error {
				call(ctx, "Reply", *child.Load())
				return nil
			}
			cfg.Hooks.Ended = func(ctx context.Context, e agent.EndedHook) error {
				call(ctx, "Ended", e.Run.Key)
				return nil
			}
			if from != "Deliver" {
				cfg.Deliver = nil
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				rt = h.Runtime()
				c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Announce: true})
				require.NoError(t, err)
				child.Store(new(c.Key()))
				if from == "Reply" {
					h.Post("hello")
				}
				h.Pass(time.Minute)
				require.Positive(t, called.Load())
				require.Empty(t, h.Runs())
				_, err = c.Session().Post(h.Context(), agent.Incoming{Text: "late"})
				require.ErrorIs(t, err, agent.ErrArchived)
			})
		})
	}
}

// The handle that a spawn has given and the one of a key say the same of a sub-agent that has left.
func TestHandlesOfWhatHasLeft(t *testing.T) {
	agenttest.Run(t, configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("done")
	}), nil, func(h *harness) {
		c, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		require.NoError(t, h.Runtime().DeleteSession(h.Context(), c.Key()))
		for _, s := range []*agent.Session{c.Session(), h.Session(c.Key())} {
			ctx := h.Context()
			for name, call := range map[string]func() error{
				"Spawn":    func() error { return errorOf(s.Spawn(ctx, agent.Task{Text: "y"})) },
				"Idle":     func() error { return s.Idle(ctx) },
				"SetRoute": func() error { return s.SetRoute(ctx, topKey.Route()) },
				"OwnRuns":  func() error { return errorOf(s.OwnRuns(ctx)) },
				"Events": func() (err error) {
					for _, err = range s.Events(ctx) {
						break
					}
					return err
				},
			} {
				err := call()
				require.ErrorIs(t, err, agent.ErrNotFound, name)
				require.ErrorIs(t, err, agent.ErrArchived, name)
			}
		}
	})
}
