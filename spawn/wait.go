package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/route"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// waiter is a caller outside the tree that waits for runs to end. It counts as a session that
// yields does. No entry of the journal records it, so that it counts anew when the tree has been
// lost and is read again. The lock of the shell guards it.
type waiter struct {
	members  map[RunRef]bool    // whether the run has ended
	frozen   map[RunRef]RunInfo // of members that another run has followed; nil: of none
	join     tree.Join
	root     bool          // waits until the top-level session has recovered from a stop
	ready    chan struct{} // closed when the wait is over
	err      error         // why it is over, if the tree was lost to another owner
	finished bool          // whether ready is closed
}

// finish ends the wait.
func (w *waiter) finish(err error) {
	if !w.finished {
		w.finished, w.err = true, err
		close(w.ready)
	}
}

// recount counts from the tree as it stands. A member that the tree does not have has ended.
func (w *waiter) recount(t *tree.Tree) {
	w.join.Left, w.join.Good = 0, 0
	for ref := range w.members {
		of, _ := standing(t, &ref)
		w.members[ref] = of.State == 0 || of.State.Terminal()
		switch {
		case !w.members[ref]:
			w.join.Left++
		case of.State == tree.OK:
			w.join.Good++
		}
	}
	if w.root && t.Root().Cause != tree.NoCause {
		w.join.Left++
	}
	if w.join.Ready(0) {
		w.finish(nil)
	}
}

// runEnded counts one run that has ended in a state.
func (w *waiter) runEnded(ref RunRef, s tree.State) {
	if ended, member := w.members[ref]; member && !ended {
		w.members[ref] = true
		w.join.Count(s)
		if w.join.Ready(0) {
			w.finish(nil)
		}
	}
}

// freeze keeps what is known of a member that has ended, or that another run has followed: the tree
// may forget it.
func (w *waiter) freeze(info RunInfo) {
	if w.frozen == nil {
		w.frozen = make(map[RunRef]RunInfo)
	}
	w.frozen[info.Ref()] = info
}

// wait waits for runs of the tree and returns how each of them stands then, in the order of refs,
// with whole results. It sets the ids of refs that are not named. The error is ErrUnreadable if a
// result cannot be loaded.
//
// The turn under whose context ctx is works for those for whom these runs have worked, before it
// has the results.
func (sh *treeShell) wait(ctx context.Context, refs []RunRef, opt JoinOptions) ([]RunInfo, error) {
	infos, err := sh.waitFor(ctx, refs, opt)
	return sh.sup.heard(ctx, infos, err)
}

// heard returns runs that were waited for, with whole results, after the turn that waits works for
// those for whom they have worked.
func (s *Supervisor) heard(ctx context.Context, infos []RunInfo, err error) ([]RunInfo, error) {
	if err != nil {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotWithin)
		defer cancel()
		if herr := turnOf(ctx).hearRuns(soon, infos); herr != nil && !errors.Is(herr, ErrStale) {
			return nil, err
		} // a turn that is to end does nothing more with them
		return infos, err
	}
	if err := turnOf(ctx).hearRuns(ctx, infos); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	for i := range infos {
		if err := s.loadResult(ctx, &infos[i]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	return infos, nil
}

// waitFor waits for runs of the tree and returns how each of them stands then. It sets the ids of
// refs that are not named.
func (sh *treeShell) waitFor(
	ctx context.Context, refs []RunRef, opt JoinOptions,
) ([]RunInfo, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	w := &waiter{members: make(map[RunRef]bool, len(refs)), ready: make(chan struct{})}
	w.join.Need = opt.need()
	if err := sh.registerWaiter(ctx, w, refs, opt.Within == 0); err != nil {
		return nil, err
	}
	defer sh.removeWaiter(w)
	defer turnOf(ctx).pause()()
	var limit <-chan time.Time // nil, which never fires, without a limit
	if opt.Within != 0 {
		timer := time.NewTimer(opt.Within)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-w.ready:
	case <-limit:
	case <-ctx.Done():
	case <-sh.sup.closed:
		return nil, ErrShutdown
	}
	if w.failure(sh) != nil {
		return nil, w.err
	}
	if cause := context.Cause(ctx); cause != nil {
		return sh.snapshot(ctx, w, refs), cause
	}
	switch opt.rest() {
	case tree.RestStop:
		if err := sh.stopRest(ctx, w, refs); err != nil {
			return nil, err
		}
	case tree.RestAnnounce:
		return sh.announceRest(ctx, w, refs)
	default: // what has not ended goes on
	}
	return sh.infos(ctx, w, refs)
}

// announceRest has the requesters told of the ends of the runs that have not ended, and returns how
// all of them stood when that was decided.
func (sh *treeShell) announceRest(
	ctx context.Context, w *waiter, refs []RunRef,
) (infos []RunInfo, err error) {
	var cmd tree.AnnounceRest
	for _, ref := range refs {
		cmd.Keys, cmd.Runs = append(cmd.Keys, ref.Session), append(cmd.Runs, string(ref.Run))
	}
	err = sh.owner.Await(ctx, cmd, func(t *tree.Tree, r tree.Reply) {
		infos = sh.infosOf(t, w, refs, func(i int) *tree.Run { return r.Stood[i] })
	})
	return infos, repeatable(err, repeatAsIs)
}

// snapshotWithin is how long a caller whose context has ended waits for a last reading of the tree.
const snapshotWithin = 50 * time.Millisecond

// snapshot returns how runs stand, for a caller whose context has ended. It returns nil if the tree
// cannot be read at once, because a journal may hang.
func (sh *treeShell) snapshot(ctx context.Context, w *waiter, refs []RunRef) []RunInfo {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotWithin)
	defer cancel()
	infos, err := sh.infos(soon, w, refs)
	if err != nil {
		return nil
	}
	return infos
}

// failure returns the error that ended the wait, if one did.
func (w *waiter) failure(sh *treeShell) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return w.err
}

// askFunc asks the owner: its Do, or its Await for a caller that waits for something else anyway.
type askFunc func(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error

// registerWaiter makes runs the members of a waiter, counts it and has it told of every end from
// that moment on. It sets the ids of runs that are not named. The error is ErrNotFound if the tree
// does not have one of the runs, and of a wait without a limit an *InputError if one of them cannot
// end before the turn that waits.
func (sh *treeShell) registerWaiter(
	ctx context.Context, w *waiter, refs []RunRef, endless bool,
) error {
	var missing error
	by := turnOf(ctx)
	err := sh.owner.Await(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		if missing = w.begin(t, refs, by, endless); missing == nil {
			sh.addWaiter(w, t)
		}
	})
	if err == nil {
		err = missing
	}
	if err != nil {
		sh.removeWaiter(w)
	}
	return err
}

// begin makes runs of a tree the members of w, see registerWaiter. by is the turn that waits, or
// nil.
func (w *waiter) begin(t *tree.Tree, refs []RunRef, by *TurnInput, endless bool) error {
	for i := range refs {
		ref := &refs[i]
		of, found := standing(t, ref)
		if !found {
			return missingRun(t, "waiting for ", *ref)
		}
		ended := of.State == 0 || of.State.Terminal()
		if endless && by != nil && !ended && isBelow(t, by.Session.Key, t.Run(ref.Session)) {
			return &InputError{
				Field: "runs", Reason: fmt.Sprintf("the turn of %q would wait for its own end, "+
					"which run %s of %q waits for", by.Session.Key, ref.Run, ref.Session),
			}
		}
		w.members[*ref] = false
	}
	return nil
}

// addWaiter counts a waiter and has it told of what follows. The owner of the tree calls it, so
// that no end is missed between the two.
func (sh *treeShell) addWaiter(w *waiter, t *tree.Tree) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	few.Put(&sh.waiters, w, struct{}{})
	for ref := range w.members {
		few.Put(&sh.waitersByRun, ref, append(sh.waitersByRun[ref], w))
	}
	w.recount(t)
}

func (sh *treeShell) removeWaiter(w *waiter) {
	defer sh.releaseArchives()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.waiters, w)
	for ref := range w.members {
		others := slices.DeleteFunc(sh.waitersByRun[ref], func(x *waiter) bool { return x == w })
		if len(others) == 0 {
			delete(sh.waitersByRun, ref)
		} else {
			sh.waitersByRun[ref] = others
		}
	}
}

// stopRest stops the runs that have not ended and waits until they have.
func (sh *treeShell) stopRest(ctx context.Context, w *waiter, refs []RunRef) error {
	infos, err := sh.infos(ctx, w, refs)
	if err != nil {
		return err
	}
	var rest []RunRef
	for _, info := range infos {
		if info.ID == "" || info.Status.Terminal() {
			continue
		}
		rest = append(rest, info.Ref())
		cmd := &tree.Stop{
			Run: info.Key, RunID: string(info.ID), Reason: "no longer needed",
			Rand: sh.sup.ids.rand(),
		}
		if err := sh.owner.Await(ctx, cmd, nil); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	_, err = sh.waitFor(ctx, rest, JoinOptions{})
	return err
}

// infos returns how the members of a waiter stand. A run that the tree has no longer, and that no
// other has followed since the wait began, has only its Key and Root.
func (sh *treeShell) infos(
	ctx context.Context, w *waiter, refs []RunRef,
) (infos []RunInfo, err error) {
	err = sh.owner.Await(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
		infos = sh.infosOf(t, w, refs, func(i int) *tree.Run { return t.Run(refs[i].Session) })
	})
	return infos, err
}

// infosOf returns how runs stand of the sessions that are given, nil for one that is gone. The
// owner of the tree calls it.
func (sh *treeShell) infosOf(
	t *tree.Tree, w *waiter, refs []RunRef, given func(i int) *tree.Run,
) []RunInfo {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	infos := make([]RunInfo, 0, len(refs))
	for i, ref := range refs {
		info, found := findRunOf(t, given(i), ref.Run)
		if !found {
			info, found = w.frozen[ref]
		}
		if !found {
			info, found = findRun(t, ref)
		}
		if !found {
			info = RunInfo{Key: ref.Session, Root: t.Root().Key()}
		}
		infos = append(infos, info)
	}
	return infos
}

// stop stops a run and everything below it, and waits until nothing of it is alive. It asks the
// owner with ask. It does nothing if another run has followed the one that is meant.
func (sh *treeShell) stop(ctx context.Context, ref RunRef, reason string, ask askFunc) error {
	w := &waiter{members: make(map[RunRef]bool), ready: make(chan struct{})}
	cmd := &tree.Stop{
		Run: ref.Session, RunID: string(ref.Run), Reason: text.Bound(reason, secret.MaxText),
		Rand: sh.sup.ids.rand(),
	}
	followed := false
	err := ask(ctx, cmd, func(t *tree.Tree, r tree.Reply) {
		id := RunID(r.Run.RunID())
		if followed = ref.Run != "" && ref.Run != id; followed {
			return
		}
		if r.Run.IsRoot() {
			w.root = true
		} else {
			w.members[RunRef{ref.Session, id}] = false
		}
		sh.addWaiter(w, t)
	})
	if followed && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer sh.removeWaiter(w)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return sh.unconfirmed(context.Cause(ctx))
	case <-sh.sup.closed:
		return sh.unconfirmed(ErrShutdown)
	}
	if err := w.failure(sh); err != nil {
		return err
	}
	return sh.stillRunning(ctx, ref.Session)
}

// stillRunning returns a *StillRunningError that names the cancelled turns of a session, and of
// everything below it, that do not return within their grace period, and the sessions that have
// left a call behind; nil if there are none. The turns that the tree has waited for have had their
// grace period. Those of a tree that was lost may still have some of it.
func (sh *treeShell) stillRunning(ctx context.Context, key session.Key) error {
	var left []session.Key
	all := true
	for _, rt := range sh.cancelledBelow(key) {
		if sh.waitReturned(ctx, rt) {
			continue
		}
		if all = false; !rt.turn.fence.inStore.Load() {
			left = append(left, rt.key)
		}
	}
	left = sh.addLeft(left, key)
	switch {
	case ctx.Err() != nil:
		return sh.unconfirmed(context.Cause(ctx))
	case all && len(left) == 0:
		return nil
	}
	return &StillRunningError{Sessions: distinct(left)}
}

// cancelledBelow returns the turns of a session, and of everything below it, that were cancelled
// and have not returned. It compares keys, because a tree that was lost and is read again has other
// runs under the same keys.
func (sh *treeShell) cancelledBelow(key session.Key) (list []*runningTurn) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, rt := range sh.turns.All() {
		if rt.hasReturned || rt.cancelledAt.IsZero() {
			continue
		}
		for r := rt.id.run; r != nil; r = r.Parent {
			if r.Key() == key {
				list = append(list, rt)
				break
			}
		}
	}
	return list
}

// waitReturned waits until a turn has returned, its grace period is over, or ctx ends. It reports
// whether the turn has returned.
func (sh *treeShell) waitReturned(ctx context.Context, rt *runningTurn) bool {
	sh.mu.Lock()
	done, left := rt.whenReturned(), sh.sup.cfg.Grace-time.Since(rt.cancelledAt)
	sh.mu.Unlock()
	grace := time.NewTimer(max(left, 0))
	defer grace.Stop()
	select {
	case <-done: // it counts even if the grace period is over too
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-grace.C:
	case <-ctx.Done():
	}
	return false
}

// Reset has a top-level session go on in a new conversation, under a new session id. It returns
// when that is durable. Reset waits for the turn under way, and for the end of a Stop. One reset is
// the answer to all who wait for one.
//
// What was posted and not read stays in the inbox and is answered in the new conversation, with the
// bytes of its parts. So are the ends of sub-agents that no turn has read. The session takes skills
// anew. Its route, its usage and its budget stay, and turns and inputs are counted on. The
// transcript before the reset is archived with its files at once, whatever
// Rules.Subagents.ArchiveAfter says, or as soon as what was posted before has been answered. That
// goes on after a crash. The archive is read with the session id from before and
// [session.LineQuery.Archived]. A crash while Reset waits resets nothing.
//
// The error is a *[ChildrenError] while a child has not ended, also one that the turn under way
// spawns, [ErrNotTopLevel] for a sub-agent, an *[InputError] for the session whose own turn calls
// it, or one that every command can return. It is [ErrUnconfirmed] beside the cause of ctx or
// [ErrShutdown] if that ends while it waits, and if another owner takes the tree meanwhile.
func (s *Supervisor) Reset(ctx context.Context, root, key session.Key) error {
	return s.ResetOnce(ctx, root, key, "")
}

// ResetOnce is [Supervisor.Reset] with an id of the message that asks for it, as that of [Incoming]
// is for [Supervisor.Post]: where a reset with that id has been within the last seven days, nothing
// happens, and the error is nil. Of several resets that become one, the first with an id makes that
// known. An empty id is that of no other reset. The errors are those of Reset, and an *[InputError]
// for an id that cannot be one.
func (s *Supervisor) ResetOnce(ctx context.Context, root, key session.Key, id string) error {
	return s.wish(ctx, root, key, &route.Reset{Session: key, ID: id}, func(
		sessionID string, withdraw bool,
	) tree.Command {
		return tree.Restart{Run: key, SessionID: sessionID, ID: id, Withdraw: withdraw}
	})
}

// Compact has a top-level session run a turn that compacts its conversation and does nothing else:
// one with [TurnInput.Compact]. It returns when the end of that turn is durable. The turn comes as
// soon as no other is under way and there is a slot, before the one over what is unread. It has a
// number like every turn, its usage counts, and it consumes no inputs. After a crash it is not
// repeated. One such turn is the answer to all who have waited for it to begin.
//
// The error is [ErrNothing] if nothing was compacted, [ErrBudget] if a budget does not allow the
// turn, [ErrTurnCancelled] if a person cancels or stops it, also before it begins, the error of the
// Runner if it fails, [ErrNotTopLevel] for a sub-agent, or one of [Supervisor.Reset] but for the
// *ChildrenError. A turn that has begun goes on when ctx ends.
func (s *Supervisor) Compact(ctx context.Context, root, key session.Key) error {
	return s.wish(ctx, root, key, &route.Compact{Session: key}, func(
		id string, withdraw bool,
	) tree.Command {
		return tree.Condense{Run: key, ID: id, Withdraw: withdraw}
	})
}

// wish sends a command, as cmd returns it with the id of the wish, and waits for its answer. In
// another process it is op.
func (s *Supervisor) wish(
	ctx context.Context, root, key session.Key, op route.Op,
	cmd func(id string, withdraw bool) tree.Command,
) error {
	if t := turnOf(ctx); t != nil && t.Session.Key == key {
		return &InputError{Field: "session", Reason: "its own turn would wait for its own end"}
	}
	if key.IsSubagent() {
		return fmt.Errorf("%w: %q", ErrNotTopLevel, key)
	}
	here := func(bool) error {
		_, err := withShell(s, root, func(sh *treeShell) (struct{}, error) {
			return struct{}{}, sh.wish(ctx, cmd)
		})
		return err
	}
	err := here(false)
	if s.elsewhere(ctx, root, err) {
		defer turnOf(ctx).pause()()
		_, err = s.cluster.route(ctx, root, op, err, nil, here)
	}
	return repeatable(err, repeatAsIs)
}

func (sh *treeShell) wish(
	ctx context.Context, cmd func(id string, withdraw bool) tree.Command,
) error {
	id, answer := sh.sup.ids.newID(), make(chan error, 1)
	sh.mu.Lock()
	few.Put(&sh.wishes, id, answer)
	sh.mu.Unlock()
	defer sh.removeWish(id)
	if err := sh.owner.Do(ctx, cmd(id, false), nil); err != nil {
		return err
	}
	defer turnOf(ctx).pause()()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		sh.owner.Send(0, cmd(id, true))
		return sh.unconfirmed(context.Cause(ctx))
	case <-sh.sup.closed:
		return sh.unconfirmed(ErrShutdown)
	}
}

// unconfirmed is the error of a command that was sent and whose caller leaves because of cause,
// before it has what it waits for.
func (sh *treeShell) unconfirmed(cause error) error {
	return fmt.Errorf("%w: %q: %w", ErrUnconfirmed, sh.owner.Root(), cause)
}

func (sh *treeShell) removeWish(id string) {
	sh.mu.Lock()
	delete(sh.wishes, id)
	sh.mu.Unlock()
	sh.sup.forget(sh)
}

// Answer implements owner.Executor.
func (sh *treeShell) Answer(id string, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if wish := sh.wishes[id]; wish != nil {
		answerWish(wish, err)
	}
	sh.wakeIdlers()
}

// answerWish tells a caller what its wish has come to, unless it knows.
func answerWish(wish chan<- error, err error) {
	select {
	case wish <- err:
	default:
	}
}
