package spawntest

import (
	"fmt"
	"iter"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A violation is the error of an entry that says what cannot have happened.
type violation struct {
	Seq  session.Seq // of the entry
	Run  session.Key // that it concerns; zero for the tree as a whole
	Rule string      // a short name, such as "one turn at a time"
	What string
}

// Error implements error.
func (v *violation) Error() string {
	return fmt.Sprintf("spawntest: entry %d, %q: %s: %s", v.Seq, v.Run, v.Rule, v.What)
}

// A Report is what an audit has counted. The zero Report is that of an empty journal.
type Report struct {
	Entries, Runs, Turns int
	Epoch                uint64
	Live                 int // runs that have not ended
	Open                 int // turns under way
	Unread               int // completions that wait in an inbox
	Outbox               int // entries of the outbox that have neither arrived nor been dismissed
	Blocked              int // of those, blocked
	Consumed             int // completions that a turn consumed
	Delivered            int // completions and replies that arrived
	Missed               int // completions that ended with what was stopped

	Deposits []session.Key // sessions for which files are put, and that are not admitted
}

// Is reports whether target is [session.ErrCorrupt].
func (v *violation) Is(target error) bool { return target == session.ErrCorrupt }

// Audit walks the journal of one tree, oldest entry first. It returns an error at the first entry
// that says what cannot have happened, and names the entry, the session and the rule. An error that
// entries yields, or an entry that cannot be read, is returned as it is. Any other error is
// [session.ErrCorrupt]. Audit checks that
//
//   - every run that was admitted is alive or has reached exactly one terminal state, by legal
//     steps, for its first cause;
//   - a run that has ended has no live descendant, and a stopped session admits nothing;
//   - turns of a session follow each other, one at a time, and consume each input once;
//   - the end of a child that is told is consumed by exactly one turn, or arrives, is redirected,
//     moves up or ends with what was stopped, once for each run;
//   - no run begins below a session that has ended, and each has an id of its own;
//   - each later run of a session may do what the first one was granted, and works for all for whom
//     the session has worked;
//   - a spawn key gives one run, or another one of the program's if that was cut short;
//   - files that are put for a run are put before it is admitted, once, or are removed;
//   - a name is that of one child of a session at most, and passes on only from one that has ended;
//   - a child gets at most what its parent may delegate, and a model is not replaced silently;
//   - the journal begins with its first entry or with a snapshot;
//   - epochs grow, and no turn outlives the epoch that it began in;
//   - what a turn says before its end has a name of its own, until its inputs are consumed;
//   - a turn that is untouched has no fact of its own, was ended by a shutdown, and does not
//     compact the conversation;
//   - a turn that compacts the conversation consumes nothing and says nothing;
//   - a run announces in a turn once, when it has nothing left to do, and its requester is told
//     then, unless that turn asked for silence;
//   - a conversation is reset between turns, while no child lives, to a session id that it never
//     had, and nothing else moves its committed end back;
//   - each conversation before a reset is put away once, oldest first;
//   - a reply says that it answers the messages that its turn has consumed;
//   - an archive begins when nothing waits for the session, which takes nothing more from then on,
//     and a session that is to be deleted begins nothing;
//   - a session that is brought back was archived, is as it was, below sessions that are alive, and
//     counts nothing twice;
//   - a conversation is bound to a session once at a time, and such a session is not archived;
//   - a message of a conversation comes from where the session is bound;
//   - a turn of a sub-agent answers a conversation or its requester, and never both;
//   - the keys of deliveries begin with the first session id;
//   - a message to another tree has an id, and is in the outbox once;
//   - budgets are reserved within their limits, as far as the journal has them;
//   - a snapshot has what each request was charged;
//   - what turns have used is the same after archives and snapshots;
//   - of a result that is in a file the tree keeps less than all;
//   - a snapshot says what the entries before it say.
//
// A journal that begins with a snapshot is believed that far. Give it [Recorder.History] to check
// the entries that a snapshot has replaced. Audit may run beside an owner.
func Audit(entries iter.Seq2[session.Entry, error]) error {
	_, err := Inspect(entries)
	return err
}

// Inspect is [Audit] that also returns what it has counted, up to the error if there is one.
func Inspect(entries iter.Seq2[session.Entry, error]) (Report, error) {
	return newAuditor().inspect(entries)
}

func newAuditor() *auditor {
	return &auditor{
		runs:   make(map[session.Key]*run),
		keys:   make(map[spawnKey]*run),
		outbox: make(map[uint32]*parcel),
		open:   make(map[*run]uint64),

		requests: make(map[string]uint32),
		left:     make(map[session.Key]*run),
		told:     make(map[messageID]int64),
		charges:  make(map[string]tree.Budget),
	}
}

func (a *auditor) inspect(entries iter.Seq2[session.Entry, error]) (Report, error) {
	for e, err := range entries {
		if err != nil {
			return a.report, err
		}
		f, err := tree.FactOf(e.Payload)
		if err != nil {
			return a.report, err
		}
		a.seq = e.Seq
		if e.Batch != a.batch {
			a.endBatch()
			a.batch = e.Batch
		}
		a.report.Entries++
		a.fact(f)
		if a.first != nil {
			return a.report, a.first
		}
	}
	a.endBatch()
	a.count()
	if a.first != nil {
		return a.report, a.first
	}
	return a.report, nil
}

// AtRest returns an error if something in r has not come to its end: a live run, a turn under way,
// a completion that no turn has consumed, or an entry of the outbox that is not blocked. As the
// archives of sessions, the removal of Deposits is not asked for.
func (r Report) AtRest() error {
	if r.Live+r.Open+r.Unread+r.Outbox-r.Blocked == 0 {
		return nil
	}
	return fmt.Errorf("spawntest: runs live: %d, turns under way: %d, completions unread: %d, "+
		"in the outbox: %d, of those blocked: %d",
		r.Live, r.Open, r.Unread, r.Outbox, r.Blocked)
}

// auditor is the state of a walk.
type auditor struct {
	seq    session.Seq
	batch  session.BatchID
	first  *violation
	report Report

	root         *run
	runs         map[session.Key]*run // in the tree
	keys         map[spawnKey]*run
	outbox       map[uint32]*parcel
	messages     []*message // to other trees, in their order
	out          uint32
	mark         string // of the last repair
	firstSession string // the first session id
	total        uint32
	epoch        uint64
	// treeLimit and requestLimit are what the rules say, see AuditUnder; zero: they are not known.
	treeLimit, requestLimit tree.Budget
	known                   bool // they are

	left    map[session.Key]*run // those that were archived
	told    map[messageID]int64  // until when a message is recognised
	begun   bool                 // some archive has begun with a fact
	partial bool                 // the walk began with a snapshot

	requests map[string]uint32      // runs that models spawned
	charges  map[string]tree.Budget // to requests, also those that the tree has forgotten
	open     map[*run]uint64        // turns under way, and the epoch they began in
}

type spawnKey struct {
	parent  session.Key
	key     string
	byModel bool
}

// run is a session as the auditor sees it.
type run struct {
	spec     *tree.Spec
	parent   *run
	children map[session.Key]*run
	state    tree.State
	cause    tree.Cause
	quiet    bool
	reason   tree.Text
	firstEnd tree.Past // how the first run has ended: its State, Quiet and Reason
	silent   bool      // some turn was silent
	name     string    // what its requester calls it; empty: nothing
	announce bool      // its end is announced although the spawn did not ask for it
	turns    uint32
	started  bool   // a turn has begun, and was not untouched as the first one
	next     uint32 // ordinal of the last input
	consumed uint32
	inbox    []input
	turn     *turn
	wait     *session.Route // where the last wait began, if that is known
	crashes  int            // of turns in a row, shutdowns not counted
	skills   *tree.SkillSet
	kept     tree.Text     // for its Runner
	aside    uint32        // inputs up to it start no turn
	said     []tree.Saying // since inputs were last consumed, without their texts
	reported uint32        // milestones of the run, or of the last turn of the top-level session
	charged  tree.Budget
	used     session.Usage // by its turns
	gone     session.Usage // by runs below it that were archived
	archived int64
	bound    []session.Route
	wroteTo  bool // a conversation that is bound has written to it
	leaving  leaving
	answer   answer
	step     step

	begin *tree.Begin // of the present run; nil: it is the first one
	ends  []*completion

	// Of the top-level session.

	at      string          // the request that it is at
	pos     uint64          // committed end of the conversation
	session string          // the session id
	past    map[string]bool // all session ids that it has had
	former  []string        // those that are still to be archived

	deposits []session.Key // sessions for which files are put

	people []policy.Sender // for whom the session has worked, as far as its runs began with them
}

type input struct {
	ord     uint32
	class   tree.Class
	id      string        // of a message
	from    *completion   // of a completion
	steerer session.Key   // of a steer or a message, or the child of a milestone
	route   session.Route // of a message of a bound conversation
	run     string        // of a milestone, as inputs name it
	mail    bool          // it has more than its text
	thread  bool          // it is of a conversation that is bound to the session
	repair  bool          // it asks for another answer
}

type turn struct {
	n, through uint32
	reserve    tree.Budget
	shutdown   bool
	compact    bool
	step       bool
	parts      []part // of reserve, by request; a compaction has none
	first      bool   // of its run
	cancelled  bool   // by a person
	worked     string // the kind of a fact of its own; empty: it has none
	// wait is where the wait began that the turn has ended, if that is known; zero: it was the
	// requester.
	wait *session.Route
	// empty says that it began without an input; endsWait that it ends a wait that has a place.
	empty, endsWait bool
}

// parcel is an entry of the outbox.
type parcel struct {
	child   *completion // nil: a reply, an event, a message, or an end for a hook
	hook    *completion // the end that a hook is told of; nil: another entry
	event   *string     // the id of an event; nil: another entry
	message *message    // to another tree; nil: another entry
	blocked bool
	busy    bool
	sent    bool // an attempt may have arrived
	unsent  bool // the owner before has noted that none has

	answers []string // messages that a reply answers, beside those of earlier turns
}

// place is where the completion of a run is.
type place uint8

const (
	nowhere place = iota
	inInbox
	inOutbox
	consumed
	delivered
	missed
)

var placeNames = [...]string{
	"not told", "in an inbox", "in the outbox", "consumed", "delivered", "missed",
}

func (a *auditor) fail(r *run, rule, format string, args ...any) {
	if a.first != nil {
		return
	}
	a.first = &violation{Seq: a.seq, Rule: rule, What: fmt.Sprintf(format, args...)}
	if r != nil {
		a.first.Run = r.spec.Key
	}
}

// endBatch checks what must hold between batches: an owner that opens a tree ends the turns of the
// owner before in the same batch.
func (a *auditor) endBatch() {
	for r, epoch := range a.open {
		if epoch != a.epoch {
			a.fail(
				r, "epoch", "turn %d began in epoch %d and is under way in %d", r.turn.n, epoch,
				a.epoch,
			)
		}
	}
}

func (a *auditor) count() {
	a.report.Epoch = a.epoch
	for _, r := range a.runs {
		if r != a.root && !r.state.Terminal() {
			a.report.Live++
		}
		for _, in := range r.inbox {
			if in.class == tree.Completion {
				a.report.Unread++
			}
		}
	}
	a.report.Open = len(a.open)
	if a.root != nil {
		a.report.Deposits = a.root.deposits
	}
	a.report.Outbox = len(a.outbox)
	for _, p := range a.outbox {
		if p.blocked {
			a.report.Blocked++
		}
	}
}

func (a *auditor) fact(f *tree.Fact) {
	if a.epoch == 0 && f.Kind != tree.Snapshot && (f.Kind != tree.Opened || f.Num != 1) {
		a.fail(nil, "first entry", "%v is not what a journal begins with", f.Kind)
	}
	switch f.Kind {
	case tree.Opened:
		a.opened(f)
		return
	case tree.Snapshot:
		a.snapshot(f)
		return
	case tree.Admitted:
		a.admitted(f)
		return
	case tree.ReviveBegun, tree.Unarchived:
		a.revival(f)
		return
	case tree.Delivered, tree.Deferred, tree.Blocked, tree.Revived, tree.Dismissed, tree.Redirected,
		tree.Unsent:
		a.parcel(f)
		return
	case tree.ClockSetBack:
		a.clockSetBack(f)
		return
	case tree.Repaired:
		a.repaired(f)
		return
	case tree.DepositBegun, tree.DepositDropped:
		a.deposit(f)
		return
	default: // the others happened to one session
	}
	r := a.runs[f.Run]
	if r == nil {
		if a.root == nil || f.Run.IsSubagent() {
			a.fail(nil, "known runs", "%v of %q, which is not in the tree", f.Kind, f.Run)
			return
		}
		r = a.top(f.Run)
	}
	a.ofSession(r, f)
}

// ofSession checks a fact that happened to one session.
func (a *auditor) ofSession(r *run, f *tree.Fact) {
	a.mayHappen(r, f.Kind)
	switch f.Kind {
	case tree.Posted:
		a.posted(r, f)
	case tree.TurnStarted:
		a.turnStarted(r, f)
	case tree.Taken, tree.TurnEnded, tree.TurnCancelled, tree.Reserved, tree.ShuttingDown,
		tree.SkillsTaken, tree.Said, tree.Reported, tree.Kept, tree.Heard:
		a.inTurn(r, f)
	case tree.StopRequested:
		a.stopRequested(r, f)
	case tree.RunEnded:
		a.runEnded(r, f)
	case tree.Restarted:
		a.restarted(r, f)
	case tree.Recovered:
		a.recovered(r)
	case tree.Reset:
		a.reset(r, f)
	case tree.PutAway:
		a.putAway(r, f)
	case tree.AnnounceSet:
		a.announceSet(r, f)
	case tree.SetAside:
		a.setAside(r, f)
	case tree.RouteSet:
		if r.turn != nil {
			r.turn.wait = nil
		}
		if r.parent != nil {
			a.fail(r, "routes", "the route of a sub-agent is set")
		}
	case tree.Bound:
		a.bound(r, f)
	case tree.Unbound:
		a.unbound(r, f)
	case tree.ArchiveBegun:
		a.archiveBegun(r)
	case tree.Archived:
		a.archived(r, f)
	case tree.Discarded:
		a.discarded(r)
	case tree.Sent:
		a.writes(r, f)
	case tree.Late:
		if r.turn != nil && r.turn.n == f.N {
			a.fail(r, "late", "turn %d is late although it is under way", f.N)
		}
	default:
		a.fail(r, "known facts", "kind %v", f.Kind)
	}
}

// top returns the top-level session, which no fact admits.
func (a *auditor) top(k session.Key) *run {
	if a.root.spec.Key.IsZero() {
		a.root.spec = &tree.Spec{Key: k, Grant: &tree.Grant{Role: session.RoleMain}}
		a.runs[k] = a.root
	}
	if a.root.spec.Key != k {
		a.fail(nil, "one tree", "%q beside %q", k, a.root.spec.Key)
	}
	return a.root
}

func (a *auditor) opened(f *tree.Fact) {
	if f.Num <= a.epoch {
		a.fail(nil, "epoch", "%d after %d", f.Num, a.epoch)
	}
	a.epoch = f.Num
	for _, p := range a.outbox {
		p.sent, p.unsent = p.sent || !p.unsent, false
	}
	if a.root == nil {
		a.firstSession = f.ID()
		a.root = &run{
			spec:     &tree.Spec{Grant: &tree.Grant{}},
			state:    tree.Waiting,
			children: make(map[session.Key]*run),
			session:  f.ID(),
			past:     map[string]bool{f.ID(): true},
		}
	}
}

func (a *auditor) repaired(f *tree.Fact) {
	if a.root == nil || f.Num <= a.epoch || f.ID() == "" {
		a.fail(nil, "epoch", "%d after %d, repair %q", f.Num, a.epoch, f.ID())
	}
	a.epoch = f.Num
	a.mark = f.ID()
}

// clockSetBack has what was to come begin anew. Of that the auditor looks at spawn keys and at the
// ids of messages.
func (a *auditor) clockSetBack(f *tree.Fact) {
	for m, until := range a.told {
		a.told[m] = min(until, sat.Add(f.At, int64(tree.KeyWindow)))
	}
	if a.root == nil {
		a.fail(nil, "clock", "it is set back before the tree was opened")
	}
	for _, r := range a.keys {
		r.archived = min(r.archived, f.At)
	}
}

func (a *auditor) admitted(f *tree.Fact) {
	s := f.Spec
	p := a.runs[s.Parent]
	if p == nil && a.root != nil && !s.Parent.IsSubagent() {
		p = a.top(s.Parent)
	}
	if p == nil {
		a.fail(nil, "known runs", "%q admits %q and is not in the tree", s.Parent, s.Key)
		return
	}
	r := &run{
		spec: s, parent: p, children: make(map[session.Key]*run), state: tree.Queued, next: 1,
	}
	r.begins("")
	a.grant(p, r)
	a.admitToRequest(p, r)
	a.named(p, r)
	if s.SpawnKey() != "" {
		k := spawnKey{s.Parent, s.SpawnKey(), s.ByModel}
		if old := a.keys[k]; old != nil && (!old.firstEnd.CutShort() || s.ByModel) &&
			(old.archived == 0 || f.At < old.archived+int64(tree.KeyWindow)) {
			a.fail(r, "spawn key", "%q has been given to %q", s.SpawnKey(), old.spec.Key)
		}
		a.keys[k] = r
	}
	for x := p; x != nil; x = x.parent {
		if x.cause != tree.NoCause || x.state.Terminal() {
			a.fail(
				r, "admission", "it was admitted below %q, which is %v (%v)", x.spec.Key, x.state,
				x.cause,
			)
		}
	}
	if a.runs[s.Key] != nil {
		a.fail(r, "known runs", "it was admitted twice")
	}
	a.endDeposit(s.Key)
	a.runs[s.Key], p.children[s.Key] = r, r
	if p.turn != nil {
		p.turn.worked = f.Kind.String()
	}
	a.total++
	a.report.Runs++
}

// grant checks that a child gets no more than its parent has, and what it was asked for.
func (a *auditor) grant(p, r *run) {
	s := r.spec
	a.within(p, r)
	r.worksFor(s.Senders())
	if s.Asked != "" && s.Asked != s.Model && len(s.Warnings) == 0 {
		a.fail(
			r, "model", "%q was asked for, %q chosen, and nothing said about it", s.Asked, s.Model,
		)
	}
	if s.ID == "" || s.SessionID == "" || strings.TrimSpace(string(s.Task)) == "" ||
		s.Created == 0 {
		a.fail(r, "admission", "it lacks an id, a session id, a task or a time")
	}
}

func (a *auditor) posted(r *run, f *tree.Fact) {
	if f.Class == tree.Event && r.parent != nil {
		a.fail(r, "inputs", "a sub-agent is told of an event")
	}
	if f.Flags&tree.FlagOut != 0 {
		a.eventLeaves(r, f)
		return
	}
	switch {
	case f.Ord != r.next+1:
		a.fail(r, "ordinals", "input %d after %d", f.Ord, r.next)
	case r.state.Terminal():
		a.fail(r, "end", "it is told something after its end")
	case f.Class != tree.User && f.Class != tree.Control && f.Class != tree.Event:
		a.fail(r, "inputs", "a post of class %v", f.Class)
	}
	if f.Flags&tree.FlagRepair != 0 {
		a.repair(r, f)
	}
	a.sent(f)
	r.next = f.Ord
	r.inbox = append(r.inbox, a.message(r, f))
}
