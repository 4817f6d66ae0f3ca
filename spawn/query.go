package spawn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Runs returns the children of the session requester that are in the tree, oldest first. If deep is
// set it returns all runs below the requester, parents first. The error is [ErrNotFound] if the
// tree does not have the requester, or one that every call that reads can return.
func (s *Supervisor) Runs(
	ctx context.Context, root, requester session.Key, deep bool,
) (list []RunInfo, err error) {
	found := false
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		r := t.Run(requester)
		if found = r != nil; !found {
			return
		}
		list = runsBelow(t, r, deep, nil)
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: runs of %q", ErrNotFound, requester)
	}
	return list, err
}

// runsBelow appends the children of r to list, or with deep all runs below r.
func runsBelow(t *tree.Tree, r *tree.Run, deep bool, list []RunInfo) []RunInfo {
	r.Children(func(c *tree.Run) bool {
		list = append(list, infoOf(t, c))
		if deep {
			list = runsBelow(t, c, deep, list)
		}
		return true
	})
	return list
}

// OwnRuns returns the runs of a session itself, oldest first: those before the present one that are
// kept, and the present one. Of the runs before, the first, the last and those whose end is still
// to be read are kept. The error is [ErrNotFound] if the tree does not have the session, an
// *[InputError] for a top-level session, which has no runs, or one that every call that reads can
// return.
func (s *Supervisor) OwnRuns(
	ctx context.Context, root, key session.Key,
) (list []RunInfo, err error) {
	if key == root {
		return nil, &InputError{Field: "session", Reason: "a top-level session has no runs"}
	}
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		if r := t.Run(key); r != nil {
			list = runsOf(t, r)
		}
	})
	if err == nil && list == nil {
		err = fmt.Errorf("%w: runs of %q itself", ErrNotFound, key)
	}
	return list, err
}

// Find returns a run of a tree. The error is [ErrNotFound] if the tree does not have it, also for a
// run that other runs of the session have followed and that is not kept, see [Supervisor.OwnRuns].
// The first run of a session that was spawned with a Key is found as long as the Key is known.
// Else it is one that every call that reads can return.
func (s *Supervisor) Find(
	ctx context.Context, root session.Key, run RunRef,
) (info RunInfo, err error) {
	var missing error
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		var found bool
		if info, found = findRun(t, run); !found {
			missing = missingRun(t, "", run)
		}
	})
	if err == nil {
		err = missing
	}
	return info, err
}

// LabelOf returns the label of a session; empty: it has none. The error is [ErrNotFound] for one
// that is not in the tree, or one that every call that reads can return.
func (s *Supervisor) LabelOf(
	ctx context.Context, root, key session.Key,
) (label string, err error) {
	found := false
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		if r := t.Run(key); r != nil {
			label, found = r.Spec.Label(), true
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	return label, err
}

// Transcript returns where the conversation of a session stands and how far it is committed: what
// lies beyond the position belongs to a turn under way, or to one that was interrupted. The error
// is [ErrNotFound] if the tree does not have the session, or one that every call that reads can
// return.
func (s *Supervisor) Transcript(
	ctx context.Context, root, key session.Key,
) (ref session.Ref, end session.Pos, err error) {
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		if r := t.Run(key); r != nil {
			ref = session.Ref{Key: key, SessionID: r.Spec.SessionID}
			end = session.Pos(r.Pos)
		}
	})
	if err == nil && ref.SessionID == "" {
		err = fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	return ref, end, err
}

// Files returns the transcript under which a program puts files for a session, before a fact or a
// line names them. A top-level session that is not on record is begun. The error is [ErrNotFound]
// for a sub-agent that is not in the tree, an [*EndedError] or [ErrStopping] for one that would
// take no message, or one that every command can return.
func (s *Supervisor) Files(
	ctx context.Context, root, key session.Key,
) (ref session.Ref, err error) {
	err = s.do(ctx, root, tree.Ensure{Run: key}, func(_ *tree.Tree, r tree.Reply) {
		if r.Run != nil {
			ref = session.Ref{Key: key, SessionID: r.Run.Spec.SessionID}
		}
	})
	return ref, repeatable(err, repeatAsIs)
}

// RootOf returns the top-level session of the tree that a session belongs to. A top-level session
// is its own root. Of a sub-agent the journal names the tree, which is opened if it was not touched
// yet. The error is ErrNotFound if no tree has it, ErrShutdown after a shutdown, and why the
// journal or the tree cannot be read if it may be the one: ErrUnreadable, or the cause of ctx.
//
// A tree that an earlier version wrote, and that was not opened since, names no sub-agents: its
// own are not found until it is opened, by a call for its top-level session or because it is due.
func (s *Supervisor) RootOf(ctx context.Context, key session.Key) (session.Key, error) {
	if isTree(key) {
		return key, nil
	}
	found, _, err := s.findRoot(ctx, key)
	return found, err
}

// RouteOf returns where a session talks to people: where the turn under way answers; between turns,
// for a top-level session, where it talks but for the conversations that were bound to it, and for
// a sub-agent the conversation that was bound to it last; else, of a sub-agent, where the answer of
// its requester went when it was spawned. So a conversation that a person binds to a session never
// stands for that of others. Zero: that is not known. The error is [ErrNotFound] for a session that
// is not on record, or one that every call that reads can return.
func (s *Supervisor) RouteOf(
	ctx context.Context, root, key session.Key,
) (route session.Route, err error) {
	found := false
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		r := t.Run(key)
		if found = r != nil; !found {
			return
		}
		if at := r.TalksAt(); at != nil {
			route = *at
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	return route, err
}

// Knows reports whether a session has seen a message, also one that has ended or was archived
// since: one of its ID that came from its Route, and with its Thread. Nothing else of m is looked
// at. A session that is not on record knows nothing. The error is one that every call that reads
// can return.
func (s *Supervisor) Knows(
	ctx context.Context, root, key session.Key, m Incoming,
) (known bool, err error) {
	post := &tree.Post{To: key, ID: m.ID, Thread: m.Thread}
	if route := m.Route.Clean(); !route.IsZero() {
		post.Route = &route
	}
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) { known = t.Knows(post) })
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return known, err
}

// WaitRootOf is [Supervisor.RootOf] for a caller that waits for something of the tree: it waits for
// a failing journal instead of returning ErrUnreadable. The error is ErrNotFound, or one that every
// call that waits can return.
func (s *Supervisor) WaitRootOf(ctx context.Context, key session.Key) (session.Key, error) {
	if isTree(key) {
		return key, nil
	}
	for pause := owner.NextBackoff(0); ; pause = owner.NextBackoff(pause) {
		root, recovers, err := s.findRoot(ctx, key)
		if err == nil || !recovers {
			return root, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
		case <-s.closed:
		}
		again.Stop()
	}
}

// findRoot looks for the tree of a sub-agent. If it fails, recovers says whether a tree that cannot
// be read now may be the one, and may be readable later.
func (s *Supervisor) findRoot(
	ctx context.Context, key session.Key,
) (root session.Key, recovers bool, err error) {
	var failed error
	for root, err := range s.rootsWith(ctx, key) {
		found := false
		if err == nil {
			found, err = s.hasRun(ctx, root, key)
		}
		if found {
			return root, false, nil
		}
		if err != nil {
			recovers = recovers || errors.Is(err, ErrUnreadable) && owner.Recovers(err)
			failed = err
		}
	}
	switch {
	case s.closedCtx.Err() != nil:
		failed, recovers = ErrShutdown, false
	case ctx.Err() != nil: // what was not read may have it
		failed = context.Cause(ctx)
	}
	if failed == nil {
		failed = ErrNotFound
	}
	recovers = recovers && ctx.Err() == nil
	return session.Key{}, recovers, fmt.Errorf("%w: the tree of %q", failed, key)
}

// rootsWith yields the trees that may have a run: those that the journal names. If the journal
// fails, it yields the error and then every tree that was touched, because some are in memory.
func (s *Supervisor) rootsWith(
	ctx context.Context, key session.Key,
) iter.Seq2[session.Key, error] {
	return func(yield func(session.Key, error) bool) {
		lookup, cancel := s.untilClosed(ctx)
		defer cancel()
		var failed error
		for head, err := range s.reads.Roots(lookup, session.RootQuery{Member: key}) {
			if failed = err; err != nil {
				break
			}
			if isTree(head.Root) && !yield(head.Root, nil) {
				return
			}
		}
		if failed == nil || ctx.Err() != nil {
			return
		}
		failed = fmt.Errorf("%w: looking for a session: %w", ErrUnreadable, failed)
		if !yield(session.Key{}, failed) {
			return
		}
		for _, sh := range s.allShells() {
			if !yield(sh.owner.Root(), nil) {
				return
			}
		}
	}
}

// hasRun reports whether a tree has a run.
func (s *Supervisor) hasRun(ctx context.Context, root, key session.Key) (found bool, err error) {
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) { found = t.Run(key) != nil })
	return found && err == nil, err
}

// Outbox returns what has left a tree and has not arrived, oldest first. A delivery whose Blocked
// is not zero waits for [Supervisor.Retry] or [Supervisor.Dismiss]. The error is one that every
// call that reads can return.
func (s *Supervisor) Outbox(
	ctx context.Context, root session.Key,
) (list []Delivery, err error) {
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		t.Outbox(func(e *tree.Entry) { list = append(list, deliveryOf(t, e)) })
	})
	return list, err
}

// Idle waits until nothing is under way in a tree: no turn, no run that has not ended, no message
// that is not answered, and no delivery except blocked ones. A message that is posted meanwhile may
// start the next turn before Idle has returned. Before [Supervisor.Run] has been called Idle waits
// for that too. The error is an *[InputError] under the ctx of a turn of the tree, of a delivery or
// of a hook, for whose end Idle would wait, or one that every call that waits can return.
func (s *Supervisor) Idle(ctx context.Context, root session.Key) error {
	if within(ctx, root) {
		return &InputError{
			Field: "ctx", Reason: "it is that of a turn, a delivery or a hook of the tree, for " +
				"whose end Idle would wait",
		}
	}
	return s.await(ctx, root, (*tree.Tree).Idle)
}

// endIdle ends a call of Idle.
func (sh *treeShell) endIdle(wake chan struct{}) {
	sh.mu.Lock()
	sh.idlers.Delete(wake)
	sh.mu.Unlock()
	sh.sup.forget(sh)
}
