package agent_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// lateCommands are the methods that change something: what they say of a ctx that has ended is
// whether that was recorded. The others read or wait, and return its cause.
var lateCommands = []string{
	"Announce", "Bind", "CancelTurn", "Compact", "DeleteSession", "Dismiss", "Focus", "LimitFocus", "Post",
	"PostAndWait", "Purge", "Ready", "Reset", "ResetOnce", "Retry", "Revive", "Send", "SetRoute", "Spawn",
	"Steer", "SteerFor", "SteerOnce", "Stop", "StopRun", "Unbind", "Unfocus",
}

// lateArgs are arguments that methods accept, by type.
func lateArgs(key session.Key, child *agent.Child[string]) map[reflect.Type]reflect.Value {
	at := session.Route{Channel: "discord", To: "general", Thread: "1"}
	list := map[reflect.Type]reflect.Value{}
	for _, v := range []any{
		key, "x", true, at, agent.RunID("run"),
		session.File{},
		agent.Incoming{Text: "x"},
		agent.HistoryQuery{},
		agent.Task{Text: "x"},
		agent.JoinOptions{},
		[]session.Key(nil),
		[]policy.Sender(nil),
		agent.EventQuery{},
		agent.UsageQuery{},
		agent.SessionQuery{},
		agent.TargetQuery{},
		binding.Limit{},
		agent.FocusRequest{Conversation: at, Session: key, By: "ann"},
		agent.UnfocusRequest{Conversation: at, By: "ann"},
		spawn.RunRef{Session: key},
		spawn.Incoming{Text: "x"},
		spawn.Event{ID: "x", Text: "x"},
		announce.Event{},
		spawn.Request{Task: "x"},
		[]*agent.Child[string]{child},
	} {
		list[reflect.TypeOf(v)] = reflect.ValueOf(v)
	}
	return list
}

// callLate calls a method with ctx and returns its error, or that of what it yields.
func callLate(
	t *testing.T, ctx context.Context, of reflect.Value, m reflect.Method, key session.Key,
	child *agent.Child[string],
) error {
	t.Helper()
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 2; i < m.Type.NumIn(); i++ {
		arg, ok := lateArgs(key, child)[m.Type.In(i)]
		require.True(t, ok, "%s needs an argument of type %s", m.Name, m.Type.In(i))
		args = append(args, arg)
	}
	call := of.Method(m.Index).Call
	if m.Type.IsVariadic() {
		call = of.Method(m.Index).CallSlice
	}
	out := call(args)
	last := out[len(out)-1].Interface()
	if events, ok := last.(iter.Seq2[agent.TreeEvent, error]); ok {
		var err error
		for _, err = range events {
		}
		return err
	}
	err, _ := last.(error)
	return err
}

// Every method of every type that takes a ctx says after a shutdown that there was one, and of a
// ctx that has ended its cause, and whether what it was to do was recorded.
func TestEveryMethodThatComesTooLate(t *testing.T) {
	chat := agenttest.NewFakeChannel("discord")
	cfg := agent.Config{Runner: sayOK, Store: session.NewMemory()}
	cfg.Rules.KeepArchives, cfg.Models.Window = time.Hour, func(string) agent.Window {
		return agent.Window{Tokens: 10_000}
	}
	chat.Connect(&cfg)
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		t := h.T().(*testing.T)
		h.Post("hello")
		child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x"})
		require.NoError(t, err)
		h.Pass(time.Minute)
		chatKey := session.Must(session.DirectKey("main", "discord", "ann"))
		h.PostTo(chatKey, "hello")
		h.Pass(time.Minute)
		rt := h.Runtime()
		enough := errors.New("enough")
		ended, cancel := context.WithCancelCause(h.Context())
		cancel(enough)
		all := func(check func(name string, err error), ctx context.Context) {
			for name, x := range map[string]struct {
				of  any
				key session.Key
			}{
				"Runtime.": {rt, chatKey}, "Session.": {rt.Session(chatKey), child.Key()},
				"Main.": {h.Main(), child.Key()}, "Sub.": {rt.Session(child.Key()), child.Key()},
				"Child.": {child, child.Key()},
			} {
				v := reflect.ValueOf(x.of)
				for m := range v.Type().Methods() {
					if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() ||
						m.Name == "Run" || m.Name == "Shutdown" {
						continue
					}
					check(name+m.Name, callLate(t, ctx, v, m, x.key, child))
				}
			}
		}
		checked := map[string]bool{}
		all(func(name string, err error) {
			checked[name] = true
			if wrongAnyway(name, err) {
				return
			}
			if !errors.Is(err, enough) {
				t.Errorf("%s under a ctx that has ended: %v", name, err)
			}
			_, method, _ := strings.Cut(name, ".")
			if command := slices.Contains(lateCommands, method); command !=
				(errors.Is(err, agent.ErrNotRecorded) || errors.Is(err, agent.ErrUnconfirmed)) {
				t.Errorf("%s under a ctx that has ended: a command %v: %v", name, command, err)
			}
		}, ended)
		require.Greater(t, len(checked), 40, slices.Sorted(maps.Keys(checked)))
		require.NoError(t, rt.Shutdown(h.Context()))
		all(func(name string, err error) {
			if !wrongAnyway(name, err) && !errors.Is(err, agent.ErrShutdown) {
				t.Errorf("%s after a shutdown: %v", name, err)
			}
			_, method, _ := strings.Cut(name, ".")
			not := errors.Is(err, agent.ErrNotRecorded)
			unclear := errors.Is(err, agent.ErrUnconfirmed)
			command := slices.Contains(lateCommands, method)
			if !wrongAnyway(name, err) && command != not || unclear {
				t.Errorf("%s after a shutdown: a command %v: %v", name, command, err)
			}
		}, h.Context())
	})
}

// wrongAnyway reports whether err says that a call is wrong whenever it is made, or is that of a
// stream, which ends without one.
func wrongAnyway(name string, err error) bool {
	bad, main := new(agent.InputError), new(agent.MainSessionError)
	return errors.As(err, &bad) || errors.As(err, &main) || errors.Is(err, agent.ErrNotTopLevel) ||
		err == nil && strings.HasSuffix(name, ".Events")
}
