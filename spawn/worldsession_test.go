package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// roomOf returns one of a few conversations.
func roomOf(n int) session.Route {
	return session.Route{Channel: "irc", To: fmt.Sprint("room", n%3)}
}

// sessionActs returns what callers do with sessions that outlive their runs.
func (w *world) sessionActs() []act {
	return []act{
		{"bind", 2, false, func(ctx context.Context, l *life, r *rand.Rand) {
			w.expected(l.sup.Bind(ctx, topKey, w.any(r), roomOf(r.IntN(3))))
		}},
		{"unbind", 1, false, func(ctx context.Context, l *life, r *rand.Rand) {
			w.expected(l.sup.Unbind(ctx, topKey, w.any(r), roomOf(r.IntN(3)), "manual"))
		}},
		{"talk", 2, false, w.tellBound},
		{"delete", 1, false, func(ctx context.Context, l *life, r *rand.Rand) {
			if to := w.any(r); to != topKey || r.IntN(4) == 0 {
				w.end(ctx, l, to, "DeleteSession", func() error {
					return l.sup.DeleteSession(ctx, topKey, to, "deleted")
				})
			}
		}},
		{"revive", 2, false, func(ctx context.Context, l *life, r *rand.Rand) {
			if err := l.sup.Revive(ctx, w.any(r)); !isOfTheStore(err) {
				w.expected(err)
			}
		}},
	}
}

// isOfTheStore reports whether an error is that of the store's files, which a caller is told as it
// is, or says what they did instead.
func isOfTheStore(err error) bool {
	return errors.Is(err, spawntest.ErrFault) || errors.Is(err, spawntest.ErrDead) ||
		errors.Is(err, spawn.ErrStoreExited) || isBroken(err)
}

// tellBound posts a message of a conversation to the session that it is bound to, or was.
func (w *world) tellBound(ctx context.Context, l *life, r *rand.Rand) {
	bound, err := l.sup.Bindings(ctx, topKey)
	w.known(err)
	to, room := w.any(r), roomOf(r.IntN(3))
	if len(bound) > 0 {
		b := bound[r.IntN(len(bound))]
		to, room = b.Session, b.Route
	}
	w.mayRestart(to)
	w.pause(time.Duration(r.IntN(3)) * time.Second) // meanwhile it may be unbound
	receipt, err := l.sup.Post(ctx, topKey, to, spawn.Incoming{
		ID: fmt.Sprint("c", r.IntN(30)), Text: "there", Thread: true, Route: room, Own: topKey,
	})
	w.decided(to, err)
	w.expected(err)
	if err == nil && !receipt.Existing && receipt.Session != to {
		w.fail("a message for %s was told to %s", to, receipt.Session)
	}
}

// expected checks that an error is one that a caller has to expect who uses sessions.
func (w *world) expected(err error) {
	for _, want := range []error{
		session.ErrArchived, spawn.ErrNotBound, spawn.ErrNoRecord, spawn.ErrNotTopLevel,
	} {
		if errors.Is(err, want) {
			return
		}
	}
	w.known(err)
}

// send has a turn send a message to a session below it, which may begin another run of that.
func (w *world) send(ctx context.Context, t *spawn.TurnInput, to session.Key, what int) {
	w.mayRestart(to)
	_, err := t.Send(ctx, to, spawn.Incoming{Text: "go on"}, spawn.SendOptions{
		Announce: what&1 == 0, ByModel: what&2 == 0,
	})
	w.decided(to, err)
	w.expected(err)
}

// unbind is a Config.Unbind, which may do anything.
func (w *world) unbind(_ context.Context, u spawn.UnbindRequest) error {
	if u.Root != topKey || u.Reason == "" || !u.Route.Complete() {
		w.fail("Unbind was called for %+v", u)
	}
	w.mu.Lock()
	w.calls++
	roll := w.roll(8, u.Session, w.calls, "unbind")
	w.mu.Unlock()
	switch roll {
	case 0:
		return errors.New("down")
	case 1:
		panic("down")
	case 2:
		runtime.Goexit()
	case 3:
		w.pause(3 * time.Minute)
	}
	return nil
}

// checkMessages checks that a message of a conversation is told to one session, once.
func (w *world) checkMessages() {
	seen := make(map[string]session.Key) // by id and conversation
	for e, err := range w.h.Entries(topKey) {
		if err != nil {
			return // checkResults says so
		}
		f, err := tree.FactOf(e.Payload)
		if err != nil || f.Flags&tree.FlagThread == 0 || f.ID() == "" ||
			f.Kind != tree.Posted && f.Kind != tree.Restarted {
			continue
		}
		id := fmt.Sprintf("%s of %+v", f.ID(), *f.Route)
		if old, again := seen[id]; again && !w.years.Load() {
			w.fail("message %q was told to %s and then to %s", id, old, f.Run)
		}
		seen[id] = f.Run
	}
}
