package spawn_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// lateCommands are the methods of a Supervisor that change something: what they say of a ctx that
// has ended is also whether that was recorded. The others read or wait, or ask in the place of a
// command whether it would do.
var lateCommands = []string{
	"Announce",
	"Bind", "CanBind", "CancelTurn", "Compact", "DeleteSession", "Deposit", "Dismiss", "Files",
	"Post", "PostAndWait", "Purge", "Ready", "Reset", "Retry", "Revive", "Send",
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
				case "Compact", "Ready", "Reset", "PostAndWait", "SendAndWait":
					keys = keys[:1]
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
