package tree

import (
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// An ended run is archived some time after its end, or at once if it is to be deleted. That is
// decided by a fact, ArchiveBegun, before anything is touched: from then on the session takes
// nothing more. The Executor then archives the transcript, as often as it takes, and the fact
// Archived takes the session out of the tree.
//
// The way back is the same one, begun from its other end. The fact ReviveBegun puts the session
// into the tree as one that is being archived. Only then the Executor takes the archive into use
// again, and the fact Unarchived says that this has been done. If it cannot be done, if the session
// is to be deleted meanwhile, or if the owner is gone, then the session is archived as any other
// one that is being archived: there is no moment at which a transcript is in use and in no tree.

// A Discard has a session put away with everything below it: what is alive is stopped, and each
// session is archived as soon as nothing waits for its end any more. A top-level session goes on in
// a new conversation instead.
type Discard struct {
	Run    session.Key
	Reason string
	Rand   uint64
}

// A Revive begins to bring an archived session back, as State has it: see Tree.Record. It is over
// when the session is back, see [Run.IsBack], or nothing is under way for it any more.
type Revive struct{ State *Fact }

func (*Discard) command() {}
func (*Revive) command()  {}

// IsBack reports whether a session is in the tree and in use, of which r is what the tree has; nil:
// it does not have it.
func (r *Run) IsBack() bool { return r != nil && r.Archiving == 0 }

// IsUnderWay reports whether the Executor archives or restores the session r; nil: it is gone.
func (r *Run) IsUnderWay() bool { return r != nil && r.archiving }

// archivedError refuses what a session that is archived would have to take.
func archivedError(doing string, k session.Key) error {
	return fmt.Errorf("%w: %w: %s %q", session.ErrArchived, ErrNotFound, doing, k)
}

// leaves reports whether an ended session takes nothing more: it is being archived, or is to be
// deleted.
func (r *Run) leaves() bool {
	return r.Archiving != 0 || r.Discard && r.State.Terminal()
}

// goesAtOnce reports whether an ended session is to be archived without a delay: it is to be
// deleted, or a session above it that is to be deleted waits for nothing else.
func (t *Tree) goesAtOnce(r *Run) bool {
	return r.Discard || r.Spec.Delete || r.Parent.hastens()
}

// hastens reports whether what is below r goes at once: r, or a session above it, has ended and is
// to be deleted, and waits for nothing else.
func (r *Run) hastens() bool {
	for x := r; !x.IsRoot(); x = x.Parent {
		if x.State.Terminal() && (x.Discard || x.Spec.Delete) && !x.isHeld() && len(x.Bound) == 0 {
			return true
		}
	}
	return false
}

// settleEnded has the transcript of an ended run archived once its time has come. A run with
// children in the tree or with a completion that is still unread waits.
func (t *Tree) settleEnded(r *Run) {
	if r.Discard && r.isHeld() && t.outbox.blocked > 0 {
		t.dismissBlocked(r)
	}
	if !r.hastened && r.hastens() {
		r.hastened = true // once: a run may have a great many children
		for c := r.firstChild; c != nil; c = c.nextSibling {
			t.touch(c)
		}
	}
	if t.mayTidy(r) {
		r.tidied = true
		t.addEffect(EffectTidy, r, 0)
	}
	if !t.mayArchive(r) || t.archiveAt(r) > t.now {
		return
	}
	if r.Archiving == 0 {
		t.emit(archiveBegun(t.now, r))
	}
	r.archiving = true
	t.archiving++
	t.addEffect(EffectArchive, r, 0)
}

// mayTidy reports whether what was made for an ended run elsewhere may go, and this owner has not
// said so yet. The end has arrived where it was to be told. An archive does it by itself.
func (t *Tree) mayTidy(r *Run) bool {
	return t.opt.Tidies && r.Turns > 0 && !r.tidied && len(r.Spec.Extra()) > 0 && !r.isHeld() &&
		r.Archiving == 0
}

// mayArchive reports whether nothing but time keeps an ended run from being archived. A
// conversation that is bound to the session does: what is said there goes to it.
func (t *Tree) mayArchive(r *Run) bool {
	return (r.Archiving != 0 || !r.unbinding) && t.ripens(r)
}

// ripens is mayArchive for any owner: it heeds what the Executor archives, and not what it unbinds.
func (t *Tree) ripens(r *Run) bool {
	switch {
	case r.archiving || r.firstChild != nil:
		return false
	case r.Archiving != 0:
		return true
	case r.isHeld() || len(r.Bound) > 0:
		return false
	}
	return t.archiveAfter() > 0 || t.goesAtOnce(r)
}

// An archiveRetry says when a run whose transcript could not be archived is archived again, or when
// a conversation that could not be unbound is. It is volatile: a new owner tries at once.
type archiveRetry struct {
	at    int64         // Unix nanoseconds
	pause time.Duration // the last one, which the next one doubles
}

// next returns when what has failed at now, once more, is tried again.
func (a archiveRetry) next(now int64) archiveRetry {
	pause := min(max(2*a.pause, FirstRetry), LastRetry)
	return archiveRetry{at: now + int64(pause), pause: pause}
}

// archiveAt returns when a run that has ended is to be archived, in Unix nanoseconds.
func (t *Tree) archiveAt(r *Run) int64 {
	retry := t.archiveRetries[r].at
	if r.Archiving != 0 || t.goesAtOnce(r) {
		return max(retry, 1)
	}
	return max(sat.Add(r.archiveFrom(), int64(t.archiveAfter())), retry)
}

// archiveFrom returns the time from which the archive of an ended run counts.
func (r *Run) archiveFrom() int64 {
	if r.ArchiveFrom > 0 {
		return r.ArchiveFrom
	}
	return r.Ended
}

func (t *Tree) applyArchiveBegun(r *Run, f *Fact) error {
	switch {
	case r.IsRoot() || !r.State.Terminal() || r.firstChild != nil:
		return &CorruptError{f.Kind, f.Run, "it is alive, or has children"}
	case r.Archiving != 0:
		return &CorruptError{f.Kind, f.Run, "it has begun before"}
	case r.isHeld() || len(r.Bound) > 0:
		return &CorruptError{f.Kind, f.Run, "its end is not read, or a conversation is bound to it"}
	}
	r.ownRare().Archiving = f.At
	t.armTimer(r)
	return nil
}

// decideArchiveDone removes a run whose transcript has been archived from the tree. If archiving
// failed, it is tried again after pauses like those of a delivery, but without an end, because no
// reader misses the archive meanwhile.
func (t *Tree) decideArchiveDone(c ArchiveDone) {
	r := t.find(c.Run)
	switch {
	case c.Session != "":
		t.decidePutAway(c)
	case r == nil || !r.State.Terminal() || r.firstChild != nil || r.Archiving == 0 || r.restoring:
	case !c.Failed:
		t.emit(archived(t.now, r))
	case r.archiving:
		t.retryArchive(r)
	}
}

// retryArchive has what could not be archived archived again after a pause.
func (t *Tree) retryArchive(r *Run) {
	r.archiving = false
	t.archiving--
	if t.archiveRetries == nil {
		t.archiveRetries = make(map[*Run]archiveRetry)
	}
	t.archiveRetries[r] = t.archiveRetries[r].next(t.now)
	t.armTimer(r)
}

// decideDiscard notes that a session and everything below it is to be put away, and stops what is
// alive of that. Each of them knows it, so that a crash in between loses nothing. What is being
// archived already goes on, and what is being brought back is archived again.
func (t *Tree) decideDiscard(c *Discard) (Reply, error) {
	t.rand = c.Rand
	r := t.find(c.Run)
	if r == nil {
		return Reply{}, fmt.Errorf("%w: deleting %q", ErrNotFound, c.Run)
	}
	r.walk(false, func(x *Run) {
		x.takenBack = x.takenBack || x.restoring
		if !x.Discard && x.Archiving == 0 {
			t.emit(discarded(t.now, x))
		}
	})
	return t.decideStop(&Stop{Run: c.Run, Reason: c.Reason, Rand: c.Rand})
}

func (t *Tree) applyDiscarded(r *Run, f *Fact) error {
	if r.Discard || r.Archiving != 0 {
		return &CorruptError{f.Kind, f.Run, "it is to be archived already"}
	}
	r.Discard = true
	t.armTimer(r)
	return nil
}

// dismissBlocked gives up the blocked completions of a session that is to be deleted. The result
// stays in its transcript.
func (t *Tree) dismissBlocked(r *Run) {
	for _, ord := range t.outbox.ords() {
		e := t.outbox.entries[ord]
		if e.Run == r.key && !e.Event && !e.Reply && !e.Sends && e.Blocked > 0 {
			t.emit(outboxFact(Dismissed, t.now, ord, 0, ""))
		}
	}
}

// Discarding reports whether a session that is to be put away still is in the tree, or a session
// below it, or the conversation that a top-level session had.
func (t *Tree) Discarding(k session.Key) bool {
	r := t.find(k)
	if r == nil {
		return false
	}
	left := r.Discard || len(r.Former) > 0 || r.Archiving != 0
	r.Descend(func(x *Run) { left = left || x.Discard || x.Archiving != 0 })
	return left
}

// Named returns the sessions that the tree has, or had and whose outcome it keeps at a time.
func (t *Tree) Named(now int64) map[session.Key]bool {
	named := make(map[session.Key]bool)
	for k := range t.runs.All() {
		named[k] = true
	}
	for _, ref := range t.spawned {
		if ref.end != nil && ref.Until > now {
			named[ref.Run] = true
		}
	}
	return named
}

// newSessionID returns a random UUID of version 4.
func (t *Tree) newSessionID() string {
	a, b := t.nextNonce(), t.nextNonce()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}

// Record returns the state of a session that is being archived, as the fact that brings it back:
// what it has used stays with its requester. Each attempt at an archive has the same record. It
// shares nothing with the tree that changes.
func (t *Tree) Record(r *Run) *Fact {
	s := r.state()
	s.Ledger, s.ArchiveFrom = nil, 0 // a clock that is set back moves that
	s.Unnamed = false                // a spawn between two attempts would change that
	return &Fact{
		Kind: Unarchived, At: r.Archiving, Run: r.key,
		FactMore: &FactMore{Image: &Image{Runs: []RunState{s}}},
	}
}

// decideRevive begins to bring an archived session back, or finds that it is in the tree.
func (t *Tree) decideRevive(c *Revive) (Reply, error) {
	k := c.State.Run
	if r := t.find(k); r != nil {
		if r.leaves() {
			return Reply{}, archivedError("reviving", k)
		}
		return Reply{Run: r, Ref: k, Existing: true}, nil
	}
	s := c.State.Image().Runs[0]
	if s.Spec == nil || s.Spec.Grant == nil || s.Spec.Key != k || !s.State.Terminal() ||
		s.Archiving == 0 {
		return Reply{}, &InputError{"state", "it is not that of an archived session"}
	}
	if err := t.reviveForbidden(k, s.Spec.Parent); err != nil {
		return Reply{}, err
	}
	s = t.revived(s)
	t.emit(reviveBegun(t.now, k, &Image{Runs: []RunState{s}}))
	r := t.find(k)
	r.archiving, r.restoring = true, true
	t.archiving++
	t.addEffect(EffectRestore, r, 0)
	return Reply{Run: r, Ref: k}, nil
}

// decideRestoreDone has a session be in use again whose archive has been restored. If that failed,
// or if the session is to be deleted meanwhile, it is archived again.
func (t *Tree) decideRestoreDone(c RestoreDone) (Reply, error) {
	r := t.find(c.Run)
	if r == nil || !r.restoring {
		return Reply{}, nil
	}
	takenBack := r.takenBack
	r.archiving, r.restoring, r.takenBack = false, false, false
	t.archiving--
	if t.touch(r); !c.Failed && !takenBack {
		t.emit(unarchived(t.now, r))
	}
	return Reply{}, nil
}

// reviveForbidden returns why a session cannot come back below another one, or nil: each session
// above it has to be there and alive, as when it was spawned.
func (t *Tree) reviveForbidden(k, parent session.Key) error {
	p := t.find(parent)
	if p == nil {
		return fmt.Errorf("%w: reviving %q, and above it %q", session.ErrArchived, k, parent)
	}
	var ended error
	for x := p; !x.IsRoot(); x = x.Parent {
		if x.leaves() {
			return fmt.Errorf("%w: reviving %q, and above it %q", session.ErrArchived, k, x.key)
		}
		if x.State.Terminal() {
			ended = &EndedError{k, x.key}
		}
	}
	return ended
}

// revived returns the state that a session comes back with. It is that of its record, so that one
// that is archived again has the same. Its spawn key and its name are its own unless another run
// has got them meanwhile.
func (t *Tree) revived(s RunState) RunState {
	if ref, known := t.spawned[keyOf(s.Spec)]; known && s.Spec.SpawnKey() != "" &&
		ref.Run != s.Spec.Key && (ref.Until == 0 || ref.Until > t.now) {
		more := *s.Spec.more()
		more.SpawnKey, more.Digest = "", ""
		s.Spec = s.Spec.with(more)
	}
	s.Unnamed = t.names[nameKey{s.Spec.Parent, s.Spec.Name()}] != nil
	s.Inbox, s.Open, s.Join, s.Bound, s.Ledger = nil, nil, nil, nil, new(Ledger)
	return s
}

// applyRevival folds that an archived session comes back: that this begins, that it has been done,
// or with an earlier library both at once.
func (t *Tree) applyRevival(f *Fact) error {
	if f.Kind == Unarchived && f.Image() == nil {
		return t.applyUnarchived(f)
	}
	s := &f.Image().Runs[0]
	begins := f.Kind == ReviveBegun
	switch {
	case s.Spec == nil || s.Spec.Grant == nil || s.Spec.Key != f.Run:
		return &CorruptError{f.Kind, f.Run, "it is the state of another session"}
	case t.runs.Has(f.Run):
		return &CorruptError{f.Kind, f.Run, "it is in the tree"}
	case !s.State.Terminal() || s.Open != nil || len(s.Inbox) > 0 || begins != (s.Archiving != 0):
		return &CorruptError{f.Kind, f.Run, "it has not ended"}
	}
	if err := t.reviveForbidden(f.Run, s.Spec.Parent); err != nil {
		return &CorruptError{f.Kind, f.Run, err.Error()}
	}
	p := t.find(s.Spec.Parent)
	own := *s
	own.own()
	r := NewRun(own)
	p.addChild(r)
	t.runs.Set(f.Run, r)
	if s.Spec.SpawnKey() != "" {
		few.Put(&t.spawned, keyOf(s.Spec), refOf(s.Spec))
	}
	if err := t.restoreName(r, f.Kind); err != nil {
		return err
	}
	r.recount()
	t.holdRequests(r)
	t.keepBegunRuns(r)
	t.armTimer(r)
	t.touch(r)
	return nil
}

// applyUnarchived has a session take messages again. Its archive counts from now, and it is not
// deleted after its end any more, because its caller wants it.
func (t *Tree) applyUnarchived(f *Fact) error {
	r := t.find(f.Run)
	if r == nil || r.Archiving == 0 {
		return &CorruptError{f.Kind, f.Run, "its revival has not begun"}
	}
	spec := *r.Spec
	spec.Delete = false
	r.Spec = &spec
	r.Discard = false
	own := r.ownRare()
	own.Archiving, own.ArchiveFrom = 0, f.At
	t.armTimer(r)
	t.touch(r)
	return nil
}
