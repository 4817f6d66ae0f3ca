package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// instants are the facts that a message may follow in the same instant.
var instants = []tree.Kind{
	tree.StopRequested, tree.RunEnded, tree.ArchiveBegun, tree.Archived, tree.Unbound,
	tree.Discarded, tree.Unarchived, tree.Bound,
}

// meet has some of the facts of a batch, which has been appended, met by a message to their session
// in the same instant: the effects of the batch have not begun.
func (w *world) meet(ctx context.Context, entries []session.Entry) {
	l := w.now
	for _, e := range entries {
		f, ok := e.Payload.(*tree.Fact)
		if !ok || l == nil || f.Run == topKey || !slices.Contains(instants, f.Kind) ||
			w.roll(3, "meets", f.Kind, w.met) > 0 {
			continue
		}
		w.met++
		m := spawn.Incoming{Text: fmt.Sprintf("more %d", w.checks.Add(1))}
		if f.Kind == tree.Unbound || f.Kind == tree.Bound {
			m = spawn.Incoming{
				ID: fmt.Sprintf("i%d", w.met), Text: "there", Thread: true, Route: *f.Route, Own: topKey,
			}
		}
		go w.sayAt(context.WithoutCancel(ctx), l, f.Kind, f.Run, m)
	}
}

// sayAt posts a message at the instant of a fact, and counts what became of it.
func (w *world) sayAt(
	ctx context.Context, l *life, at tree.Kind, to session.Key, m spawn.Incoming,
) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	began := time.Now()
	w.mayRestart(to)
	receipt, err := l.sup.Post(ctx, topKey, to, m)
	w.decided(to, err)
	w.expected(err)
	if time.Since(began) > 0 {
		return
	}
	became := "read"
	switch {
	case err == nil && receipt.Began:
		became = "begins a run"
	case errors.Is(err, session.ErrArchived):
		became = "archived"
	case errors.Is(err, spawn.ErrStopping):
		became = "stopping"
	case errors.Is(err, spawn.ErrEnded):
		became = "ended"
	case errors.Is(err, spawn.ErrNotBound):
		became = "not bound"
	case errors.Is(err, spawn.ErrNotFound):
		became = "not found"
	case err != nil:
		became = "other"
	}
	w.tally.add("at %v: %s", at, became)
}
