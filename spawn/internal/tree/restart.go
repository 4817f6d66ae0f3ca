package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A session may have several runs, one after the other. The Spec of a session says what its first
// run began with, and holds for all of them: key, agent, authority, budget. A Begin says what a
// later run began with, and a Past how a run has ended that a later one has followed.

// A Begin is what a later run of a session began with. It never changes.
type Begin struct {
	ID  string `json:"id"`  // of the run
	Ord uint32 `json:"ord"` // of the input that it began with
	// From is the session that asked for it. Zero: a person or the program did.
	From     session.Key    `json:"from,omitzero"`
	Announce bool           `json:"announce,omitempty"` // its requester is told of the end
	Thread   bool           `json:"thread,omitempty"`   // a conversation that is bound began it
	Request  string         `json:"request,omitempty"`  // see requestOf; empty: the run is its own
	ByModel  bool           `json:"byModel,omitempty"`  // it counts against the limit of its request
	Route    *session.Route `json:"route,omitempty"`    // of what the requester was answering
	Created  int64          `json:"created"`            // Unix nanoseconds
}

// A Past is a run of a session as it stands, or as it stood at its end if a later one has followed
// it: then it never changes. Its Usage is that of the run alone, and Turns is the number of its
// last turn.
type Past struct {
	Begin    *Begin  `json:"begin,omitempty"` // nil: it was the first run
	State    State   `json:"state"`
	Cause    Cause   `json:"cause,omitempty"`
	Reason   Text    `json:"reason,omitempty"`
	Silent   bool    `json:"silent,omitempty"`
	Missed   uint32  `json:"missed,omitempty"` // see RunState.Missed
	Quiet    bool    `json:"quiet,omitempty"`
	Announce bool    `json:"announce,omitempty"` // see RunState.Announce
	Answer   *Result `json:"answer,omitempty"`
	Usage    Usage   `json:"usage,omitzero"`
	Nonce    uint64  `json:"nonce,omitempty"`
	Siblings uint32  `json:"siblings,omitempty"`
	Turns    uint32  `json:"turns,omitempty"`
	Started  int64   `json:"started,omitempty"`
	Deadline int64   `json:"deadline,omitempty"`
	Ended    int64   `json:"ended,omitempty"`
	// Announced is what the announce step came to; nil: there was none.
	Announced *Announcement `json:"announced,omitempty"`
	// Senders are the people for whom the run has worked.
	Senders []policy.Sender `json:"senders,omitempty"`

	// What follows is derived.

	held        int  // how many inputs and entries of the outbox name it
	keptRequest bool // see Run.keptRequest
}

// A Conversation is one that is bound to a session: what is said there goes to the session.
type Conversation struct {
	Route session.Route `json:"route"`
	At    int64         `json:"at"` // since when, in Unix nanoseconds
}

// An EndedError refuses an input of a Session that has ended, because Ended, the topmost session
// above it that is not the top-level one and has ended as well, could not be told of what comes of
// it. It is an ErrEnded.
type EndedError struct{ Session, Ended session.Key }

func (e *EndedError) Error() string {
	return fmt.Sprintf("%v: %q, and above it %q", ErrEnded, e.Session, e.Ended)
}

// Is reports whether target is ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// A run is named by its id. Inputs, entries of the outbox and joins have the empty name for the
// first run of a session, as in the journals of version 1.

// RunID returns the id of the present run of a session; "" of a top-level one.
func (r *Run) RunID() string {
	if r.Begin != nil {
		return r.Begin.ID
	}
	return r.Spec.ID
}

// runName returns the name of the present run in inputs, entries and joins.
func (r *Run) runName() string {
	if r.Begin != nil {
		return r.Begin.ID
	}
	return ""
}

// nameOf returns the name in inputs, entries and joins of the run with an id.
func (r *Run) nameOf(id string) string {
	if id == r.Spec.ID {
		return ""
	}
	return id
}

// name returns the name of a run in inputs, entries and joins.
func (p *Past) name() string {
	if p.Begin != nil {
		return p.Begin.ID
	}
	return ""
}

// Present returns the present run of a session.
func (r *Run) Present() Past {
	return Past{
		Begin: r.Begin, State: r.State, Cause: r.Cause, Reason: r.Reason, Silent: r.Silent,
		Missed: r.Missed,
		Quiet:  r.Quiet, Announce: r.Announce, Answer: r.Answer, Usage: r.Usage, Nonce: r.Nonce,
		Siblings: r.Siblings, Turns: r.Turns, Started: r.Started, Deadline: r.Deadline,
		Ended: r.Ended, Announced: r.Announced, Senders: r.Senders(),
		held: int(r.held + r.hooks), keptRequest: r.keptRequest,
	}
}

// RunOf returns the run of a session with an id or a name, and whether it is known: the present
// one, or one that is kept.
func (r *Run) RunOf(id string) (Past, bool) {
	name := r.nameOf(id)
	if name == r.runName() {
		return r.Present(), true
	}
	if i := r.pastIndex(name); i >= 0 {
		return r.Past[i], true
	}
	return Past{}, false
}

// isPresent reports whether an id is that of the present run; the empty id is.
func (r *Run) isPresent(id string) bool { return id == "" || id == r.RunID() }

// A follow is a run of a session that another one has followed in the last batch.
type follow struct {
	session *Run
	run     Past
}

// RunAt returns the run of a session that the fact i of the last batch is about: the present one,
// unless a later fact of the batch has begun another. Of a Restarted it is the one that it begins.
func (t *Tree) RunAt(r *Run, facts []Fact, i int) Past {
	later := 0 // how many runs the rest of the batch has begun
	for j := i + 1; r.Begin != nil && j < len(facts); j++ {
		if facts[j].Kind == Restarted && facts[j].Run == r.key {
			later++
		}
	}
	for _, x := range slices.Backward(t.work().followed) {
		if later == 0 {
			break
		}
		if x.session != r {
			continue
		}
		if later--; later == 0 {
			return x.run
		}
	}
	return r.Present()
}

// RequesterOf returns the session that is told of the end of a run of r, as long as it has not
// ended itself; zero for a top-level session.
func (t *Tree) RequesterOf(r *Run, run *Past) session.Key {
	if r.IsRoot() {
		return session.Key{}
	}
	if b := run.Begin; b != nil && b.From.IsValid() {
		if from := t.find(b.From); from != nil && from != r && r.Below(from) {
			return from.key
		}
	}
	return r.Parent.key
}

// IDOf returns the id of a run of the session.
func (r *Run) IDOf(of *Past) string {
	if of.Begin != nil {
		return of.Begin.ID
	}
	return r.Spec.ID
}

// SessionUsage returns what all runs of a session have used together.
func (r *Run) SessionUsage() (sum Usage) {
	if r.Begin == nil {
		return r.Usage
	}
	r.Expenses(func(x Expense, gone bool) {
		if !gone {
			sum = sum.add(x.Usage)
		}
	})
	return sum
}

// RunOfTurn returns the run of a session that a turn was of. If that is not kept, it is the next
// one that is.
func (r *Run) RunOfTurn(n uint32) Past {
	for i := range r.Past {
		if n <= r.Past[i].Turns {
			return r.Past[i]
		}
	}
	return r.Present()
}

// Followed calls f with each run that the last batch has followed by another.
func (t *Tree) Followed(f func(r *Run, of Past)) {
	for _, x := range t.work().followed {
		f(x.session, x.run)
	}
}

// pastIndex returns where Past has the run with a name, or -1.
func (r *Run) pastIndex(name string) int {
	return slices.IndexFunc(r.Past, func(p Past) bool { return p.name() == name })
}

// FollowsCrash reports whether the turn of r under way is the first of a run that follows one which
// a crash has interrupted: what that did in its last turn is not in the conversation. It is the
// first one as long as a shutdown has ended those before it untouched.
func (r *Run) FollowsCrash() bool {
	if r.Begin == nil || len(r.Past) == 0 {
		return false
	}
	last := &r.Past[len(r.Past)-1]
	return last.State == Interrupted && r.Consumed < r.firstOrd()
}

// announces reports whether the requester of the present run is to be told of its end.
func (r *Run) announces() bool {
	if r.Begin != nil {
		return r.Begin.Announce || r.Announce
	}
	return r.Spec.Announce || r.Announce
}

// requester returns who is told of the end of the present run: the session that asked for it, if
// that is above, else the one that r was spawned from. If it has ended, the next one above is told.
func (t *Tree) requester(r *Run) *Run {
	to := r.Parent
	if r.Begin != nil && r.Begin.From.IsValid() {
		if from := t.find(r.Begin.From); from != nil && from != r && r.Below(from) {
			to = from
		}
	}
	for to.State.Terminal() && to.Parent != nil {
		to = to.Parent
	}
	return to
}

// Requester returns the session that is told of the end of the present run of r, or nil of a
// top-level session.
func (t *Tree) Requester(r *Run) *Run {
	if r.IsRoot() {
		return nil
	}
	return t.requester(r)
}

// hold counts something that names a run of r, which may be nil, or takes it off with -1. A run
// that nothing names any more may be forgotten, or archived.
func (t *Tree) hold(r *Run, name string, by int32) {
	if r == nil {
		return
	}
	if name == r.runName() {
		r.held += by
	} else if i := r.pastIndex(name); i >= 0 {
		r.Past[i].held += int(by)
		if by < 0 {
			t.prunePast(r)
		}
	}
	if by < 0 {
		t.armTimer(r)
		t.touch(r)
	} else {
		r.hastened = false
	}
}

// isHeld reports whether anything names a run of r.
func (r *Run) isHeld() bool {
	return r.held+r.hooks > 0 ||
		slices.ContainsFunc(r.Past, func(p Past) bool { return p.held > 0 })
}

// prunePast forgets the runs between the first and the last one that nothing names.
func (t *Tree) prunePast(r *Run) {
	var join *Join
	if r.Parent != nil {
		join = r.Parent.Join
	}
	last := len(r.Past) - 1
	kept := r.Past[:0:0]
	for i, p := range r.Past {
		if i == 0 || i == last || p.held > 0 || join != nil && join.names(r.key, p.name()) {
			kept = append(kept, p)
			continue
		}
		t.leaveRequestOf(r, &p)
	}
	if len(kept) < len(r.Past) {
		r.ownRare().Past = kept
	}
}

// followUpForbidden returns why an ended session cannot begin another run, whatever the rules say,
// or nil.
func (t *Tree) followUpForbidden(r *Run) error {
	if r.leaves() {
		return archivedError("posting to", r.Key())
	}
	if r.Turns == 0 {
		return fmt.Errorf("%w: %q has never had a turn", ErrEnded, r.Key())
	}
	var ended, stopping *Run
	for x := r.Parent; !x.IsRoot(); x = x.Parent {
		if x.State.Terminal() {
			ended = x
		}
		if x.Cause != NoCause && !x.State.Terminal() {
			stopping = x
		}
	}
	switch root := t.root; {
	case ended != nil:
		return &EndedError{r.Key(), ended.Key()}
	case stopping != nil:
		return fmt.Errorf("%w: %q, and above it %q", ErrStopping, r.Key(), stopping.Key())
	case root.Cause != NoCause:
		return fmt.Errorf("%w: %q, and above it %q", ErrStopping, r.Key(), root.Key())
	}
	return nil
}

// decideFollowUp begins another run of a session that has ended, over the message c. What such a
// run may do is what the session was granted, under the rules of this moment, and it works for all
// for whom the session has worked, because it goes on with their conversation.
func (t *Tree) decideFollowUp(r *Run, c *Post) (Reply, error) {
	if err := t.followUpForbidden(r); err != nil {
		return Reply{}, err
	}
	switch {
	case c.SessionID != "" && c.SessionID != r.Spec.SessionID:
		return Reply{}, fmt.Errorf("%w: posting to %q", ErrMoved, c.To)
	case c.RunID == "":
		return Reply{}, errors.New("spawn: a follow-up without the id of its run")
	}
	if _, known := r.RunOf(c.RunID); known {
		return Reply{}, &InputError{"id", "it is the id of another run of the session"}
	}
	if err := t.opt.Limits.CheckPost(c, session.Part.Validate); err != nil {
		return Reply{}, err
	}
	begin := &Begin{
		ID: c.RunID, Ord: r.NextOrd + 1, From: c.From, Announce: c.Announce, Thread: c.Thread,
		ByModel: c.ByModel, Route: r.Parent.Route, Created: t.now,
	}
	if from := t.find(c.From); from != nil {
		asks := Spawn{Origin: c.Origin, Request: policy.Request{ByModel: c.ByModel}}
		begin.Request = asks.requestFor(from)
		if r.Below(from) {
			begin.Route = from.Route
		}
	}
	if err := t.admitFollowUp(r, c, begin); err != nil {
		return Reply{}, err
	}
	f := restarted(t.now, r, c, begin)
	f.setSenders(policy.MergeSenders(r.everSenders(), c.Senders))
	c.route(r, &f)
	t.emit(f)
	return Reply{Run: r, Ref: c.To, RunID: begin.ID, Began: true}, nil
}

// admitFollowUp returns why the rules of this moment do not admit another run of r, or nil. It
// counts as a run of the tree and as an active child of the session above, and its agent must be
// one that this session may have. The budget is that of the session, over all its runs.
func (t *Tree) admitFollowUp(r *Run, c *Post, begin *Begin) error {
	asker := t.newAsker(c.Answers)
	rules := t.rulesFor(asker)
	caller := t.policyCaller(r.Parent, rules, nil)
	caller.Spawned = 0 // it is not another child
	caller.Requested = int(t.requests.Of(begin.Request).byModel)
	caller.RequestBudget = remaining(t.rules.RequestBudget,
		t.chargedFor(t.find(begin.From), begin.Request))
	_, err := rules.Admit(caller, policy.Request{
		Agent: r.Spec.Agent, Child: r.Key(), ByModel: begin.ByModel,
	})
	if open := asker.missing(); open != nil {
		return open
	}
	if err != nil {
		return err
	}
	if what := t.turnForbiddenBy(r, ""); what != "" {
		return &policy.Refusal{
			Rule: policy.RuleBudget, Asked: "another run",
			Limit: what + ", which is spent", Path: "Request.Budget",
		}
	}
	return nil
}

// applyRestarted begins another run of a session whose run has ended, and keeps that. Turns and
// inputs are counted on, so that no name that is made of their numbers comes again, and what the
// session was charged stays. A task that no turn has consumed, because the first one crashed or was
// cut, is read together with the input.
func (t *Tree) applyRestarted(r *Run, f *Fact) error {
	b := f.Begin()
	_, known := r.RunOf(b.ID)
	switch {
	case r.IsRoot() || !r.State.Terminal():
		return &CorruptError{f.Kind, f.Run, "its run has not ended"}
	case r.Archiving != 0:
		return &CorruptError{f.Kind, f.Run, "it is being archived"}
	case r.Turns == 0:
		return &CorruptError{f.Kind, f.Run, "it has never had a turn"}
	case f.Ord != r.NextOrd+1 || f.Ord != b.Ord:
		return &CorruptError{f.Kind, f.Run, fmt.Sprintf("input %d after %d", f.Ord, r.NextOrd)}
	case b.ID == "" || known:
		return &CorruptError{f.Kind, f.Run, "it has had the run " + cmp.Or(b.ID, "without an id")}
	}
	for x := r.Parent; !x.IsRoot(); x = x.Parent {
		if x.State.Terminal() {
			return &CorruptError{f.Kind, f.Run, "a session above it has ended: " + x.key.String()}
		}
	}
	t.keepBegun(r) // what the session will be charged is not of the request of this run any more
	consumed := f.Ord - 1
	if r.taskUnread() {
		consumed = 0
	}
	w := t.work()
	w.followed = append(w.followed, follow{r, r.Present()})
	past := append(slices.Clip(r.Past), r.Present())
	r.setState(&RunState{
		Spec: r.Spec, State: Queued, Begin: b, Past: past, Bound: r.Bound, Discard: r.Discard,
		Turns: r.Turns, NextOrd: f.Ord, Consumed: consumed,
		Inbox: []Input{{
			Ord: f.Ord, Class: User, At: f.At, ID: f.ID(), Text: f.Text, From: f.sender(),
			Route: f.Route, Mail: f.Mail(), Thread: f.Flags&FlagThread != 0, Senders: f.Senders(),
		}},
		Charged: r.Charged, Pos: r.Pos, Spawned: r.Spawned, Skills: r.Skills, Ledger: r.Ledger,
		Active: f.At, Kept: r.Kept, Unnamed: r.Unnamed, Senders: f.Senders(),
	})
	if consumed == 0 {
		r.setSenders(policy.MergeSenders(r.Past[len(r.Past)-1].Senders, f.Senders()))
	}
	r.held, r.hooks, r.keptRequest = 0, 0, false
	r.rights = nil
	r.cancelled, r.cascaded = false, false // the lane may still have been asked for a slot
	r.recount()
	delete(t.archiveRetries, r)
	r.Parent.live++
	r.Parent.Active = f.At
	t.live++
	t.total++
	t.admitRequest(r)
	t.prunePast(r)
	t.noteSent(f)
	if f.ID() != "" {
		t.notePost(f, b.ID)
	}
	t.touch(r)
	return nil
}
