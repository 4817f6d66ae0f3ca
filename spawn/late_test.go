package spawn_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// lateCommands are the methods of a Supervisor that change something: what they say of a ctx that
// has ended is also whether that was recorded. The others read or wait, or ask in the place of a
// command whether it would do.
var lateCommands = []string{
	"Announce",
	"Bind", "CanBind", "CancelTurn", "Compact", "DeleteSession", "Deposit", "Dismiss", "Files",
	"Post", "PostAndWait", "Purge", "Ready", "Reset", "ResetOnce", "Retry", "Revive", "Send",
	"SendAndWait", "SendOut", "SetRoute", "Spawn", "Steer", "Stop", "StopRun", "Unbind",
}

// lateArgs returns arguments for a method that it accepts: keys in the order of the call.
func lateArgs(t *testing.T, m reflect.Method, keys []session.Key) (args []reflect.Value) {
	t.Helper()
	at := session.Route{Channel: "discord", To: "general"}
	list := map[reflect.Type]any{}
	for _, v := range []any{
		"x", true, at,
		spawn.Incoming{Text: "x"},
		spawn.SendOptions{},
		spawn.Event{ID: "x", Text: "x"},
		spawn.EventQuery{},
		spawn.RunRef{Session: keys[len(keys)-1]},
		spawn.JoinOptions{},
		spawn.Request{Task: "x"},
		[]spawn.RunRef(nil),
		func(spawn.Deposit) error { return nil },
		spawn.SessionQuery{},
		spawn.UsageQuery{},
		time.Duration(0),
	} {
		list[reflect.TypeOf(v)] = v
	}
	in := slices.Collect(m.Type.Ins())[2:]
	for _, of := range in {
		v, ok := list[of]
		if of == reflect.TypeFor[session.Key]() {
			v, ok = keys[0], true // the tree, then sessions of it
			keys = keys[min(1, len(keys)-1):]
		}
		require.True(t, ok, "%s needs an argument of type %s", m.Name, of)
		args = append(args, reflect.ValueOf(v))
	}
	return args
}

// callLate calls a method of s with ctx and returns its error, or that of what it yields.
func callLate(
	ctx context.Context, t *testing.T, s *spawn.Supervisor, m reflect.Method, keys ...session.Key,
) (err error) {
	t.Helper()
	args := append([]reflect.Value{reflect.ValueOf(ctx)}, lateArgs(t, m, keys)...)
	out := reflect.ValueOf(s).Method(m.Index).Call(args)
	last := out[len(out)-1].Interface()
	if events, ok := last.(iter.Seq2[spawn.TreeEvent, error]); ok {
		for _, err = range events {
		}
		return err
	}
	err, _ = last.(error)
	return err
}

// Every method of a Supervisor that takes a ctx says of one that has ended its cause, and whether
// what it was to do was recorded, and after a shutdown that there was one.
func TestEveryMethodThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran := runUntil(forADay(t), t, spawn.Config{Runner: runnerFunc(workOn)})
		child := mustSpawn(t, s, spawn.Request{Task: "work"})
		enough := errors.New("enough")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(enough)
		all := func(ctx context.Context, check func(name string, err error)) int {
			n := 0
			for m := range reflect.TypeOf(s).Methods() {
				if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() ||
					m.Name == "Run" || m.Name == "Shutdown" {
					continue
				}
				n++
				keys := []session.Key{topKey, child}
				switch m.Name {
				case "Compact", "Ready", "Reset", "ResetOnce", "PostAndWait", "SendAndWait":
					keys = keys[:1]
				case "SendOut":
					keys = []session.Key{topKey, topKey, session.Must(session.MainKey("other"))}
				case "RootOf", "WaitRootOf": // that of a top-level key is known without asking
					keys = keys[1:]
				}
				check(m.Name, callLate(ctx, t, s, m, keys...))
			}
			return n
		}
		n := all(ended, func(name string, err error) {
			if !errors.Is(err, enough) && name != "Events" { // they end with the ctx
				t.Errorf("%s under a ctx that has ended: %v", name, err)
			}
			if slices.Contains(lateCommands, name) !=
				(errors.Is(err, spawn.ErrNotRecorded) || errors.Is(err, spawn.ErrUnconfirmed)) {
				t.Errorf("%s is not the command that it is said to be: %v", name, err)
			}
		})
		require.Greater(t, n, 30)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		all(t.Context(), func(name string, err error) {
			if !errors.Is(err, spawn.ErrShutdown) && (err != nil || name != "Events") {
				t.Errorf("%s after a shutdown: %v", name, err)
			}
			if slices.Contains(lateCommands, name) != errors.Is(err, spawn.ErrNotRecorded) ||
				errors.Is(err, spawn.ErrUnconfirmed) {
				t.Errorf("%s after a shutdown does not say what was recorded: %v", name, err)
			}
		})
	})
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
func wrongMessages() []spawn.Incoming {
	m := spawn.Incoming{Text: "x"}
	list := tooLong(m, "From.Name") // a name is cut
	for _, wrong := range []func(m *spawn.Incoming){
		func(m *spawn.Incoming) { m.Text = "" },
		func(m *spawn.Incoming) { m.Text = " \u200b" },
		func(m *spawn.Incoming) { m.ID = "\xff" },
		func(m *spawn.Incoming) { m.From.ID = "\xff" },
		func(m *spawn.Incoming) { m.From.ID = "ann\u200b" },
		func(m *spawn.Incoming) { m.From.ID = " ann" },
		func(m *spawn.Incoming) { m.Meta = map[string]string{"\xff": "x"} },
		func(m *spawn.Incoming) { m.Meta = map[string]string{"x": "\xff"} },
		func(m *spawn.Incoming) { m.Meta = map[string]string{"x": strings.Repeat("x", 20_000)} },
		func(m *spawn.Incoming) { m.At = time.Date(1, 1, 1, 1, 1, 1, 1, time.UTC) },
		func(m *spawn.Incoming) { m.Route.Channel = "\xff" },
		func(m *spawn.Incoming) { m.Route.To = "\xff" },
		func(m *spawn.Incoming) { m.Parts = []session.Part{{}} },
		func(m *spawn.Incoming) { m.Parts = make([]session.Part, 100) },
		func(m *spawn.Incoming) { m.Senders = []policy.Sender{{ID: "\xff"}} },
		func(m *spawn.Incoming) { m.Thread = true },
	} {
		bad := m
		wrong(&bad)
		list = append(list, bad)
	}
	return list
}

// wrongRequests are spawns that no requester can ask for at any time.
func wrongRequests() []spawn.Request {
	q := spawn.Request{Task: "x"}
	// What a run may spend and do is told by the rules.
	list := tooLong(q, "Policy.Sandbox")
	for _, wrong := range []func(q *spawn.Request){
		func(q *spawn.Request) { q.Task = "" },
		func(q *spawn.Request) { q.Task = " \u200b" },
		func(q *spawn.Request) { q.Name = "Not A Name" },
		func(q *spawn.Request) { q.Key = "\xff" },
		func(q *spawn.Request) { q.Label = "\xff" },
		func(q *spawn.Request) { q.Origin = "\xff" },
		func(q *spawn.Request) { q.Update, q.Announce = true, true },
		func(q *spawn.Request) { q.Thread = true },
		func(q *spawn.Request) { q.Session = true },
		func(q *spawn.Request) { q.Bind = session.Route{Channel: "x", To: "y"} },
		func(q *spawn.Request) { q.Route.To = "\xff" },
		func(q *spawn.Request) { q.Senders = []policy.Sender{{Peer: "\xff"}} },
		func(q *spawn.Request) { q.Extra = bytes.Repeat([]byte("1"), 2_000_000) },
	} {
		bad := q
		wrong(&bad)
		list = append(list, bad)
	}
	return list
}

// wrongCommands call each command with arguments that are wrong at any time, by the method.
var wrongCommands = map[string]func(context.Context, *spawn.Supervisor, session.Key) []error{
	"Announce": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, e := range append(tooLong(spawn.Event{ID: "x", Text: "x"}, "Origin"),
			spawn.Event{Text: "x"}, spawn.Event{ID: "x"}, spawn.Event{ID: "\xff", Text: "x"}) {
			list = append(list, errorOf(s.Announce(ctx, topKey, e)))
		}
		return append(list, errorOf(s.Announce(ctx, child, spawn.Event{ID: "x", Text: "x"})))
	},
	"Bind": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		full := session.Route{Channel: "discord", To: "x"}
		for _, r := range append(tooLong(full), session.Route{}, session.Route{Channel: "discord"},
			session.Route{Channel: "Discord", To: "x"}, session.Route{Channel: "d", To: "\xff"}) {
			list = append(list, s.Bind(ctx, topKey, child, r))
		}
		return list
	},
	"Unbind": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, why := range []string{"a\nb", "\xff", strings.Repeat("x", 200)} {
			list = append(list, s.Unbind(ctx, topKey, child, threadOne, why))
		}
		return list
	},
	"Post": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, m := range wrongMessages() {
			list = append(list, errorOf(s.Post(ctx, topKey, topKey, m)),
				errorOf(s.Post(ctx, topKey, child, m)))
		}
		return list
	},
	"PostAndWait": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) (list []error) {
		for _, m := range wrongMessages() {
			list = append(list, errorOf(s.PostAndWait(ctx, topKey, topKey, m)))
		}
		return list
	},
	"Send": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, m := range wrongMessages() {
			if m.ID == "" { // of one that a session sends the journal keeps a digest
				list = append(list, errorOf(s.Send(
					ctx, topKey, topKey, child, m, spawn.SendOptions{})))
			}
		}
		bad := spawn.SendOptions{Origin: "\xff"}
		return append(list,
			errorOf(s.Send(ctx, topKey, topKey, child, spawn.Incoming{Text: "x"}, bad)))
	},
	"SendAndWait": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, m := range wrongMessages() {
			if m.ID == "" {
				_, _, err := s.SendAndWait(ctx, topKey, child, topKey, m, spawn.SendOptions{})
				list = append(list, err)
			}
		}
		return list
	},
	"SendOut": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		other := session.Must(session.MainKey("other"))
		for _, m := range []spawn.Incoming{
			{},
			{Text: " "},
			{Text: strings.Repeat("x", 2_000_000)},
			{Text: "x", Senders: []policy.Sender{{ID: "\xff"}}},
		} {
			_, _, err := s.SendOut(ctx, topKey, topKey, other, m, 0)
			list = append(list, err)
		}
		return list
	},
	"SetRoute": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) (list []error) {
		full := session.Route{Channel: "discord", To: "x"}
		for _, r := range append(tooLong(full), session.Route{Channel: "\xff"},
			session.Route{Account: "\xff"}, session.Route{To: "\xff"}, session.Route{Thread: "\xff"}) {
			list = append(list, s.SetRoute(ctx, topKey, topKey, r))
		}
		return list
	},
	"Deposit": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) (list []error) {
		for _, q := range wrongRequests() {
			if !q.Thread && q.Bind.IsZero() { // of a deposit no conversation is asked for
				list = append(list, s.Deposit(ctx, topKey, topKey, q,
					func(spawn.Deposit) error { return nil }))
			}
		}
		return list
	},
	"Spawn": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) (list []error) {
		for _, q := range wrongRequests() {
			list = append(list, errorOf(s.Spawn(ctx, topKey, topKey, q)))
		}
		return list
	},
	"Steer": func(ctx context.Context, s *spawn.Supervisor, child session.Key) (list []error) {
		for _, m := range []spawn.Incoming{
			{},
			{Text: " "},
			{Text: strings.Repeat("x", 5000)},
			{ID: "\xff", Text: "x"},
			{ID: strings.Repeat("x", 5000), Text: "x"},
			{Text: "x", Senders: []policy.Sender{{ID: "\xff"}}},
		} {
			list = append(list, s.Steer(ctx, topKey, topKey, refOf(child), m))
		}
		return list
	},
}

// An argument that is wrong is never one that may be sent again, whether ctx has ended, the
// Supervisor has, or neither. So it is with a root that has no tree, of every command.
func TestWrongArgumentsAreNotSentAgain(t *testing.T) {
	for _, name := range lateCommands {
		switch name {
		case "CanBind", "CancelTurn", "Compact", "DeleteSession", "Files", "Ready", "Reset", "ResetOnce",
			"Stop",
			"StopRun": // they are given keys alone
		case "Dismiss", "Purge", "Retry", "Revive": // what they are given the store alone can tell
		default:
			require.Contains(t, wrongCommands, name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, ran := runUntil(forADay(t), t, spawn.Config{Runner: runnerFunc(workOn)})
		child := mustSpawn(t, s, spawn.Request{Task: "work"})
		enough := errors.New("enough")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(enough)
		check := func(when string, ctx context.Context) {
			for name, command := range wrongCommands {
				for i, err := range command(ctx, s, child) {
					_, input := errors.AsType[*spawn.InputError](err)
					_, part := errors.AsType[*session.PartError](err)
					if !input && !part || errors.Is(err, spawn.ErrNotRecorded) ||
						errors.Is(err, spawn.ErrUnconfirmed) {
						t.Errorf("%s %d %s: %v", name, i, when, err)
					}
				}
			}
			for m := range reflect.TypeOf(s).Methods() {
				if m.Type.NumIn() < 4 || m.Type.In(2) != reflect.TypeFor[session.Key]() ||
					!slices.Contains(lateCommands, m.Name) {
					continue
				}
				err := callLate(ctx, t, s, m, child, child)
				if errors.Is(err, spawn.ErrNotRecorded) || err == nil {
					t.Errorf("%s of no tree %s: %v", m.Name, when, err)
				}
			}
		}
		check("in time", t.Context())
		check("with a ctx that has ended", ended)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
		check("after a shutdown", t.Context())
	})
}
