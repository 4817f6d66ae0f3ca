package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
}

// An Unbind unbinds a conversation from a session. One that it does not have is accepted and
// changes nothing.
type Unbind struct {
	Run    session.Key
	Route  session.Route
	Reason Text // in one word
}

func (*Bind) command()   {}
func (*Unbind) command() {}

// bindingOf returns where Bound has a conversation, or -1.
func (r *Run) bindingOf(route session.Route) int {
	return slices.IndexFunc(r.Bound, func(c Conversation) bool { return c.Route == route })
}

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
	case r.Archiving != 0 || r.archiving || r.Discard:
		return fmt.Errorf("spawn: binding %q: %w", k, session.ErrArchived)
	case r.State.Terminal() && r.Consumed == 0:
		return fmt.Errorf("%w: binding %q, which has never had a turn", ErrEnded, k)
	}
	for x := r.Parent; x != nil; x = x.Parent {
		if x.State.Terminal() {
			return fmt.Errorf("%w: binding %q, which is below %q", ErrEnded, k, x.Key())
		}
	}
	return nil
}

func (t *Tree) decideBind(c *Bind) (Reply, error) {
	r := t.find(c.Run)
	if err := t.bindForbidden(r, c.Run); err != nil {
		return Reply{}, err
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

func (t *Tree) decideUnbind(c *Unbind) (Reply, error) {
	r := t.find(c.Run)
	if strings.TrimSpace(string(c.Reason)) == "" {
		return Reply{}, blankError("reason", c.Reason)
	}
	if r == nil || r.bindingOf(c.Route) < 0 {
		return Reply{Run: r, Existing: true}, nil
	}
	t.emit(unbound(t.now, r, &c.Route, c.Reason))
	return Reply{Run: r}, nil
}

func (t *Tree) applyBound(r *Run, f *Fact) error {
	switch {
	case r.Archiving != 0:
		return &CorruptError{f.Kind, f.Run, "it is being archived"}
	case r.bindingOf(*f.Route) >= 0:
		return &CorruptError{f.Kind, f.Run, "it has the conversation already"}
	}
	r.Bound = append(slices.Clip(r.Bound), Conversation{*f.Route, f.At})
	return nil
}

func (t *Tree) applyUnbound(r *Run, f *Fact) error {
	i := r.bindingOf(*f.Route)
	if i < 0 {
		return &CorruptError{f.Kind, f.Run, "it does not have the conversation"}
	}
	if r.Bound = slices.Delete(slices.Clone(r.Bound), i, i+1); len(r.Bound) == 0 {
		r.Bound = nil
	}
	t.armTimer(r) // it may be archived now
	return nil
}

// checkThread checks what a spawn asks for beside a run.
func (c *Spawn) checkThread() error {
	switch {
	case c.Session && !c.Thread:
		return &InputError{"session", "it is set without thread: no conversation would keep it"}
	case c.Thread && c.Bind == nil && !c.Dry:
		return &InputError{"bind", "it is missing, but thread is set"}
	case c.Bind == nil:
		return nil
	case !c.Thread:
		return &InputError{"bind", "it is set, but thread is not"}
	}
	return checkConversation(c.Bind)
}
