package tree

import (
	"cmp"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
)

// A postKey is the id of a message with the session that it was for. Messages of several
// conversations may share one.
type postKey struct {
	to session.Key
	id string
}

// A seenPost is what is known of a message that has come.
type seenPost struct {
	until int64  // when its id is forgotten, in Unix nanoseconds
	runID string // of the run that it began; empty: none
	// at is the conversation that it was said in, with what is not known of it empty. Nil: any, as
	// an earlier library did not tell conversations apart.
	at  *session.Route
	how told
}

// told says how a session has come to know a message.
type told uint8

const (
	toldDirectly told = iota // it was posted to the session; what its Route lacked was filled in
	toldAsBound              // it is of a conversation that was bound to the session
	toldOther                // it is of a conversation of the session, and another was told it
	toldEvent                // it is an event, and no message
)

// An origin is where a message comes from.
type origin struct {
	at    session.Route
	bound bool // the conversation is bound to the session
	event bool // it is an event, and comes from the program
}

// origin returns where c comes from, for a session that it may be told to. To the conversation's
// own session it comes as what was said there.
func (c *Post) origin(to session.Key) origin {
	o := origin{bound: c.Thread && to == c.To, event: c.Event}
	if o.at = to.Route().Clean(); c.Route != nil {
		o.at = *c.Route
	}
	return o
}

// isFrom reports whether a message to a session that comes from o may be the one of p, which has
// its id: the two are of one conversation as far as both are known. A top-level session has a
// conversation of its own, of which a message is that does not say where it comes from. A sub-agent
// has none, so that such a message may be of any that is bound to it.
func (p *seenPost) isFrom(to session.Key, o origin) bool {
	switch {
	case o.event != (p.how == toldEvent):
		return false // an event and a message may share an ID
	case p.at == nil || o.event:
		return true
	case to.IsSubagent() && !(p.at.Complete() && o.at.Complete()):
	case p.how != toldDirectly || o.bound:
		return *p.at == o.at
	}
	a, b := p.at, &o.at
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return !differ(a.Channel, b.Channel) && !differ(a.Account, b.Account) &&
		!differ(a.To, b.To) && (a.To == "" || b.To == "" || a.Thread == b.Thread)
}

// seen returns what is known of the message with an id to a session that comes from o, and whether
// it has come before.
func (t *Tree) seen(to session.Key, id string, o origin) (p seenPost, known bool) {
	for _, p := range t.posts.Of(postKey{to, id}) {
		if p.until > t.now && p.isFrom(to, o) {
			return p, true
		}
	}
	return p, false
}

// notePost has the id of a message recognised for a while, with the run that took it, and by the
// session of a bound conversation, too. Conversations that count their messages from 1 do not meet.
func (t *Tree) notePost(f *Fact, runID string) {
	until := sat.Add(f.At, int64(KeyWindow))
	how := toldDirectly
	if f.Flags&FlagThread != 0 {
		how = toldAsBound
	}
	if f.Class == Event {
		how = toldEvent
	}
	note := func(to session.Key, p seenPost) {
		if p.at == nil {
			own := to.Route().Clean()
			p.at = &own
		}
		k, o := postKey{to, f.ID()}, origin{*p.at, p.how == toldAsBound, p.how == toldEvent}
		others := slices.DeleteFunc(slices.Clone(t.posts.Of(k)), func(old seenPost) bool {
			return old.until <= f.At || old.isFrom(to, o)
		})
		t.posts.Set(k, append(others, p))
	}
	note(f.Run, seenPost{until, runID, f.Route, how})
	if how == toldAsBound && f.From().IsValid() {
		note(f.From(), seenPost{until, "", f.Route, toldOther})
	}
}

// postKnown reports whether a message has come before, whatever has become of its session since.
func (t *Tree) postKnown(to session.Key, id string, o origin) (bool, error) {
	if err := t.opt.Limits.checkMessageID(id); err != nil {
		return false, err
	}
	_, known := t.seen(to, id, o)
	return known, nil
}

// Knows reports whether the message c has come to the session c.To, by the last command.
func (t *Tree) Knows(c *Post) bool {
	_, known := t.seen(c.To, c.ID, c.origin(c.To))
	return known
}

// forgetUnread has a message that the run of r, which ends, leaves in its inbox be a new one when
// it comes again: the conversation does not have it, because no turn has read it, or because its
// process died. One of a bound conversation stays known: people are told that the run has ended.
func (t *Tree) forgetUnread(r *Run, in *Input) {
	if in.Class != User {
		return
	}
	k, o := postKey{r.key, in.ID}, origin{at: r.key.Route().Clean()}
	if in.Route != nil {
		o.at = *in.Route
	}
	left := slices.DeleteFunc(slices.Clone(t.posts.Of(k)), func(p seenPost) bool {
		return p.how == toldDirectly && p.isFrom(r.key, o)
	})
	if t.posts.Set(k, left); len(left) == 0 {
		t.posts.Delete(k)
	}
}

// seenPosts returns the messages of the tree that are recognised, for an image.
func (t *Tree) seenPosts() (list []SeenPost) {
	list = slices.Grow(list, t.posts.Len())
	for k, seen := range t.posts.All() {
		for _, p := range seen {
			list = append(list, SeenPost{k.to, k.id, p.until, p.runID, p.at, uint8(p.how)})
		}
	}
	slices.SortFunc(list, func(a, b SeenPost) int {
		if c := cmp.Or(compareKeys(a.To, b.To), cmp.Compare(a.ID, b.ID)); c != 0 {
			return c // as nearly always: what follows orders the conversations of one id
		}
		return cmp.Or(cmp.Compare(a.How, b.How), compareRoutes(a.At, b.At))
	})
	return list
}

// compareRoutes orders routes field by field, and no route before all of them.
func compareRoutes(a, b *session.Route) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Account, b.Account),
		cmp.Compare(a.To, b.To), cmp.Compare(a.Thread, b.Thread),
	)
}

// restorePosts has the messages of an image recognised.
func (t *Tree) restorePosts(list []SeenPost) {
	for _, s := range list {
		k := postKey{s.To, s.ID}
		t.posts.Set(k, append(t.posts.Of(k), seenPost{s.Until, s.RunID, s.At, told(s.How)}))
	}
}

// forgetPosts removes the ids of messages that are no longer recognised at now.
func (t *Tree) forgetPosts(now int64) {
	for k, seen := range t.posts.All() {
		left := slices.DeleteFunc(seen, func(p seenPost) bool { return p.until <= now })
		if t.posts.Set(k, left); len(left) == 0 {
			t.posts.Delete(k)
		}
	}
}
