package spawntest

import (
	"math"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ends says which terminal state a cause leads to.
var ends = map[tree.Cause]tree.State{
	tree.NoCause:       tree.OK,
	tree.RunnerFailed:  tree.Failed,
	tree.Timeout:       tree.TimedOut,
	tree.Stopped:       tree.Cancelled,
	tree.Crashed:       tree.Interrupted,
	tree.LimitReached:  tree.Incomplete,
	tree.AnswerRefused: tree.Failed,
}

func (a *auditor) turnStarted(r *run, f *tree.Fact) {
	switch {
	case r.turn != nil:
		a.fail(r, "one turn at a time", "turn %d starts while turn %d is under way", f.N, r.turn.n)
	case f.N != r.turns+1:
		a.fail(r, "turns", "turn %d after %d", f.N, r.turns)
	case r.state != tree.Queued && r.state != tree.Waiting:
		a.fail(r, "states", "a turn starts while it is %v", r.state)
	case r.cause != tree.NoCause:
		a.fail(r, "first cause", "a turn starts although it is to end: %v", r.cause)
	case f.Ord < r.consumed || f.Ord > r.next:
		a.fail(
			r, "ordinals", "turn %d consumes inputs up to %d of %d, from %d", f.N, f.Ord, r.next,
			r.consumed,
		)
	case f.Flags&tree.FlagStep == 0 && (f.Until > 0) != (!r.started && r.spec.Timeout > 0):
		a.fail(r, "timeout", "turn %d sets a deadline: %v", f.N, f.Until > 0)
	}
	a.stepStarted(r, f)
	began := !r.started
	r.turns, r.started = f.N, true
	r.state = tree.Running
	if r.parent == nil {
		r.reported = 0
	}
	compact := f.Flags&tree.FlagCompact != 0
	if compact && (r.parent != nil || f.Ord != r.consumed) {
		a.fail(r, "compaction", "turn %d is of a sub-agent, or consumes inputs up to %d", f.N, f.Ord)
	}
	r.turn = &turn{
		n: f.N, through: f.Ord, compact: compact, first: began,
		step: f.Flags&tree.FlagStep != 0, endsWait: f.Route != nil,
	}
	r.turn.empty = r.turn.plain() && f.Ord == r.consumed
	a.endsWait(r, f)
	a.open[r] = a.epoch
	a.report.Turns++
	for x := r; x != nil; x = x.parent {
		if limit := x.spec.Budget.Tokens; limit > 0 &&
			(x.charged.Tokens >= limit || sat.Add(x.charged.Tokens, f.Budget().Tokens) > limit) {
			a.fail(
				r, "budget", "turn %d reserves %d tokens; %q has been charged %d of %d", f.N,
				f.Budget().Tokens, x.spec.Key, x.charged.Tokens, limit,
			)
		}
	}
	if !compact {
		a.reads(r, r.consumed, f.Ord, true)
	}
	a.withinRules(r, f)
	a.reserves(r, f.Budget())
}

func (a *auditor) charge(r *run, b tree.Budget, by int64) {
	for x := r; x != nil; x = x.parent {
		x.charged.Tokens = sat.Add(x.charged.Tokens, by*b.Tokens)
		x.charged.Micros = sat.Add(x.charged.Micros, by*b.Micros)
		x.charged.Turns = sat.Add(x.charged.Turns, by*b.Turns)
	}
}

func (a *auditor) inTurn(r *run, f *tree.Fact) {
	if r.turn == nil || r.turn.n != f.N {
		a.fail(r, "one turn at a time", "%v of turn %d, which is not under way", f.Kind, f.N)
		return
	}
	if !r.turn.plain() && (f.Kind == tree.Taken || f.Kind == tree.Said) {
		a.fail(r, "compaction", "turn %d reads or speaks: %v", f.N, f.Kind)
	}
	if r.turn.step && f.Kind == tree.Reported {
		a.fail(r, "announce steps", "turn %d reports", f.N)
	}
	switch f.Kind {
	case tree.Taken:
		if f.Ord <= r.turn.through || f.Ord > r.next {
			a.fail(
				r, "ordinals", "turn %d takes inputs up to %d of %d, after %d", f.N, f.Ord, r.next,
				r.turn.through,
			)
		}
		a.reads(r, r.turn.through, f.Ord, false)
		r.turn.through = f.Ord
	case tree.Reserved:
		a.reserves(r, f.Budget())
	case tree.TurnEnded:
		a.position(r, f)
		a.turnEnded(r, f)
	case tree.ShuttingDown:
		r.turn.shutdown = true
	case tree.SkillsTaken:
		if r.skills != nil {
			a.fail(r, "skills", "turn %d takes skills, and it has some", f.N)
		}
		r.skills = f.Skills()
	case tree.Said:
		r.turn.worked = f.Kind.String()
		a.said(r, f)
	case tree.Reported:
		r.turn.worked = f.Kind.String()
		a.reported(r, f)
	case tree.Kept:
		a.keeps(r, f)
	case tree.TurnCancelled:
		r.turn.cancelled = true
	case tree.Heard:
		if len(f.Senders()) == 0 {
			a.fail(r, "senders", "turn %d reads what is said for no one", f.N)
		}
	default: // the others do not come here
	}
}

// longResult checks that a result of which a file has the whole keeps no more than a part of it.
func (a *auditor) longResult(r *run, f *tree.Fact) {
	if f.Answer == nil {
		return
	}
	whole, wholeJSON := f.Answer.Whole(), f.Answer.WholeJSON()
	switch {
	case !whole.IsZero() && whole.Validate() != nil,
		!wholeJSON.IsZero() && wholeJSON.Validate() != nil:
		a.fail(r, "long results", "turn %d names what is not a file", f.N)
	case !whole.IsZero() && int64(len(f.Answer.Text)) >= whole.Size:
		a.fail(r, "long results", "turn %d has the text that is in a file", f.N)
	case !wholeJSON.IsZero() && f.Answer.JSON != "":
		a.fail(r, "long results", "turn %d has a JSON, which is in a file", f.N)
	}
}

func (a *auditor) turnEnded(r *run, f *tree.Fact) {
	if f.Flags&tree.FlagUntouched != 0 {
		a.untouched(r, f)
		return
	}
	crashed, cut := f.Flags&tree.FlagCrashed != 0, f.Flags&tree.FlagCut != 0
	switch {
	case crashed && a.open[r] == a.epoch:
		a.fail(r, "epoch", "turn %d is lost in the epoch that it began in", f.N)
	case !crashed && !cut && a.open[r] != a.epoch:
		a.fail(r, "epoch", "turn %d comes back in another epoch", f.N)
	case f.Flags&tree.FlagReply != 0 && !r.speaks():
		a.fail(r, "replies", "a sub-agent speaks to people")
	case f.Join() != nil && r.cause != tree.NoCause:
		a.fail(r, "first cause", "it begins to wait although it is to end")
	}
	a.longResult(r, f)
	a.oneAnswer(r)
	a.answersWait(r, f)
	if r.turn.compact != (f.Flags&tree.FlagCompact != 0) ||
		r.turn.compact && (f.Flags&tree.FlagReply != 0 || f.Join() != nil) {
		a.fail(r, "compaction", "turn %d ends as another sort of turn", f.N)
	}
	a.stepEnded(r, f)
	aside := f.Flags&tree.FlagAside != 0
	if aside {
		a.notRead(r, f)
	}
	if crashed && !r.turn.shutdown && r.turn.plain() {
		r.crashes++
	}
	read := r.turn.through
	if crashed || aside {
		read = f.Ord
	}
	answers, toPeople := r.messages(read), r.speaks()
	if f.Flags&tree.FlagGivenUp != 0 {
		a.givenUp(r, f)
	}
	if !crashed {
		if r.turn.plain() {
			a.forgets(r, read, read < min(r.consumed+1, r.turn.through))
			if aside && f.State == tree.Interrupted && !r.turn.shutdown {
				r.crashes++ // a later turn reads the inputs again
			} else {
				r.crashes = 0
			}
			a.consume(r, read)
			if aside {
				r.aside = r.turn.through
			}
		}
		if !cut {
			used := tree.Budget{Turns: 1}
			if f.Answer != nil {
				c := f.Answer.Usage.Charge()
				used.Tokens, used.Micros = c.Tokens, c.Micros
			}
			a.uses(r, used)
		}
	}
	if f.Flags&tree.FlagReply != 0 {
		a.out++
		a.outbox[a.out] = &parcel{answers: answers}
	}
	a.used(r, f)
	if !r.turn.step {
		r.keepAnswer(f, toPeople)
		r.silent = r.silent || f.Flags&tree.FlagSilent != 0
	}
	if f.Join() != nil {
		r.waitIsOver()
	}
	r.turn = nil
	delete(a.open, r)
	if r.state == tree.Running {
		r.state = tree.Waiting
	}
}

// untouched takes the end of a turn that did nothing before a shutdown ended it: the run stands
// where it stood before the turn.
func (a *auditor) untouched(r *run, f *tree.Fact) {
	switch {
	case r.parent == nil && r.turn.compact, !r.turn.shutdown,
		r.cause != tree.NoCause || r.turn.cancelled:
		a.fail(r, "untouched", "turn %d was not ended by a shutdown, or compacts", f.N)
	case r.turn.worked != "":
		a.fail(r, "untouched", "turn %d is untouched after a fact of its own: %s", f.N, r.turn.worked)
	case f.Answer != nil || f.Join() != nil || f.Num != 0 ||
		f.Flags&^tree.FlagStep != tree.FlagUntouched ||
		(f.Flags&tree.FlagStep != 0) != r.turn.step:
		a.fail(r, "untouched", "turn %d is untouched and came to something", f.N)
	case a.open[r] != a.epoch:
		a.fail(r, "epoch", "turn %d comes back in another epoch", f.N)
	}
	a.uses(r, tree.Budget{})
	r.state = tree.Waiting
	if r.turn.first && r.parent != nil {
		r.started, r.state = false, tree.Queued
	}
	r.turn = nil
	delete(a.open, r)
}

// notRead takes the end of a turn that was cut before its transcript had all of its inputs.
func (a *auditor) notRead(r *run, f *tree.Fact) {
	switch {
	case f.Flags&tree.FlagCut == 0 || r.turn.compact:
		a.fail(r, "set aside", "turn %d was not cut, or compacts, and sets inputs aside", f.N)
	case f.Ord < r.consumed || f.Ord >= r.turn.through:
		a.fail(r, "ordinals", "turn %d has read up to %d of %d, from %d", f.N, f.Ord,
			r.turn.through, r.consumed)
	}
}

// messages returns the ids of the messages in the inbox up to an ordinal.
func (r *run) messages(through uint32) (ids []string) {
	for _, in := range r.inbox {
		asks := in.class == tree.User && (r.parent == nil || in.thread)
		if asks && in.ord <= through && in.id != "" {
			ids = append(ids, in.id)
		}
	}
	return ids
}

// said takes what a turn says before its end.
func (a *auditor) said(r *run, f *tree.Fact) {
	name := tree.Saying{Num: f.Ord, ID: f.ID(), Empty: r.turn.empty}
	ofWait := tree.Saying{Num: f.Ord, ID: f.ID(), Empty: true}
	switch {
	case !r.speaks():
		a.fail(r, "replies", "a sub-agent speaks to people")
	case r.cause != tree.NoCause:
		a.fail(r, "first cause", "turn %d speaks although it is to end", f.N)
	case (f.ID() == "") != (f.Ord > 0):
		a.fail(r, "said once", "turn %d speaks under the name %q and the number %d", f.N, f.ID(), f.Ord)
	case slices.Contains(r.said, name), r.turn.endsWait && slices.Contains(r.said, ofWait):
		a.fail(r, "said once", "turn %d speaks under %q, %d again", f.N, f.ID(), f.Ord)
	}
	r.said = append(r.said, name)
	if f.Flags&tree.FlagReply != 0 {
		a.out++
		a.outbox[a.out] = &parcel{answers: r.messages(r.turn.through)}
	}
}

// keeps takes what a session keeps for its Runner.
func (a *auditor) keeps(r *run, f *tree.Fact) {
	switch {
	case len(f.Text) > tree.MaxKept:
		a.fail(r, "state", "it keeps %d bytes", len(f.Text))
	case f.Text == r.kept:
		a.fail(r, "state", "turn %d has it keep what it keeps", f.N)
	}
	r.turn.worked, r.kept = f.Kind.String(), f.Text
}

// reported takes a milestone of a turn. It is in the inbox of the requester, if that asked for it
// and its turns read an inbox, in the place of the one before that no turn has begun to read.
func (a *auditor) reported(r *run, f *tree.Fact) {
	told := f.Flags&tree.FlagTell != 0
	switch {
	case r.cause != tree.NoCause:
		a.fail(r, "first cause", "turn %d reports although it is to end", f.N)
	case f.Ord != r.reported+1 || f.Ord > tree.MaxMilestones:
		a.fail(r, "milestones", "milestone %d after %d", f.Ord, r.reported)
	case told && (r.parent == nil || !r.spec.Milestones):
		a.fail(r, "milestones", "its requester is told and should not be")
	case !told && r.spec.Milestones && r.parent != a.root:
		a.fail(r, "milestones", "its requester is not told")
	}
	if r.reported = f.Ord; told && r.parent != nil {
		p := r.parent
		p.dropMilestone(r.spec.Key)
		p.next++
		p.inbox = append(p.inbox, input{
			ord: p.next, class: tree.Milestone, steerer: r.spec.Key, run: r.end().id,
		})
	}
}

// dropMilestone removes the milestone of a child that no turn has begun to read.
func (r *run) dropMilestone(child session.Key) {
	read := r.consumed
	if r.turn != nil {
		read = r.turn.through
	}
	r.inbox = slices.DeleteFunc(r.inbox, func(in input) bool {
		return in.class == tree.Milestone && in.steerer == child && in.ord > read
	})
}

// used adds what a turn has used. What it has used of each model adds up to that.
func (a *auditor) used(r *run, f *tree.Fact) {
	if f.Answer == nil {
		return
	}
	u := usageOf(f.Answer.Usage)
	r.used = r.used.Add(u)
	if models := f.Answer.ByModel(); len(models) > 0 {
		var sum session.Usage
		for _, m := range models {
			sum = sum.Add(usageOf(m.Usage))
		}
		if !sameUsage(sum, u) {
			a.fail(r, "usage", "turn %d used %+v, and of its models %+v", f.N, u, sum)
		}
	}
}

func usageOf(u tree.Usage) session.Usage {
	return session.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Cost: u.Cost,
	}
}

// sameUsage reports whether two sums are the same. Costs depend a little on the order in which they
// are added.
func sameUsage(x, y session.Usage) bool {
	tolerance := 1e-9 * max(1, math.Abs(x.Cost), math.Abs(y.Cost))
	near := math.Abs(x.Cost-y.Cost) <= tolerance
	x.Cost, y.Cost = 0, 0
	return near && x == y
}

// join checks that a session that begins to wait waits for as many children as are alive: of those
// that the join names, or of all if it names none, as an earlier library wrote it.
func (a *auditor) join(r *run, j *tree.Join) {
	alive := r.alive(j)
	if alive != j.Left {
		a.fail(r, "joins", "it waits for %d children, of which %d are alive", j.Left, alive)
	}
}

// position takes the committed end of the conversation that a turn leaves.
func (a *auditor) position(r *run, f *tree.Fact) {
	if f.Num > 0 && f.Num < r.pos {
		a.fail(r, "position", "turn %d commits up to %d, after %d", f.N, f.Num, r.pos)
	}
	r.pos = max(r.pos, f.Num)
}

// reset begins a conversation under a session id that the session never had.
func (a *auditor) reset(r *run, f *tree.Fact) {
	r.leaving.to = false
	switch {
	case r.parent != nil:
		a.fail(r, "reset", "a sub-agent is reset")
	case r.turn != nil || r.cause != tree.NoCause:
		a.fail(r, "reset", "it has a turn under way, or is to end: %v", r.cause)
	case string(f.Text) != r.session:
		a.fail(r, "reset", "it leaves %q and has %q", f.Text, r.session)
	case f.ID() == "" || r.past[f.ID()]:
		a.fail(r, "reset", "it has had the session id %q", f.ID())
	}
	for _, c := range r.children {
		if !c.state.Terminal() {
			a.fail(r, "reset", "%q is %v", c.spec.Key, c.state)
		}
	}
	if r.past == nil {
		r.past = make(map[string]bool)
	}
	r.former = append(r.former, r.session)
	r.session, r.pos, r.skills, r.kept = f.ID(), 0, nil, ""
	r.past[f.ID()] = true
}

// putAway takes the oldest conversation before a reset as archived.
func (a *auditor) putAway(r *run, f *tree.Fact) {
	if len(r.former) == 0 || r.former[0] != f.ID() {
		a.fail(r, "put away", "%q, which is not what waits for it: %q", f.ID(), r.former)
		return
	}
	r.former = r.former[1:]
}

// forgets drops the names of what was said in turns that no later one repeats. What a turn that
// began without an input has said, to end a wait, is of a list of its own.
func (a *auditor) forgets(r *run, read uint32, repeated bool) {
	var left []tree.Saying
	for _, x := range r.said {
		ofTurn := x.Empty == r.turn.empty
		switch {
		case x.Empty && r.turn.endsWait:
			ofTurn = true
		case !x.Empty && read > r.consumed:
			ofTurn = true
		}
		if ofTurn && repeated {
			x.Empty = false
		}
		if !ofTurn || repeated {
			left = append(left, x)
		}
	}
	r.said = left
}

// waitIsOver drops what was said to end a wait that no turn ends any more.
func (r *run) waitIsOver() {
	r.said = slices.DeleteFunc(r.said, func(x tree.Saying) bool { return x.Empty })
}

// givenUp takes inputs as consumed over which a turn has crashed three times.
func (a *auditor) givenUp(r *run, f *tree.Fact) {
	switch {
	case f.Flags&tree.FlagCrashed == 0 || r.parent != nil:
		a.fail(r, "attempts", "turn %d gives inputs up and did not crash, or is a run's", f.N)
	case r.crashes < 3 || r.turn.shutdown:
		a.fail(r, "attempts", "turn %d gives inputs up after %d crashes", f.N, r.crashes)
	case f.Ord < r.consumed || f.Ord > r.turn.through:
		a.fail(r, "attempts", "turn %d gives up inputs up to %d, from %d", f.N, f.Ord, r.consumed)
	}
	a.forgets(r, f.Ord, f.Ord < r.turn.through)
	a.consume(r, f.Ord)
}

// setAside takes the inputs up to an ordinal as such that start no turn. They stay unread.
func (a *auditor) setAside(r *run, f *tree.Fact) {
	switch {
	case r.parent != nil || r.turn != nil:
		a.fail(r, "set aside", "inputs of a sub-agent, or during a turn")
	case f.Ord < max(r.consumed, r.aside) || f.Ord > r.next:
		a.fail(r, "ordinals", "inputs up to %d of %d are set aside, after %d", f.Ord, r.next,
			max(r.consumed, r.aside))
	}
	r.aside = f.Ord
	r.waitIsOver()
}

// consume takes the inputs up to an ordinal as read for good.
func (a *auditor) consume(r *run, through uint32) {
	r.consumed = max(r.consumed, through)
	if r.aside <= r.consumed {
		r.aside = 0
	}
	n := 0
	for _, in := range r.inbox {
		if in.ord > through {
			break
		}
		n++
		if in.class == tree.Completion {
			a.move(in.from, inInbox, consumed)
			a.report.Consumed++
		}
	}
	r.inbox = r.inbox[n:]
}

// move takes a completion from one place to another. A completion is always in one.
func (a *auditor) move(c *completion, from, to place) {
	if c == nil {
		return // it was archived before the snapshot that the journal begins with
	}
	if c.where != from {
		a.fail(
			c.of, "exactly once", "its completion is %s and is to be %s", placeNames[c.where],
			placeNames[to],
		)
	}
	c.where = to
}

func (a *auditor) stopRequested(r *run, f *tree.Fact) {
	a.refusedEnd(r, f)
	switch {
	case r.cause != tree.NoCause:
		a.fail(r, "first cause", "%v after %v", f.Cause, r.cause)
	case f.Cause == tree.NoCause:
		a.fail(r, "first cause", "it is to end for no cause")
	case r.state.Terminal():
		a.fail(r, "end", "it is to end and has ended")
	case r.parent == nil && f.Cause != tree.Stopped:
		a.fail(r, "first cause", "a top-level session is to end: %v", f.Cause)
	case f.Flags&tree.FlagQuiet != 0 && (r.parent == nil || r.parent.cause == tree.NoCause):
		a.fail(r, "announcements", "it is stopped quietly and its parent is not to end")
	}
	r.cause, r.quiet, r.reason = f.Cause, f.Flags&tree.FlagQuiet != 0, f.Text
	r.state = tree.Stopping
}

func (a *auditor) runEnded(r *run, f *tree.Fact) {
	p := r.parent
	switch {
	case p == nil:
		a.fail(r, "states", "a top-level session ends")
		return
	case r.state.Terminal():
		a.fail(r, "one end", "%v after %v", f.State, r.state)
	case f.State != ends[r.cause]:
		a.fail(r, "first cause", "it ends %v for %v", f.State, r.cause)
	case r.turn != nil:
		a.fail(r, "end", "it ends while turn %d is under way", r.turn.n)
	case f.State == tree.OK && r.mayNotEnd():
		a.fail(r, "repairs", "it ends well with an answer that was refused")
	case r.cause == tree.NoCause && r.state != tree.Waiting:
		a.fail(r, "states", "it ends well while it is %v", r.state)
	}
	if r.begin == nil {
		r.firstEnd = tree.Past{State: f.State, Quiet: r.quiet, Reason: r.reason}
	}
	for _, c := range r.children {
		if !c.state.Terminal() {
			a.fail(r, "live descendants", "it ends while %q is %v", c.spec.Key, c.state)
		}
	}
	a.apology(r, f)
	a.forgetUnread(r)
	for _, in := range r.inbox {
		switch {
		case in.class != tree.Completion:
			if r.cause == tree.NoCause && in.class == tree.User {
				a.fail(r, "inputs", "it ends well with a message unread")
			}
		case r.cause == tree.NoCause:
			a.fail(r, "inputs", "it ends well with the end of %q unread", in.from.of.spec.Key)
		case r.cause == tree.Stopped || a.requester(r).cause == tree.Stopped:
			a.move(in.from, inInbox, missed)
			a.report.Missed++
		default:
			a.move(in.from, inInbox, nowhere)
			a.tell(in.from, a.requester(r), f)
		}
	}
	r.inbox = nil
	r.state = f.State
	a.checkTold(r, f)
	a.checkStep(r, f)
	a.update(r, f)
	if f.Flags&tree.FlagTell != 0 {
		a.tell(r.end(), a.requester(r), f)
	}
	a.tellHook(r, f)
}

// checkTold checks that the requester of a run is told of its end exactly if it has to be.
func (a *auditor) checkTold(r *run, f *tree.Fact) {
	told := f.Flags&tree.FlagTell != 0
	p := a.requester(r)
	within := r.quiet || p.cause == tree.Stopped || r.parent.cause == tree.Stopped ||
		p.cause != tree.NoCause && f.State == tree.Cancelled
	switch {
	case told && (!r.announced() || within):
		a.fail(r, "announcements", "its requester is told and should not be")
	case !told && r.announced() && !within &&
		!(f.State == tree.OK && (r.silent || r.step.silent)):
		a.fail(r, "announcements", "its requester is not told")
	}
}

// announceSet takes a run as one whose end is announced, from now on.
func (a *auditor) announceSet(r *run, f *tree.Fact) {
	switch {
	case r.parent == nil || r.state.Terminal():
		a.fail(r, "announcements", "its end is to be announced while it is %v", r.state)
	case r.announced():
		a.fail(r, "announcements", "its end is to be announced twice")
	case f.ID() != r.runID():
		a.fail(r, "announcements", "the end of the run %q is to be announced", f.ID())
	}
	r.announce = true
}

// tell puts the completion of a child into the inbox of a session, or into the outbox.
func (a *auditor) tell(child *completion, to *run, f *tree.Fact) {
	if f.Flags&tree.FlagOut != 0 {
		if to.parent != nil {
			a.fail(
				child.of, "announcements",
				"its completion leaves the tree although its requester is a sub-agent",
			)
		}
		a.move(child, nowhere, inOutbox)
		a.out++
		a.outbox[a.out] = &parcel{child: child}
		return
	}
	a.toInbox(child, to)
}

func (a *auditor) toInbox(child *completion, to *run) {
	if to.state.Terminal() {
		a.fail(to, "end", "it is told of the end of %q after its own", child.of.spec.Key)
	}
	a.move(child, nowhere, inInbox)
	to.next++
	to.inbox = append(to.inbox, input{ord: to.next, class: tree.Completion, from: child})
}

func (a *auditor) recovered(r *run) {
	switch {
	case r.parent != nil:
		a.fail(r, "states", "a run recovers")
	case r.cause == tree.NoCause || r.turn != nil:
		a.fail(r, "states", "it recovers from nothing, or during a turn")
	}
	for _, c := range r.children {
		if !c.state.Terminal() {
			a.fail(r, "live descendants", "it recovers while %q is %v", c.spec.Key, c.state)
		}
	}
	var rest []input
	for _, in := range r.inbox {
		switch {
		case in.class == tree.Milestone && in.ord > r.consumed:
			continue
		case in.class != tree.Completion:
			rest = append(rest, in)
			continue
		}
		a.move(in.from, inInbox, missed)
		a.report.Missed++
	}
	r.inbox = rest
	r.crashes = 0
	r.cause, r.state = tree.NoCause, tree.Waiting
}

func (a *auditor) parcel(f *tree.Fact) {
	p := a.outbox[f.Ord]
	if p == nil {
		a.fail(nil, "exactly once", "entry %d of the outbox is %v and is not there", f.Ord, f.Kind)
		return
	}
	switch f.Kind {
	case tree.Delivered, tree.Dismissed:
		if f.Kind == tree.Dismissed && !p.blocked && p.hook == nil {
			a.fail(p.child.session(), "outbox", "entry %d is dismissed and was not blocked", f.Ord)
		}
		if p.child != nil {
			a.move(p.child, inOutbox, delivered)
		}
		if m := p.message; m != nil {
			m.arrived = f.Kind == tree.Delivered
		}
		a.report.Delivered++
		delete(a.outbox, f.Ord)
	case tree.Redirected:
		if p.event != nil {
			delete(a.outbox, f.Ord)
			a.eventComesBack(p)
			return
		}
		if p.child == nil {
			a.fail(nil, "outbox", "entry %d is for another and goes to an inbox", f.Ord)
			return
		}
		a.move(p.child, inOutbox, nowhere)
		delete(a.outbox, f.Ord)
		a.toInbox(p.child, a.root)
	case tree.Deferred:
		if p.blocked {
			a.fail(p.child.session(), "outbox", "entry %d is blocked and is tried again", f.Ord)
		}
		p.busy = f.N&tree.DeferredBusy != 0
		p.sent = p.sent || !p.busy
	case tree.Blocked:
		p.blocked = true
		p.sent = p.sent || f.N == 0
		if p.message != nil {
			p.message.late = true
		}
	case tree.Unsent:
		if p.sent {
			a.fail(p.child.session(), "outbox", "entry %d was sent before and is unsent", f.Ord)
		}
		p.unsent = true
	case tree.Revived:
		if !p.blocked && !p.busy {
			a.fail(p.child.session(), "outbox", "entry %d is revived and was neither blocked nor busy", f.Ord)
		}
		p.blocked, p.busy = false, false
	default: // the others do not come here
	}
}
