package agent_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// hangingJournal is a Journal whose appends, while it hangs, return after release, whatever their
// ctx says: all, or those of trees.
type hangingJournal struct {
	session.Journal
	hangs, trees *atomic.Bool
	release      chan struct{}
}

func (j hangingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if j.hangs.Load() || j.trees.Load() && root != session.BindingsRoot() {
		<-j.release
	}
	return j.Journal.Append(ctx, root, after, b)
}

// A cutWorld is a Runtime, and what commands are sent to in it.
type cutWorld struct {
	rt        *agent.Runtime
	main      *agent.Session
	ended     *agent.Child[string]
	alive     *agent.Child[string]
	bound, at session.Route
	hangTrees func()
	ran       <-chan error // what Run has returned
}

var cutCommands = map[string]func(context.Context, *cutWorld) error{
	"unfocus": func(ctx context.Context, w *cutWorld) error {
		_, err := w.rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: w.bound, By: "a"})
		return err
	},
	"limit": func(ctx context.Context, w *cutWorld) error {
		hour := time.Hour
		_, err := w.rt.LimitFocus(ctx, w.bound, "a", binding.Limit{Idle: &hour})
		return err
	},
	"focus": func(ctx context.Context, w *cutWorld) error {
		_, err := w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: w.bound, Session: w.main.Key(), By: "a",
		})
		return err
	},
	"focus in a new thread": func(ctx context.Context, w *cutWorld) error {
		_, err := w.rt.Focus(ctx, agent.FocusRequest{
			Conversation: w.at, Session: w.ended.Key(), By: "a", NewThread: true,
		})
		return err
	},
	"spawn in a thread": func(ctx context.Context, w *cutWorld) error {
		_, err := w.main.Spawn(ctx, agent.Task{Text: "x", Thread: true, Conversation: w.at})
		return err
	},
	"post to a bound conversation": func(ctx context.Context, w *cutWorld) error {
		own := session.Must(session.ChannelKey("main", "fake", "general"))
		_, err := w.rt.Session(own).Post(ctx, agent.Incoming{
			ID: "1", Text: "x", Route: w.bound,
		})
		return err
	},
	"spawn": func(ctx context.Context, w *cutWorld) error {
		_, err := w.main.Spawn(ctx, agent.Task{Text: "x"})
		return err
	},
	"post": func(ctx context.Context, w *cutWorld) error {
		_, err := w.main.Post(ctx, agent.Incoming{Text: "x"})
		return err
	},
	"steer": func(ctx context.Context, w *cutWorld) error { return w.alive.Steer(ctx, "x") },
	"stop":  func(ctx context.Context, w *cutWorld) error { return w.alive.Stop(ctx) },
	"reset": func(ctx context.Context, w *cutWorld) error {
		return w.rt.Session(session.Must(session.MainKey("other"))).Reset(ctx)
	},
	"route": func(ctx context.Context, w *cutWorld) error { return w.main.SetRoute(ctx, w.at) },
	"delete": func(ctx context.Context, w *cutWorld) error {
		return w.rt.DeleteSession(ctx, w.ended.Key())
	},
}

// Every command returns when its ctx ends, also if the store does not. It says then whether it is
// recorded: it is not if ctx had ended before the call, and may be if it was appended.
func TestCommandsReturnWithTheirContext(t *testing.T) {
	for name, command := range cutCommands {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inCutWorld(t, func(w *cutWorld, hang, free func()) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						if before {
							cancel()
						} else {
							hang()
						}
						begun := time.Now()
						err := command(ctx, w)
						cancel()
						require.ErrorIs(t, err, context.Cause(ctx))
						took := time.Second
						if before {
							took = 0
							require.ErrorIs(t, err, agent.ErrNotRecorded)
						}
						require.Equal(t, took, time.Since(begun))
						not := errors.Is(err, agent.ErrNotRecorded)
						require.NotEqual(t, not, errors.Is(err, agent.ErrUnconfirmed), "%v", err)

						free()
						synctest.Wait()
						require.NoError(t, w.main.SetRoute(t.Context(), w.at)) // it goes on
					})
				})
			})
		}
	}
}

// Unfocus returns with the binding that has ended also if the tree of the session hangs, and the
// tree is told when it can be.
func TestUnfocusWhileTheTreeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inCutWorld(t, func(w *cutWorld, _, free func()) {
			w.hangTrees()
			begun := time.Now()
			ended, err := w.rt.Unfocus(t.Context(), agent.UnfocusRequest{
				Conversation: w.bound, By: "a",
			})
			require.NoError(t, err)
			require.Equal(t, w.bound, ended.Binding.Conversation)
			require.Equal(t, time.Second, time.Since(begun))
			free()
			synctest.Wait()
			info, err := w.ended.Info(t.Context())
			require.NoError(t, err)
			require.Empty(t, info.Conversations)
		})
	})
}

// inCutWorld calls f with a Runtime whose store hangs from hang to free.
func inCutWorld(t *testing.T, f func(w *cutWorld, hang, free func())) {
	t.Helper()
	store := session.NewMemory()
	hangs, trees, release := new(atomic.Bool), new(atomic.Bool), make(chan struct{})
	store.Journal = hangingJournal{store.Journal, hangs, trees, release}
	free := sync.OnceFunc(func() {
		hangs.Store(false)
		trees.Store(false)
		close(release)
	})
	onCutWorld(t, cutConfig(store, agenttest.NewFakeChannel("fake")), func(w *cutWorld) {
		defer free()
		w.hangTrees = func() { trees.Store(true) }
		f(w, func() { hangs.Store(true) }, free)
	})
}

// cutConfig is that of a bot on a channel whose sub-agents end at once, unless they are alive.
func cutConfig(store *session.Store, channel *agenttest.FakeChannel) agent.Config {
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Label == "alive" {
			<-ctx.Done()
		}
		return agent.Result{Text: "x"}, ctx.Err()
	})
	cfg.Store = store
	channel.Connect(&cfg)
	return cfg
}

// onCutWorld calls f with a Runtime.
func onCutWorld(t *testing.T, cfg agent.Config, f func(w *cutWorld)) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ran, stop := context.WithCancel(t.Context())
	done, returned := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		returned <- rt.Run(ran)
	}()
	defer func() { stop(); <-done }()
	w := &cutWorld{
		ran: returned,
		rt:  rt, main: rt.Session(session.Must(session.MainKey("main"))),
		at: session.Route{Channel: "fake", To: "general"},
	}
	w.ended, err = w.main.Spawn(t.Context(), agent.Task{Text: "a"})
	require.NoError(t, err)
	_, err = w.ended.Wait(t.Context())
	require.NoError(t, err)
	w.alive, err = w.main.Spawn(t.Context(), agent.Task{Text: "a", Label: "alive"})
	require.NoError(t, err)
	made, err := rt.Focus(t.Context(), agent.FocusRequest{
		Conversation: w.at, Session: w.ended.Key(), By: "a", NewThread: true,
	})
	require.NoError(t, err)
	w.bound = made.Conversation
	synctest.Wait()
	f(w)
}

// tooLong returns copies of v, each with one text that is too long: every string in it, found by
// reflection, but those whose path is among the others.
func tooLong[T any](v T, others ...string) (list []T) {
	var walk func(at reflect.Type, path string, field func(reflect.Value) reflect.Value)
	walk = func(at reflect.Type, path string, field func(reflect.Value) reflect.Value) {
		switch {
		case slices.Contains(others, path):
		case at.Kind() == reflect.String:
			bad := reflect.New(reflect.TypeFor[T]()).Elem()
			bad.Set(reflect.ValueOf(v))
			field(bad).SetString(strings.Repeat("x", 2_000_000))
			list = append(list, bad.Interface().(T))
		case at.Kind() == reflect.Struct:
			for f := range at.Fields() {
				if f.IsExported() {
					walk(f.Type, strings.TrimPrefix(path+"."+f.Name, "."),
						func(v reflect.Value) reflect.Value {
							return field(v).FieldByIndex(f.Index)
						})
				}
			}
		}
	}
	walk(reflect.TypeFor[T](), "", func(v reflect.Value) reflect.Value { return v })
	return list
}

// wrongMessages are messages that no session takes at any time.
func wrongMessages() []agent.Incoming {
	m := agent.Incoming{Text: "x"}
	list := tooLong(m, "From.Name") // a name is cut
	for _, wrong := range []func(m *agent.Incoming){
		func(m *agent.Incoming) { m.Text = "" },
		func(m *agent.Incoming) { m.Text = " \u200b" },
		func(m *agent.Incoming) { m.ID = "\xff" },
		func(m *agent.Incoming) { m.From.ID = "\xff" },
		func(m *agent.Incoming) { m.From.ID = "ann\u200b" },
		func(m *agent.Incoming) { m.From.ID = " ann" },
		func(m *agent.Incoming) { m.Meta = map[string]string{"\xff": "x"} },
		func(m *agent.Incoming) { m.Meta = map[string]string{"x": "\xff"} },
		func(m *agent.Incoming) { m.Meta = map[string]string{"x": strings.Repeat("x", 20_000)} },
		func(m *agent.Incoming) { m.At = time.Date(1, 1, 1, 1, 1, 1, 1, time.UTC) },
		func(m *agent.Incoming) { m.Route.Channel = "\xff" },
		func(m *agent.Incoming) { m.Route.To = "\xff" },
		func(m *agent.Incoming) { m.Parts = []agent.Part{{}} },
		func(m *agent.Incoming) { m.Parts = make([]agent.Part, 100) },
		func(m *agent.Incoming) { m.Senders = []policy.Sender{{ID: "\xff"}} },
	} {
		bad := m
		wrong(&bad)
		list = append(list, bad)
	}
	return list
}

// wrongTasks are tasks that no session of a cutWorld spawns at any time.
func wrongTasks() []agent.Task {
	task := agent.Task{Text: "x"}
	list := tooLong(task)
	file := func(name string) agent.Attachment {
		return agent.Attachment{Name: name, Reader: strings.NewReader("x")}
	}
	for _, wrong := range []func(t *agent.Task){
		func(t *agent.Task) { t.Text = "" },
		func(t *agent.Task) { t.Text = " \u200b" },
		func(t *agent.Task) { t.Name = "Not A Name" },
		func(t *agent.Task) { t.Key = "\xff" },
		func(t *agent.Task) { t.Label = "\xff" },
		func(t *agent.Task) { t.Label = strings.Repeat("x", 201) },
		func(t *agent.Task) { t.Update, t.Announce = true, true },
		func(t *agent.Task) { t.Thread, t.Conversation = true, session.Route{Channel: "fake"} },
		func(t *agent.Task) { t.Conversation = session.Route{Channel: "fake", To: "x"} },
		func(t *agent.Task) { t.Mode = agent.TaskModeSession },
		func(t *agent.Task) { t.Mode = 200 },
		func(t *agent.Task) { t.Cleanup = 200 },
		func(t *agent.Task) { t.Stream = true },
		func(t *agent.Task) { t.AttachAs = "x" },
		func(t *agent.Task) { t.Dir = "x" },
		func(t *agent.Task) { t.Tools = []string{strings.Repeat("x", 300_000)} },
		func(t *agent.Task) { t.Senders = []policy.Sender{{ID: "\xff"}} },
		func(t *agent.Task) { t.Attachments = []agent.Attachment{{Name: "a.txt"}} },
		func(t *agent.Task) { t.Attachments = []agent.Attachment{file("")} },
		func(t *agent.Task) { t.Attachments = []agent.Attachment{file("../a")} },
		func(t *agent.Task) { t.Attachments = []agent.Attachment{file("a"), file("a")} },
		func(t *agent.Task) { t.Attachments = make([]agent.Attachment, 1000) },
		func(t *agent.Task) { t.Attachments, t.Text = []agent.Attachment{file("a")}, "" },
	} {
		bad := task
		wrong(&bad)
		list = append(list, bad)
	}
	return list
}

// wrongInputs are commands with arguments that no process takes at any time, by the method.
var wrongInputs = map[string]func(ctx context.Context, w *cutWorld) []error{
	"Focus": func(ctx context.Context, w *cutWorld) (list []error) {
		other, child := session.Route{Channel: "fake", To: "other"}, w.ended.Key()
		thread := session.Route{Channel: "fake", To: "other", Thread: "1"}
		own := session.Must(session.ChannelKey("main", "fake", "other"))
		for _, q := range []agent.FocusRequest{
			{Session: child, By: "a"},
			{Conversation: session.Route{Channel: "fake"}, Session: child, By: "a"},
			{Conversation: other, Session: child},
			{Conversation: other, Session: child, By: "a\u200b"},
			{Conversation: other, Session: own, By: "a"},
			{Conversation: other, Session: child, By: "a", Label: strings.Repeat("x", 300)},
			{Conversation: thread, Session: child, By: "a", NewThread: true},
			{Conversation: other, By: "a"},
		} {
			list = append(list, errorOf(w.rt.Focus(ctx, q)))
		}
		return list
	},
	"Unfocus": func(ctx context.Context, w *cutWorld) []error {
		return []error{
			errorOf(w.rt.Unfocus(ctx, agent.UnfocusRequest{Conversation: w.bound})),
			errorOf(w.rt.Unfocus(ctx, agent.UnfocusRequest{
				Conversation: w.bound, By: "a", Reason: 200,
			})),
		}
	},
	"LimitFocus": func(ctx context.Context, w *cutWorld) []error {
		return []error{
			errorOf(w.rt.LimitFocus(ctx, w.bound, "", binding.Limit{Idle: new(time.Hour)})),
		}
	},
	"Post": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, m := range wrongMessages() {
			list = append(list, errorOf(w.main.Post(ctx, m)), errorOf(w.ended.Post(ctx, m)),
				errorOf(w.alive.Session().Post(ctx, m)))
		}
		return append(list, errorOf(w.rt.Session(session.Key{}).Post(ctx, agent.Incoming{})),
			errorOf(w.rt.Session(session.Key{}).Post(ctx, agent.Incoming{Text: "x"})))
	},
	"PostAndWait": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, m := range wrongMessages() {
			list = append(list, errorOf(w.main.PostAndWait(ctx, m)))
		}
		return list
	},
	"Spawn": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, task := range wrongTasks() {
			list = append(list, errorOf(w.main.Spawn(ctx, task)),
				errorOf(w.alive.Session().Spawn(ctx, task)),
				errorOf(w.rt.Session(w.alive.Key()).Spawn(ctx, task)))
		}
		return list
	},
	"Steer": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, text := range []string{"", " ", "\u200b", strings.Repeat("x", 5000)} {
			list = append(list, w.alive.Steer(ctx, text), w.main.Steer(ctx, w.alive.Key(), text))
		}
		return list
	},
	"SteerFor": func(ctx context.Context, w *cutWorld) (list []error) {
		list = append(list, w.alive.SteerFor(ctx, "", policy.Sender{}))
		for _, of := range tooLong(policy.Sender{}) {
			list = append(list, w.alive.SteerFor(ctx, "x", of))
		}
		return append(list, w.alive.SteerFor(ctx, "x", policy.Sender{ID: "\xff"}))
	},
	"SteerOnce": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, id := range []string{"\xff", strings.Repeat("x", 5000)} {
			list = append(list, w.alive.SteerOnce(ctx, id, "x"))
		}
		return append(list, w.alive.SteerOnce(ctx, "m", ""))
	},
	"SetRoute": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, r := range append(tooLong(session.Route{}), session.Route{Channel: "\xff"},
			session.Route{Account: "\xff"}, session.Route{To: "\xff"}, session.Route{Thread: "\xff"}) {
			list = append(list, w.main.SetRoute(ctx, r))
		}
		return list
	},
	"Announce": func(ctx context.Context, w *cutWorld) []error {
		big := announce.Event{Task: strings.Repeat("x", 2_000_000)}
		return []error{
			errorOf(w.rt.Announce(ctx, w.main.Key(), "\xff", announce.Event{})),
			errorOf(w.rt.Announce(ctx, w.main.Key(), "", announce.Event{})),
			errorOf(w.rt.Announce(ctx, w.main.Key(), strings.Repeat("x", 5000), announce.Event{})),
			errorOf(w.rt.Announce(ctx, w.main.Key(), "x", big)),
			errorOf(w.rt.Announce(ctx, w.alive.Key(), "x", announce.Event{})),
		}
	},
	"DeleteSession": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.DeleteSession(ctx, session.Key{})}
	},
	"Revive": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).Revive(ctx)}
	},
	"Stop": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).Stop(ctx)}
	},
	"CancelTurn": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).CancelTurn(ctx)}
	},
	"Reset": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).Reset(ctx)}
	},
	"ResetOnce": func(ctx context.Context, w *cutWorld) (list []error) {
		for _, id := range []string{"\xff", strings.Repeat("x", 5000)} {
			list = append(list, w.main.ResetOnce(ctx, id))
		}
		return append(list, w.rt.Session(session.Key{}).ResetOnce(ctx, "m"))
	},
	"Compact": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).Compact(ctx)}
	},
	"Ready": func(ctx context.Context, w *cutWorld) []error {
		return []error{w.rt.Session(session.Key{}).Ready(ctx)}
	},
}

// An input that is wrong is never one that may be sent again, whether ctx has ended, the Runtime
// has, or neither: an error that says that something of it is wrong says nothing of the store.
func TestWrongInputsAreNotSentAgain(t *testing.T) {
	for _, name := range lateCommands {
		switch name {
		case "Dismiss", "Purge", "Retry": // what they are given may be of another process
		case "Bind", "Send", "StopRun", "Unbind": // they are of a Supervisor
		default:
			require.Contains(t, wrongInputs, name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		store, chat := session.NewMemory(), agenttest.NewFakeChannel("fake")
		cfg := cutConfig(store, chat)
		cfg.Rules.Subagents.MaxSpawnDepth = 3 // a sub-agent may spawn
		onCutWorld(t, cfg, func(w *cutWorld) {
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("enough"))
			check := func(when string, ctx context.Context) {
				for name, command := range wrongInputs {
					for i, err := range command(ctx, w) {
						what := fmt.Sprintf("%s %d %s: %.300v", name, i, when, err)
						_, input := errors.AsType[*agent.InputError](err)
						_, limit := errors.AsType[*agent.LimitError](err)
						_, part := errors.AsType[*session.PartError](err)
						assert.True(t, input || limit || part, what)
						assert.NotErrorIs(t, err, agent.ErrNotRecorded, what)
						assert.NotErrorIs(t, err, agent.ErrUnconfirmed, what)
					}
				}
			}
			check("in time", t.Context())
			check("with a ctx that has ended", ended)
			require.NoError(t, w.alive.Stop(t.Context()))
			require.NoError(t, w.rt.Shutdown(t.Context()))
			check("after a shutdown", t.Context())
		})
	})
}
