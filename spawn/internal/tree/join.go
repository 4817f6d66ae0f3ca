package tree

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Join says what a session waits for: that all members end, that Need of them end well, or that a
// time comes, whichever is first. It serves a session that yields as well as a caller that waits.
// The zero value is ready.
type Join struct {
	// Keys are the members, sorted. In a command, empty means every child that is alive when the
	// join begins. In a fact it means that none was, or, if an earlier library wrote the fact,
	// every child, also one that is spawned later.
	Keys []session.Key `json:"keys,omitempty"`
	// Runs has the id of the run of each of the Keys; empty: the first one of each.
	Runs  []string `json:"runs,omitempty"`
	Need  uint32   `json:"need,omitempty"`  // this many must end well; 0: all must end
	Until int64    `json:"until,omitempty"` // Unix nanoseconds; 0: no such time
	// Within is the wait from its beginning to Until, in nanoseconds. A join of version 1 lacks it.
	Within int64 `json:"within,omitempty"`
	// ByModel says that a model chose Within, see [Tree.ModelWait]. It is not set without a Within.
	ByModel bool   `json:"byModel,omitempty"`
	Rest    Rest   `json:"rest,omitempty"` // of members that have not ended when it is over
	Left    uint32 `json:"left"`           // members that have not ended
	Good    uint32 `json:"good"`           // members that have ended well
	// Senders are the people for whom the top-level session waits.
	Senders []policy.Sender `json:"senders,omitempty"`
	// At is where the turn answered that began the wait, and where the one answers that the wait
	// begins; zero: the requester of a sub-agent. Nil: where the last turn did, as in a journal of
	// an earlier library.
	At *session.Route `json:"at,omitempty"`
	// Passed says that a turn for another place has begun since the wait was over.
	Passed bool `json:"passed,omitempty"`
}

// A Rest says what becomes of the members of a join that have not ended when it is over. The
// journal holds the numbers, which never change.
type Rest uint8

const (
	RestKeep     Rest = iota // they go on
	RestStop                 // they are stopped
	RestAnnounce             // their requesters are told of their ends
)

// The time for which a model may have a session wait is at least firstWait. It doubles with each
// such wait, up to lastWait, until the session reads an input or a child of it ends. Else a model
// that asks for a moment each time would be called, and would speak to people, without an end.
const (
	firstWait = time.Second
	lastWait  = 10 * time.Minute
)

// ModelWait returns how long r waits, at most, if a model asks for the time within, in nanoseconds.
// Zero is a wait without such a time.
func (t *Tree) ModelWait(r *Run, within int64) int64 {
	if within <= 0 {
		return 0
	}
	least := lastWait
	if r.Waits < 16 { // beyond, a shift would overflow
		least = min(firstWait<<r.Waits, lastWait)
	}
	return max(within, int64(least))
}

// Count records that one member has ended in the terminal state end.
func (j *Join) Count(end State) {
	if j.Left > 0 {
		j.Left--
	}
	if end == OK {
		j.Good++
	}
}

// Ready reports whether the wait is over at the time now, in Unix nanoseconds.
func (j *Join) Ready(now int64) bool {
	switch {
	case j.Left == 0:
		return true
	case j.Enough():
		return true
	}
	return j.Until > 0 && now >= j.Until
}

// Enough reports whether as many members have ended well as were asked for.
func (j *Join) Enough() bool { return j.Need > 0 && j.Good >= j.Need }

// Woke returns the wait that the turn of r under way has ended, with how many of its members have
// ended, and how many of those r was told of. It returns nil if the turn has ended none, or if that
// is not known any more.
func (t *Tree) Woke(r *Run) (wait *Join, ended, told int) {
	if r.woke == nil {
		return nil, 0, 0
	}
	for i, k := range r.woke.Keys {
		c := t.find(k)
		if c == nil || c.Parent != r {
			continue
		}
		of, known := c.RunOf(r.woke.run(i))
		if !known || !of.State.Terminal() {
			continue
		}
		ended++
		if t.toldOf(c, &of) {
			told++
		}
	}
	return r.woke, ended, told
}

// toldOf reports whether the session that c was spawned from is told of the end of a run of c.
func (t *Tree) toldOf(c *Run, of *Past) bool {
	if of.Begin == c.Begin {
		return t.tellsRequester(c, of.State) && t.requester(c) == c.Parent
	}
	announces := of.Announce || c.Spec.Announce
	if b := of.Begin; b != nil {
		announces = of.Announce || b.Announce
		if b.From.IsValid() && b.From != c.Parent.Key() {
			return false
		}
	}
	return announces && !of.Quiet && !(of.State == OK && of.Silent)
}

// run returns the name of the run of the member i.
func (j *Join) run(i int) string {
	if i < len(j.Runs) {
		return j.Runs[i]
	}
	return ""
}

// names reports whether a run of the child k is a member by its key.
func (j *Join) names(k session.Key, run string) bool {
	i, found := slices.BinarySearchFunc(j.Keys, k, compareKeys)
	for ; found && i < len(j.Keys) && j.Keys[i] == k; i++ {
		if j.run(i) == run {
			return true
		}
	}
	return false
}

// contains reports whether a run of the child k is a member.
func (j *Join) contains(k session.Key, run string) bool {
	return len(j.Keys) == 0 || j.names(k, run)
}

// A joinMember is a run of a child that a session waits for.
type joinMember struct {
	key session.Key
	run string // its name
}

func compareMembers(a, b joinMember) int {
	return cmp.Or(compareKeys(a.key, b.key), strings.Compare(a.run, b.run))
}

// setMembers sets the members of w. They have no names of runs if all are first ones, as in the
// journals of version 1.
func (j *Join) setMembers(list []joinMember) {
	slices.SortFunc(list, compareMembers)
	list = slices.Compact(list)
	j.Keys, j.Runs = nil, nil
	later := slices.ContainsFunc(list, func(m joinMember) bool { return m.run != "" })
	for _, m := range list {
		j.Keys = append(j.Keys, m.key)
		if later {
			j.Runs = append(j.Runs, m.run)
		}
	}
}

// asked returns the members of a join that r asks for: a member without the id of a run is the
// present one of that child.
func (j *Join) asked(t *Tree) []joinMember {
	list := make([]joinMember, 0, len(j.Keys))
	for i, k := range j.Keys {
		m := joinMember{key: k}
		if c := t.find(k); c != nil {
			m.run = c.runName()
			if id := j.run(i); id != "" {
				m.run = c.nameOf(id)
			}
		}
		list = append(list, m)
	}
	return list
}

// compareKeys orders keys by their text, which is the order of Join.Keys.
func compareKeys(a, b session.Key) int { return strings.Compare(a.String(), b.String()) }

// start returns the join as it stands when r begins to wait. Members that have ended before count
// too, so that a child that ends between the check and the wait does no harm. The runs are fixed
// from then on: a later run of the same session does not count.
func (j *Join) start(r *Run, t *Tree) *Join {
	w := &Join{Need: j.Need, Within: j.Within, Rest: j.Rest}
	if j.ByModel {
		w.Within = t.ModelWait(r, j.Within)
		w.ByModel = w.Within > 0
	}
	if w.Within > 0 {
		w.Until = sat.Add(t.now, w.Within)
	}
	if len(j.Keys) == 0 {
		w.startAll(r, t)
		return w
	}
	w.setMembers(j.asked(t))
	for i, k := range w.Keys {
		c := t.find(k)
		if c == nil || c.Parent != r {
			continue
		}
		switch of, known := c.RunOf(w.run(i)); {
		case !known:
		case !of.State.Terminal():
			w.Left++
		case of.State == OK:
			w.Good++
		}
	}
	return w
}

// startAll makes every run of a child of r that is alive a member. Those that ended well and that r
// has not read of count as well.
func (j *Join) startAll(r *Run, t *Tree) {
	after := r.Consumed
	if r.Open != nil {
		after = r.Open.Through
	}
	j.Left = uint32(r.live)
	for i := range r.Inbox {
		in := &r.Inbox[i]
		if in.Class != Completion || in.Ord <= after {
			continue
		}
		if c := t.find(in.From); c != nil {
			if of, ok := c.RunOf(in.RunID); ok && of.State == OK {
				j.Good++
			}
		}
	}
	// Members that ended during the turn without being told of are not in the inbox.
	if j.Need > 0 && r.Open != nil {
		for _, end := range t.endedInTurn[r] {
			if of, untold := t.untold(end); untold && of.State == OK {
				j.Good++
			}
		}
	}
	if r.live == 0 {
		return
	}
	list := make([]joinMember, 0, r.live)
	left := r.live
	r.Newest(func(c *Run) bool { // those that are alive are among the newest, mostly
		if !c.State.Terminal() {
			list = append(list, joinMember{c.Key(), c.runName()})
			left--
		}
		return left > 0
	})
	j.setMembers(list)
}

// An endNote is the end of a run of a child.
type endNote struct {
	child *Run
	run   string // its name
	found bool   // by a spawn with its key, see noteKnownEnd
}

// untold returns the run of an end, and whether the session that the child was spawned from is not
// told of it.
func (t *Tree) untold(end endNote) (Past, bool) {
	if end.child.gone {
		return Past{}, false
	}
	of, known := end.child.RunOf(end.run)
	return of, known && !t.toldOf(end.child, &of)
}

// waitsAt returns the At of a wait that the turn of r under way begins. A sub-agent that waits for
// the sake of its requester goes on doing so when a person asks it something aside.
func (r *Run) waitsAt() *session.Route {
	before, own := r.Join, r.Join != nil && (r.Join.At == nil || r.Join.At.IsZero())
	switch {
	case r.IsRoot():
		return r.Route
	case own && r.asideOfRun(r.Inbox, r.Open.Through):
		return before.At
	case r.answersPeople(r.Inbox, r.Open.Through):
		return r.Route
	case r.inThread():
		return new(session.Route)
	}
	return nil
}

// waitsForPeople reports whether r waits for the sake of people.
func (r *Run) waitsForPeople() bool {
	return r.Join != nil && r.Join.At != nil && !r.Join.At.IsZero()
}

// waitPlace returns where the turn answers that the wait of r begins, whose At is known.
func (r *Run) waitPlace() place {
	at := *r.Join.At
	if !r.IsRoot() {
		people := !at.IsZero()
		return place{people: people, bound: people, route: at}
	}
	return place{people: true, bound: r.converses(at), route: at}
}

// endsWait reports whether a turn that begins now and reads the inputs up to an ordinal ends the
// wait of r: that is over, and what the turn reads is of the place of the wait.
func (t *Tree) endsWait(r *Run, through uint32) bool {
	switch j := r.Join; {
	case j == nil || !j.Ready(t.now):
		return false
	case j.At == nil:
		return !r.asideOfRun(r.Inbox, through)
	}
	for ord, to := range t.places(r) {
		return ord > through || r.waitPlace().takes(to)
	}
	return true
}

// endedWait returns the wait of r that a turn has ended which f has started, or nil.
func (r *Run) endedWait(f *Fact) *Join {
	j := r.Join
	if j == nil || !j.Ready(f.At) || (j.At == nil) != (f.Route == nil) ||
		j.At == nil && r.asideOfRun(r.Inbox, f.Ord) {
		return nil
	}
	return j
}

// waitIsNext reports whether the next turn of r is the one that a wait begins, whatever is unread:
// what is over has been passed once, and nothing that is to be read is of its place.
func (t *Tree) waitIsNext(r *Run) bool {
	j := r.Join
	if r.Open != nil || j == nil || j.At == nil || !j.Passed || !j.Ready(t.now) {
		return false
	}
	for _, to := range t.places(r) {
		if r.waitPlace().takes(to) {
			return false
		}
	}
	return true
}

// answerWait has the turn of r that has ended a wait answer where that began.
func (r *Run) answerWait(at *session.Route) {
	switch {
	case r.IsRoot():
		r.turnTo(at, r.converses(*at), false)
	case !at.IsZero():
		r.Route = at
	}
}

// waitAgain has r come back to the wait that a turn had ended which has done nothing or crashed.
func (r *Run) waitAgain(open *OpenTurn) {
	if open.Wait == nil {
		return
	}
	j := *open.Wait
	j.Left, j.Passed = 0, true // it is over, whatever the clock says
	r.Join = &j
}

// restReason is why a run is stopped that is left over when a wait is over.
const restReason = "no longer needed"

// endWait does with the members that have not ended what the wait of r asks for, if it is over. The
// fact that ends the wait is of the same command: so r is either shown that a member has ended, or
// told of its end, and not both.
func (t *Tree) endWait(r *Run) {
	j := r.Join
	if j == nil || j.Rest == RestKeep || !j.Ready(t.now) {
		return
	}
	for i, k := range j.Keys {
		c := t.find(k)
		if c == nil || c.Parent != r || c.State.Terminal() || c.runName() != j.run(i) {
			continue
		}
		switch {
		case j.Rest == RestAnnounce:
			t.announce(c)
		case j.Rest == RestStop && c.Cause == NoCause:
			t.emit(stopRequested(t.now, c, Stopped, restReason, t.graceEnd(), 0))
		}
	}
}

// announce has the requester of a run that has not ended told of its end, if it is not anyway.
func (t *Tree) announce(r *Run) {
	if !r.announces() {
		t.emit(announceSet(t.now, r))
	}
}

// decideAnnounceRest has the requesters told of the ends of those runs that have not ended. What
// the reply says of the runs is how they stand at this moment: of a command that is decided in the
// same batch it says nothing.
func (t *Tree) decideAnnounceRest(c AnnounceRest) (Reply, error) {
	reply := Reply{Stood: make([]*Run, len(c.Keys))}
	for i, k := range c.Keys {
		r := t.find(k)
		if r == nil {
			continue
		}
		if !r.IsRoot() && !r.State.Terminal() && r.RunID() == c.Runs[i] {
			t.announce(r)
		}
		stood, state := *r, r.state()
		stood.setState(&state)
		reply.Stood[i] = &stood
	}
	return reply, nil
}

func (t *Tree) applyAnnounceSet(r *Run, f *Fact) error {
	switch {
	case r.IsRoot() || r.State.Terminal():
		return &CorruptError{f.Kind, f.Run, "it has ended, or is a top-level session"}
	case f.ID() != r.RunID():
		return &CorruptError{f.Kind, f.Run, "it is at another run than " + text.Quote(f.ID())}
	case r.announces():
		return &CorruptError{f.Kind, f.Run, "its end is announced already"}
	}
	r.Announce = true
	return nil
}

// missedEnd reports whether a child that r asks to wait for ended during the turn under way and its
// end was not told to r, or was found by the turn. The turn may have ended for the sake of that
// member, so r must not wait: it makes no difference whether a member ends just before or just
// after the turn.
func (t *Tree) missedEnd(r *Run, asked *Join) bool {
	members := asked.asked(t)
	return slices.ContainsFunc(t.endedInTurn[r], func(end endNote) bool {
		_, untold := t.untold(end)
		return (untold || end.found) && (len(members) == 0 ||
			slices.Contains(members, joinMember{end.child.Key(), end.run}))
	})
}

// noteEnd notes that the child c of r has ended, if that was during the turn of r that is under
// way. An end in the batch that started the turn is not one: c had ended when the Runner was
// called. The times of the two do not matter, because the clock may be set back during a turn.
func (t *Tree) noteEnd(r, c *Run) {
	if r.Open != nil && t.batches > r.Open.startedIn {
		t.noteEndOf(r, endNote{child: c, run: c.runName()})
	}
}

// foundSpawn returns what a spawn of r comes to whose key names a run that is known.
func (t *Tree) foundSpawn(r *Run, by *Spawn, ref spawnRef) Reply {
	if by.Turn > 0 {
		t.noteKnownEnd(r, ref)
	}
	return Reply{Run: t.find(ref.Run), Ref: ref.Run, ID: ref.ID, Existing: true}
}

// noteKnownEnd notes a spawn by the turn of r under way that has found a run of r which has ended,
// as that of a turn does that a crash has cut short: to who asks, the run ends now. A turn that
// began to end a wait notes none, so that a Runner that spawns and yields in every turn comes to
// rest.
func (t *Tree) noteKnownEnd(r *Run, ref spawnRef) {
	c := t.find(ref.Run)
	if r.Open == nil || r.Open.Empty && !r.Retry || c == nil || c.Parent != r {
		return
	}
	if of, known := c.RunOf(ref.ID); known && of.State.Terminal() {
		t.noteEndOf(r, endNote{child: c, run: ref.ID, found: true})
	}
}

func (t *Tree) noteEndOf(r *Run, end endNote) {
	if t.endedInTurn == nil {
		t.endedInTurn = make(map[*Run][]endNote)
	}
	if !slices.Contains(t.endedInTurn[r], end) {
		t.endedInTurn[r] = append(t.endedInTurn[r], end)
	}
}
