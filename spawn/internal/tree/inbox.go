package tree

import (
	"fmt"
	"iter"

	"github.com/offshoot-sdk/offshoot/session"
)

func (t *Tree) applyPosted(r *Run, f *Fact) error {
	if f.Flags&FlagOut != 0 {
		return t.applyEventOut(r, f)
	}
	if f.Ord != r.NextOrd+1 {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("input %d after %d", f.Ord, r.NextOrd)}
	}
	r.NextOrd, r.Active = f.Ord, f.At
	repair := f.Flags&FlagRepair != 0
	if repair {
		if err := r.applyRepair(f); err != nil {
			return err
		}
	}
	r.Inbox = append(r.Inbox, Input{
		Ord: f.Ord, Class: f.Class, At: f.At, ID: f.ID(), Text: f.Text, From: f.sender(),
		Route: f.Route, Mail: f.Mail(), Thread: f.Flags&FlagThread != 0, Repair: repair,
		Senders: f.Senders(),
	})
	r.count(&r.Inbox[len(r.Inbox)-1], 1)
	if f.Class == Control && !repair {
		r.recordSteer(f.From(), f.At)
	}
	t.noteSent(f)
	if f.ID() != "" {
		t.notePost(f, r.RunID())
	}
	return nil
}

// noteSent notes that the turn under way of a session has sent a message.
func (t *Tree) noteSent(f *Fact) {
	if from := t.find(f.sender()); from != nil {
		from.didWork = true
	}
}

// sender returns the session that sent the message of f, if one did.
func (f *Fact) sender() session.Key {
	if f.Flags&FlagThread != 0 {
		return session.Key{}
	}
	return f.From()
}

// applyRoute sets where the answer to the inputs up to an ordinal goes: to the route of the last of
// them that has one. A completion has the route of the child's Spec. A message that a top-level
// session gets otherwise than from a bound conversation is not answered in one.
func (t *Tree) applyRoute(r *Run, through uint32) {
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord > through {
			return
		}
		if r.IsRoot() {
			t.routeTop(r, in)
			continue
		}
		switch {
		case r.inThread() && in.Class == Completion: // the conversation that asked is answered
			if route := t.routeOf(r, in); route != nil {
				r.Route = route
			}
		case r.inThread() && !in.Thread: // the conversation is answered
		case in.Route != nil:
			r.Route = in.Route
		case in.Class == Completion:
			if route := t.routeOf(r, in); route != nil {
				r.Route = route
			}
		}
	}
}

// routeTop sets where the answer of a top-level session to an input goes.
func (t *Tree) routeTop(r *Run, in *Input) {
	route := in.Route
	if route == nil && in.Class == Completion {
		route = t.routeOf(r, in)
	}
	apart := route != nil &&
		(in.Thread || in.Class == Completion && r.isApart(*route, r.lastRoute()))
	r.turnTo(route, apart, in.Class == User)
}

// isApart reports whether the end of a sub-agent that is told in a place leaves the place of r as
// it is: that is a bound conversation, or was one, or another chat than the one where the last
// answer went.
func (r *Run) isApart(at, last session.Route) bool { return at != last || r.converses(at) }

// isElsewhere reports whether r answers in a place that is not bound and not its own.
func (r *Run) isElsewhere() bool {
	return r.Home != nil && r.Route != nil && !r.converses(*r.Route)
}

// turnTo has a top-level session answer in a place, which may be apart. Nil: where it did, or where
// it does without such a place if a person has written there.
func (r *Run) turnTo(route *session.Route, apart, written bool) {
	switch {
	case apart && r.Home == nil:
		if r.setHome(r.Route); r.Route == nil {
			r.setHome(new(session.Route))
		}
	case !apart && r.Home != nil && (route != nil || written):
		if route == nil && !r.Home.IsZero() {
			route = r.Home
		}
		r.Route = nil
		r.setHome(nil)
	}
	if route != nil {
		r.Route = route
	}
}

// filledRoute returns the route of a message, which may be nil, with what it lacks filled in from
// that of the message before, as long as that is of the same conversation. Without either it is
// what the key says, or nil.
func (r *Run) filledRoute(route *session.Route) *session.Route {
	stored := r.Route
	if r.Home != nil {
		if stored = nil; !r.Home.IsZero() {
			stored = r.Home
		}
	}
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Class == User && !in.Thread && in.Route != nil {
			stored = in.Route
		}
	}
	switch {
	case route == nil && stored == nil:
		return r.ownRoute()
	case route == nil || stored == nil:
		return route
	}
	filled := route.Or(*stored)
	return &filled
}

// routeOf returns what r was answering when it asked for the run whose completion in is, or nil. A
// completion that has moved up to r was asked for where a session below r answers, which is not
// where r does: it has the route of the sub-agent of r that it came up through.
func (t *Tree) routeOf(r *Run, in *Input) *session.Route {
	c := t.find(in.From)
	if c == nil {
		return nil
	}
	of, known := c.RunOf(in.RunID)
	if known && of.Begin != nil && t.RequesterOf(c, &of) == r.key {
		return of.Begin.Route
	}
	for c.Parent != nil && c.Parent != r && c.Below(r) {
		c = c.Parent
	}
	return c.Spec.Route()
}

// applySetAside takes the unread inputs off the counts, so that they start no turn. They stay in
// the inbox, for the next turn that something else starts.
func (r *Run) applySetAside(f *Fact) error {
	if !r.IsRoot() || r.Open != nil || f.Ord < max(r.Consumed, r.Aside) || f.Ord > r.NextOrd {
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("it sets aside up to %d", f.Ord)}
	}
	r.consume(f.Ord)
	r.Aside, r.Retry = f.Ord, false
	r.setAsked(nil)
	if r.Join != nil && r.Join.Ready(f.At) {
		r.Join = nil
	}
	r.forgetWait()
	return nil
}

// consume takes the inputs up to an ordinal off the counts of unread inputs. They stay in the inbox
// until the turn has ended.
func (r *Run) consume(through uint32) {
	from := max(r.Consumed, r.Aside)
	if r.Open != nil && r.Open.Through > from && r.Open.Through < through {
		from = r.Open.Through
	}
	if from == 0 && r.Parent != nil {
		r.nUser--
	}
	for i := range r.Inbox {
		if in := &r.Inbox[i]; in.Ord > from && in.Ord <= through {
			r.count(in, -1)
		}
	}
}

// setConsumed records that the inputs up to an ordinal have been read.
func (r *Run) setConsumed(through uint32) {
	if r.Consumed = through; r.Aside <= through {
		r.Aside = 0
	}
}

// dropInputs removes the inputs up to an ordinal from the inbox.
func (t *Tree) dropInputs(r *Run, through uint32) {
	n := 0
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Ord > through {
			break
		}
		t.releaseCompletion(in)
		t.forgetText(len(in.Text))
		n++
	}
	t.setInbox(r, r.Inbox[n:])
}

// releaseCompletion records that a completion no longer waits to be read, so that its run may be
// archived.
func (t *Tree) releaseCompletion(in *Input) {
	if in.Class != Completion {
		return
	}
	if c := t.find(in.From); c != nil {
		t.hold(c, in.RunID, -1)
	}
}

// setInbox sets the inbox to a copy of rest, which frees the memory of consumed inputs.
func (t *Tree) setInbox(r *Run, rest []Input) {
	if len(rest) == 0 {
		r.Inbox = nil
		return
	}
	r.Inbox = append([]Input(nil), rest...)
}

// sendCompletion tells the requester of the run that f ends of the end of a run of child, which is
// that run or one below it: through the outbox with FlagOut, else in the inbox.
func (t *Tree) sendCompletion(child session.Key, run string, f *Fact) {
	to := t.requester(t.find(f.Run))
	if f.Flags&FlagOut != 0 {
		e := t.work().spareEntries.Take()
		e.Run, e.RunID, e.To, e.Created, e.Due = child, run, to.Key(), f.At, f.At
		t.addEntry(e)
		t.holdCompletion(child, run)
		return
	}
	t.postCompletion(to, child, run, f.At)
}

// update has people told of the end of a run of r, which f records.
func (t *Tree) update(r *Run, f *Fact) {
	e := &Entry{
		Run: r.key, RunID: r.runName(), To: r.Parent.key, Update: true, Route: r.Spec.Route(),
		Created: f.At, Due: f.At,
	}
	t.addEntry(e)
	t.holdEntry(e, 1)
}

// forwardCompletions empties the inbox of a run that ends. Unread completions move up to its
// requester, unless the run or its requester was stopped. Other unread inputs are lost: a message
// is a new one when it is posted again, and steers are counted.
func (t *Tree) forwardCompletions(r *Run, f *Fact) {
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class != Completion {
			if in.Class == Control && !in.Repair {
				r.ownRare().Missed++
			}
			t.forgetUnread(r, in)
			continue
		}
		if f.State == Cancelled || t.requester(r).Cause == Stopped {
			t.releaseCompletion(in)
			continue
		}
		t.sendCompletion(in.From, in.RunID, f)
		t.hold(t.find(in.From), in.RunID, -1) // it had been held by r
	}
	r.Inbox = nil
	r.recount()
}

// postCompletion adds the completion of a run of child to an inbox.
func (t *Tree) postCompletion(to *Run, child session.Key, run string, at int64) {
	to.NextOrd++
	to.Inbox = append(to.Inbox, Input{
		Ord: to.NextOrd, Class: Completion, At: at, From: child, RunID: run,
	})
	to.nComp++
	t.holdCompletion(child, run)
}

// holdCompletion records that the completion of a run of child waits to be read.
func (t *Tree) holdCompletion(child session.Key, run string) {
	if c := t.find(child); c != nil {
		t.hold(c, run, 1)
	}
}

// The program may have a top-level session know of something that no person has said and no child
// has done: that a job is over, or that a file has come. It is posted as a message is, with the
// class Event: known by its id, once. A session that Offshoot runs finds it in its inbox, and reads
// it in a turn. For one that the caller runs it leaves through the outbox, among the completions.

// decideEvent posts an event. The receiver of what waits for the session is not heard from by it.
func (t *Tree) decideEvent(r *Run, c *Post) (Reply, error) {
	if !r.IsRoot() {
		return Reply{}, &InputError{"to", fmt.Sprintf("%q is a sub-agent, and hears of its own "+
			"sub-agents alone", c.To)}
	}
	f := posted(t.now, r, Event, c.ID, c.Text, c.From)
	switch {
	case t.opt.CallerRun:
		f.Flags, f.Ord = FlagOut, 0
	case r.Route == nil && r.Home == nil: // no person has written yet
		f.Route = r.ownRoute()
	}
	t.emit(f)
	return Reply{Run: r, Ref: c.To, RunID: r.RunID()}, nil
}

// applyEventOut adds an event that leaves through the outbox.
func (t *Tree) applyEventOut(r *Run, f *Fact) error {
	if f.Class != Event || !r.IsRoot() || f.Ord != 0 {
		return &CorruptError{f.Kind, f.Run, "it leaves through the outbox, and is not an event"}
	}
	t.addEntry(&Entry{
		Run: f.Run, To: f.Run, Event: true, RunID: f.ID(), Text: f.Text, Created: f.At,
		Due: f.At,
	})
	t.notePost(f, r.RunID())
	return nil
}

// takeBack moves an event from the outbox to the inbox of its session, which Offshoot runs now.
func (t *Tree) takeBack(e *Entry, at int64) {
	r := t.root
	r.NextOrd++
	r.Inbox = append(r.Inbox, Input{
		Ord: r.NextOrd, Class: Event, At: at, ID: e.RunID, Text: e.Text,
	})
	r.count(&r.Inbox[len(r.Inbox)-1], 1)
}

// fromPeople reports whether an input of r is a message that r answers to people, where it answers
// people at all.
func (r *Run) fromPeople(in *Input) bool {
	return in.Class == User && (r.IsRoot() || in.Thread)
}

// neutral reports whether an input of a sub-agent asks for no answer: a steer and a milestone go
// with what does.
func (in *Input) neutral() bool {
	return in.Class == Control && !in.Repair || in.Class == Milestone
}

// asksForPeople reports whether the answer to an input of a sub-agent that is not neutral goes to a
// bound conversation: to a message from there, and in a run that began with one to the end of a
// child.
func (r *Run) asksForPeople(in *Input) bool {
	return in.Thread || r.inThread() && in.Class != User
}

// answersPeople reports whether the answer to the inputs that r has not consumed goes to people, of
// those in an inbox up to an ordinal. It always does of a top-level session.
func (r *Run) answersPeople(inbox []Input, through uint32) bool {
	if r.IsRoot() {
		return true
	}
	people := r.inThread() // which also asks for the task of a first turn that crashed
	if r.Open != nil && r.Open.Wait != nil {
		people = !r.Open.Wait.At.IsZero()
	}
	if r.taskUnread() && !people {
		return false
	}
	for i := range inbox {
		in := &inbox[i]
		if in.Ord > through {
			break
		}
		if in.neutral() {
			continue
		}
		if people = r.asksForPeople(in); !people {
			break
		}
	}
	return people
}

// asideOfRun reports whether the answer to these inputs goes to people and is not that of the run,
// because they did not begin it.
func (r *Run) asideOfRun(inbox []Input, through uint32) bool {
	return !r.IsRoot() && !r.inThread() && r.answersPeople(inbox, through)
}

// through returns the last input that a turn of r reads now, after those up to an ordinal. A
// session answers one conversation, or its requester, and never two at once. So a turn stops before
// what is for another, and the next turn begins there.
func (t *Tree) through(r *Run, after uint32) uint32 {
	known := r.Open != nil || !r.IsRoot() && r.taskUnread() && !r.inThread()
	at := place{people: known && r.answersPeople(r.Inbox, after)}
	bound := !r.IsRoot() || r.Home != nil && !r.isElsewhere()
	if at.bound = at.people && bound; at.people && r.Route != nil {
		at.route = *r.Route
	}
	if t.waitIsNext(r) {
		known, at = true, r.waitPlace()
	}
	for ord, to := range t.places(r) {
		if known && ord > after && !at.takes(to) {
			return ord - 1
		}
		known, at = true, to
	}
	return r.NextOrd
}

// places returns where the answer to each input of r goes that is not consumed and not neutral, by
// their ordinals.
func (t *Tree) places(r *Run) iter.Seq2[uint32, place] {
	return func(yield func(uint32, place) bool) {
		last := r.lastRoute()
		for i := range r.Inbox {
			in := &r.Inbox[i]
			if in.neutral() || in.Ord <= r.Consumed {
				continue
			}
			to := t.placeOf(r, in, last)
			if !to.bound && in.Class != Completion {
				last = to.route
			}
			if !yield(in.Ord, to) {
				return
			}
		}
	}
}

// A place is where the answer to an input goes: to people in the conversation of a route, which may
// be bound, as each is to whose people a sub-agent speaks; or to the requester, as the zero place.
type place struct {
	people, bound bool
	route         session.Route
}

// takes reports whether a turn that answers in one place reads an input that is for another. A
// place that is not known is where the next one is.
func (at place) takes(to place) bool {
	unknown := at.people && !at.bound && at.route.IsZero()
	return at == to || unknown && to.people && !to.bound
}

// lastRoute returns where a top-level session answers what does not say where it comes from, as far
// as that is known: where its last answer went that was in no bound conversation.
func (r *Run) lastRoute() (route session.Route) {
	switch {
	case !r.IsRoot():
	case r.Home != nil:
		route = *r.Home
	case r.Route != nil:
		route = *r.Route
	}
	return route
}

// placeOf returns where the answer to an input of r goes that is not neutral. What a top-level
// session gets that does not say where it comes from is answered where the last was.
func (t *Tree) placeOf(r *Run, in *Input, last session.Route) place {
	top, route := r.IsRoot(), in.Route
	if !top && !r.asksForPeople(in) {
		return place{}
	}
	at := place{people: true, bound: in.Thread || !top}
	if in.Class == Completion {
		route = t.routeOf(r, in)
		at.bound = !top || route != nil && r.converses(*route)
	}
	switch {
	case route != nil && (top || in.Thread || in.Class == Completion):
		at.route = *route
	case top:
		at.route = last
	}
	return at
}
