package spawntest

import (
	"maps"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// bound checks that a conversation is bound to a session that is not being archived, once.
func (a *auditor) bound(r *run, f *tree.Fact) {
	switch {
	case slices.Contains(r.bound, *f.Route):
		a.fail(r, "bindings", "it is bound to %+v, again", *f.Route)
	case !f.Route.Complete():
		a.fail(r, "bindings", "it is bound to %+v, where no message can go", *f.Route)
	}
	for x := r.parent; x != nil; x = x.parent {
		if x.state.Terminal() {
			a.fail(r, "bindings", "it is bound below %q, which is %v", x.spec.Key, x.state)
		}
	}
	r.bound = append(r.bound, *f.Route)
}

// unbound checks that a conversation that is unbound was bound.
func (a *auditor) unbound(r *run, f *tree.Fact) {
	i := slices.Index(r.bound, *f.Route)
	if i < 0 {
		a.fail(r, "bindings", "%+v is unbound and was not bound", *f.Route)
		return
	}
	if f.Text == "" {
		a.fail(r, "bindings", "%+v is unbound without a reason", *f.Route)
	}
	r.bound = slices.Delete(r.bound, i, i+1)
}

// message returns the input that a fact is, and checks that one of a conversation comes from where
// the session is bound.
func (a *auditor) message(r *run, f *tree.Fact) input {
	in := input{
		ord: f.Ord, class: f.Class, id: f.ID(), steerer: f.From(), mail: f.Mail() != nil,
		repair: f.Flags&tree.FlagRepair != 0,
	}
	a.toldOnce(r, f)
	if f.Flags&tree.FlagThread == 0 {
		return in
	}
	in.thread, in.steerer, r.wroteTo = true, session.Key{}, true
	switch {
	case f.Class != tree.User || f.Route == nil:
		a.fail(r, "bindings", "input %d is not a message of a conversation", f.Ord)
	case !slices.Contains(r.bound, *f.Route):
		a.fail(r, "bindings", "input %d is of %+v, which is not bound to it", f.Ord, *f.Route)
	}
	if f.Route != nil {
		in.route = *f.Route
	}
	return in
}

// messageID is the id of a message, as a session knows it: of one conversation.
type messageID struct {
	session session.Key
	id      string
	at      session.Route
	thread  bool // the conversation is bound to the session
	event   bool // it is an event, and no message
}

// toldOnce checks that a session is told a message with an id once. One of a conversation counts as
// told to the conversation's own session, too.
func (a *auditor) toldOnce(r *run, f *tree.Fact) {
	if f.ID() == "" {
		return
	}
	m := messageID{
		session: f.Run, id: f.ID(), at: f.Run.Route().Clean(), thread: f.Flags&tree.FlagThread != 0,
		event: f.Class == tree.Event,
	}
	if f.Route != nil {
		m.at = *f.Route
	}
	known := []messageID{m}
	if m.thread && f.From().IsValid() && f.From() != f.Run {
		known = append(known, messageID{session: f.From(), id: f.ID(), at: m.at})
	}
	for _, m := range known {
		anywhere := m
		if anywhere.at = (session.Route{}); m.thread {
			anywhere = m
		}
		if a.told[m] > f.At || a.told[anywhere] > f.At {
			a.fail(r, "messages", "it is told the message %q, which %q knows", f.ID(), m.session)
		}
		a.told[m] = sat.Add(f.At, int64(tree.KeyWindow))
	}
}

// forgetUnread takes it that a run which ends has not read the messages that are left: they may be
// told again. Those of conversations may not.
func (a *auditor) forgetUnread(r *run) {
	for _, in := range r.inbox {
		if in.class != tree.User || in.thread {
			continue
		}
		maps.DeleteFunc(a.told, func(m messageID, _ int64) bool {
			return m.session == r.spec.Key && m.id == in.id && !m.thread
		})
	}
}

// speaks reports whether people are told what the turn under way answers. They are not by a
// sub-agent, unless a conversation that is bound to it began the run, or has written what the turn
// reads, or had it begin the wait that the turn ends.
func (r *run) speaks() bool {
	if r.parent == nil {
		return true
	}
	people, others := r.answered()
	if at := r.turn.wait; at != nil && !people && !others {
		return !at.IsZero()
	}
	return !others && (people || r.begin != nil && r.begin.Thread)
}

// turnWaits takes where the wait began that the turn under way of s has ended.
func (r *run) turnWaits(s *tree.RunState) {
	if wait := s.Open.Wait; wait != nil {
		r.turn.wait, r.wait = wait.At, wait.At
	}
}

// endsWait takes where a turn answers that ends a wait, and checks that the session had it.
func (a *auditor) endsWait(r *run, f *tree.Fact) {
	if f.Route == nil {
		return
	}
	if r.turn.wait = f.Route; r.wait == nil || *r.wait != *f.Route {
		a.fail(r, "replies", "turn %d ends a wait of %v, and it waits for the sake of %v", f.N,
			f.Route, r.wait)
	}
}

// answersWait checks that the reply of a turn that ends a wait goes where that began, and takes the
// wait that the turn begins.
func (a *auditor) answersWait(r *run, f *tree.Fact) {
	if f.Join() != nil {
		a.join(r, f.Join())
		r.wait = f.Join().At
	}
	if at := r.turn.wait; at != nil && f.Flags&tree.FlagReply != 0 && (f.Route == nil ||
		*f.Route != *at) {
		a.fail(r, "replies", "turn %d answers at %v, and ends a wait of %v", f.N, f.Route, at)
	}
}

// answered reports whether the turn under way of a sub-agent reads something that is answered to
// people, and something that is answered to its requester. A steer and a milestone are neither.
func (r *run) answered() (people, others bool) {
	others = r.consumed == 0 && (r.begin == nil || !r.begin.Thread)
	for _, in := range r.inbox {
		switch {
		case in.ord > r.turn.through, in.class == tree.Control && !in.repair,
			in.class == tree.Milestone:
		case in.thread, in.class != tree.User && r.begin != nil && r.begin.Thread:
			people = true
		default:
			others = true
		}
	}
	return people, others
}

// oneAnswer checks that the turn under way of a sub-agent does not read what people wait for
// together with what its requester does: one of them would have no answer.
func (a *auditor) oneAnswer(r *run) {
	if !r.turn.plain() {
		return
	}
	a.oneConversation(r)
	if r.parent == nil {
		return
	}
	if people, others := r.answered(); people && others {
		a.fail(r, "replies", "turn %d reads what two wait for", r.turn.n)
	}
}

// oneConversation checks that the turn under way does not read messages of two conversations: the
// answer goes to one.
func (a *auditor) oneConversation(r *run) {
	var first *input
	for i := range r.inbox {
		in := &r.inbox[i]
		message := in.class == tree.User && (in.thread || r.parent == nil)
		if !message || in.ord > r.turn.through || in.ord <= r.consumed {
			continue
		}
		if first == nil {
			first = in
		}
		if first.thread != in.thread || first.route != in.route {
			a.fail(r, "replies", "turn %d reads the messages %d and %d of two conversations",
				r.turn.n, first.ord, in.ord)
		}
	}
}

// apology checks what a run says at its end to conversations that it leaves without an answer.
func (a *auditor) apology(r *run, f *tree.Fact) {
	if f.Answer == nil {
		return
	}
	thread := r.begin != nil && r.begin.Thread || r.wroteTo
	unread := slices.ContainsFunc(r.inbox, func(in input) bool { return in.thread })
	well := f.State == tree.OK || f.State == tree.Cancelled && !unread
	if well || f.Answer.Reply == "" || !thread {
		a.fail(r, "replies", "it ends %v and says %q to people", f.State, f.Answer.Reply)
	}
	if f.Flags&tree.FlagReply == 0 {
		return
	}
	for range max(f.Ord, 1) {
		a.out++
		a.outbox[a.out] = &parcel{answers: r.messages(r.next)}
	}
}
