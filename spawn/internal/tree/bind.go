package tree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// ErrNotBound refuses a message of a conversation to a session that the conversation is not bound
// to, or will not be in a moment.
var ErrNotBound = errors.New("spawn: the conversation is not bound to the session")

// A Bind binds a conversation to a session. A session may have several, and one that it has is
// accepted and changes nothing.
type Bind struct {
	Run   session.Key
	Route session.Route
	// Dry binds nothing: it is refused as a Bind is, or as a message of the conversation would be
	// now. The Route does not matter.
	Dry     bool
	Answers Answers // of Dry, see QuestionsError
}

// An Unbind unbinds a conversation from a session. One that it does not have is accepted and
// changes nothing.
type Unbind struct {
	Run    session.Key
	Route  session.Route
	Reason Text // in one word
}

// An UnbindDone says that a conversation has been unbound outside of the tree, or that this failed.
type UnbindDone struct {
	Run    session.Key
	Route  session.Route
	Reason Text
	Failed bool
}

func (*Bind) command()       {}
func (*Unbind) command()     {}
func (*UnbindDone) command() {}

// maxReason is how many bytes the reason of an Unbind has at most.
const maxReason = 100

// checkConversation checks what is bound to a session: answers go there, so that it has to be
// enough to send a message.
func checkConversation(route *session.Route) error {
	if err := checkRoute(route); err != nil {
		return err
	}
	if !route.Complete() || *route != route.Clean() {
		return &InputError{"route", "it lacks a channel or a recipient, or has spaces or capitals " +
			"that Clean takes away: " + wordsOf(route)}
	}
	return nil
}

// bindForbidden returns why no conversation can be bound to a session, or nil.
func (t *Tree) bindForbidden(r *Run, k session.Key) error {
	switch {
	case r == nil:
		return fmt.Errorf("%w: binding %q", ErrNotFound, k)
	case r.leaves() || r.Discard:
		return archivedError("binding", k)
	}
	switch above := r.endingAbove(); {
	case above == nil:
	case above.State.Terminal():
		return &EndedError{k, above.Key()}
	default:
		return fmt.Errorf("%w: binding %q, and above it %q", ErrStopping, k, above.Key())
	}
	if r.neverBegan() {
		return fmt.Errorf("%w: binding %q, which has never had a turn", ErrEnded, k)
	}
	return nil
}

// messageForbidden returns why a session to which a conversation can be bound would not take a
// message of it now, or nil.
func (t *Tree) messageForbidden(r *Run, c *Bind) error {
	switch {
	case r.IsRoot():
		return nil
	case !r.State.Terminal():
		if r.Cause != NoCause {
			return fmt.Errorf("%w: binding %q", ErrStopping, c.Run)
		}
		return nil
	}
	if err := t.followUpForbidden(r); err != nil {
		return err
	}
	message := &Post{To: c.Run, Thread: true, Answers: c.Answers}
	return t.admitFollowUp(r, message, &Begin{Thread: true})
}

// endingAbove returns the topmost run above r that has ended or is to end, or nil. A top-level
// session has no end.
func (r *Run) endingAbove() (ending *Run) {
	for x := r.Parent; x != nil && !x.IsRoot(); x = x.Parent {
		if x.State.Terminal() || x.Cause != NoCause {
			ending = x
		}
	}
	return ending
}

// neverBegan reports whether r has ended before its first turn, and so never begins another run.
func (r *Run) neverBegan() bool { return r.State.Terminal() && r.Turns == 0 }

// The reasons of the tree for which a conversation is unbound, as package session/binding has them.
const (
	unboundOK      = "subagent-complete"
	unboundFailed  = "subagent-error"
	unboundStopped = "subagent-killed"
	unboundNever   = "spawn-failed"
	unboundDeleted = "session-delete"
)

// unboundBy returns the reason that the end of a run is, which may be still to come.
func unboundBy(r *Run) Text {
	switch r.Cause.endState() {
	case OK:
		return unboundOK
	case Cancelled:
		return unboundStopped
	default:
		return unboundFailed
	}
}

// closing returns the reason for which r takes nothing more from a conversation that is bound to
// it; empty: it does.
func (t *Tree) closing(r *Run, c *Conversation) Text {
	why, late := t.closes(r)
	if !late && r.State.Terminal() && c.At > r.Ended {
		return ""
	}
	return why
}

// closes returns the reason for which r takes nothing more from what is bound to it; empty: it
// does. Late says that this is so, too, for what is bound after the end of r. The reason follows
// from what has become of r, and is nothing that is asked for:
//
//   - r is to be archived for good;
//   - a run above r has ended or is to end;
//   - a person or the program stops r, which ends the session, unless the turn over a message of
//     the conversation was cancelled, and nothing else;
//   - r has ended before its first turn;
//   - the first run of r has ended, and the spawn did not ask for more than a run.
//
// A conversation that is bound after the end of an r that has had a turn stays in the last three
// cases.
func (t *Tree) closes(r *Run) (why Text, late bool) {
	switch above := r.endingAbove(); {
	case r.Discard:
		return unboundDeleted, true
	case r.IsRoot():
		return "", true
	case above != nil:
		return unboundBy(above), true
	case r.Cause == Stopped && !(r.TurnCancelled && r.inThread()):
		return unboundStopped, r.neverBegan()
	case r.neverBegan():
		return unboundNever, true
	case !r.State.Terminal() || r.Spec.Session || r.Begin != nil:
		return "", false
	}
	return unboundBy(r), false
}

// keepsBound reports whether nothing is unbound from r yet: what is bound to a run that went by
// itself stays until the end of the run has arrived.
func (r *Run) keepsBound() bool {
	return r.held > 0 && r.Cause != Stopped && !r.Discard && r.endingAbove() == nil
}

// unbinds returns the reason for which a conversation is to be unbound from r now; empty: it is not
// to be, or not yet.
func (t *Tree) unbinds(r *Run, c *Conversation) Text {
	if r.keepsBound() {
		return ""
	}
	return t.closing(r, c)
}

// settleBound has the conversations unbound that are to be, one after the other.
func (t *Tree) settleBound(r *Run) {
	switch {
	case !t.owesUnbind(r):
	case !t.opt.Unbinds:
		for i := 0; i < len(r.Bound); {
			c := r.Bound[i]
			if why := t.unbinds(r, &c); why != "" {
				t.emit(unbound(t.now, r, &c.Route, why)) // which takes it out of Bound
			} else {
				i++
			}
		}
	case !r.unbinding && t.unbindRetries[r].at <= t.now:
		c := r.Bound[slices.IndexFunc(r.Bound, func(c Conversation) bool {
			return t.unbinds(r, &c) != ""
		})]
		r.unbinding = true
		t.unbinding = append(t.unbinding, r)
		t.effect(Effect{
			Kind: EffectUnbind, Run: r, To: &Destination{Route: c.Route},
			ID: string(t.unbinds(r, &c)),
		})
	case !r.unbinding: // it failed before, and was not wanted meanwhile
		t.armTimer(r)
	}
}

// wantsUnbind reports whether nothing but time keeps a conversation from being unbound.
func (t *Tree) wantsUnbind(r *Run) bool {
	return !r.unbinding && t.owesUnbind(r)
}

// owesUnbind reports whether a conversation of r is to be unbound, as the journal has it: another
// command may have unbound it while the Executor does, or the end of the binding may have gone.
func (t *Tree) owesUnbind(r *Run) bool {
	if len(r.Bound) == 0 || r.keepsBound() {
		return false
	}
	why, late := t.closes(r)
	return why != "" && (late || !r.State.Terminal() || r.boundBy(r.Ended))
}

// decideUnbindDone records that a conversation has been unbound outside. If that failed, it is
// tried again after pauses like those of an archive.
func (t *Tree) decideUnbindDone(c *UnbindDone) {
	r := t.find(c.Run)
	if r == nil || !r.unbinding {
		return
	}
	r.unbinding = false
	t.unbinding = slices.DeleteFunc(t.unbinding, func(x *Run) bool { return x == r })
	t.touch(r)
	switch {
	case c.Failed:
		if t.unbindRetries == nil {
			t.unbindRetries = make(map[*Run]archiveRetry)
		}
		t.unbindRetries[r] = t.unbindRetries[r].next(t.now)
	case r.bindingOf(c.Route) >= 0:
		t.emit(unbound(t.now, r, &c.Route, c.Reason))
	}
	t.armTimer(r) // also where an Unbind came first: it may be archived now
}

// checkThread refuses a message of a bound conversation that does not say which one.
func (c *Post) checkThread() error {
	if c.Route == nil {
		return &InputError{"route", "it is missing: the message is of a bound conversation"}
	}
	return nil
}

// threadForbidden returns why r, which may be nil, does not take a message of a conversation, or
// nil.
func (t *Tree) threadForbidden(r *Run, c *Post) error {
	if err := c.checkThread(); err != nil {
		return err
	}
	if r != nil {
		if i := r.bindingOf(*c.Route); i >= 0 && t.closing(r, &r.Bound[i]) == "" {
			return nil
		}
	}
	return fmt.Errorf("%w: %s, %q", ErrNotBound, wordsOf(c.Route), c.To)
}

func (t *Tree) decideBind(c *Bind) (Reply, error) {
	r := t.find(c.Run)
	if err := t.bindForbidden(r, c.Run); err != nil {
		return Reply{}, err
	}
	if c.Dry {
		return Reply{Run: r}, t.messageForbidden(r, c)
	}
	if err := checkConversation(&c.Route); err != nil {
		return Reply{}, err
	}
	if r.bindingOf(c.Route) >= 0 {
		return Reply{Run: r, Existing: true}, nil
	}
	t.emit(bound(t.now, r, &c.Route))
	return Reply{Run: r}, nil
}

// checkReason checks why a conversation is unbound.
func checkReason(c *Unbind) error {
	if why := string(c.Reason); !text.IsLine(why, maxReason) {
		return &InputError{"reason", "it is not a line of text, or longer than " +
			text.Count(maxReason, "byte", "bytes") + ": " + text.Quote(why)}
	}
	return nil
}

func (t *Tree) decideUnbind(c *Unbind) (Reply, error) {
	r := t.find(c.Run)
	if err := checkReason(c); err != nil {
		return Reply{}, err
	}
	if r == nil || r.bindingOf(c.Route) < 0 {
		return Reply{Run: r, Existing: true}, nil
	}
	t.emit(unbound(t.now, r, &c.Route, c.Reason))
	return Reply{Run: r}, nil
}

// checkThread checks what a spawn asks for beside a run.
func (c *Spawn) checkThread() error {
	if c.Bind != nil {
		if err := checkConversation(c.Bind); err != nil {
			return err
		}
	}
	if err := checkRoute(c.Place); err != nil {
		return err
	}
	switch {
	case c.Place != nil && !c.Thread && !c.Update:
		return &InputError{"place", "it is set, and neither thread nor update is"}
	case c.Session && !c.Thread:
		return &InputError{"session", "it is set without thread: no conversation would keep it"}
	case c.Thread && c.Bind == nil && !c.Dry:
		return &InputError{"bind", "it is missing, but thread is set"}
	case !c.Thread && c.Bind != nil:
		return &InputError{"bind", "it is set, but thread is not"}
	}
	return nil
}
