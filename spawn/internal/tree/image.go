package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/session"
)

// An Image is the whole folded state of a tree at one moment, which is what a Snapshot carries. Two
// trees are equal if their images are.
type Image struct {
	Epoch   uint64 `json:"epoch"`
	Total   uint32 `json:"total"`
	NextOut uint32 `json:"nextOut,omitempty"`
	// Runs has parents before children and siblings oldest first. The top-level session is the
	// first.
	Runs   []RunState `json:"runs"`
	Outbox []Entry    `json:"outbox,omitempty"`
	Clocks []Clock    `json:"clocks,omitempty"` // of the destinations that fail
	Marks  []Mark     `json:"marks,omitempty"`  // of repairs of the journal
	// FirstSession is the first session id of the top-level session, if that has another one now.
	FirstSession string     `json:"firstSession,omitempty"`
	Spawned      []Spawned  `json:"spawned,omitempty"`
	Posts        []SeenPost `json:"posts,omitempty"`
	// Requests has those for which models have spawned runs, by name.
	Requests []RequestCount `json:"requests,omitempty"`
}

// Spawned is a spawn key that is still recognised after its run has left the tree.
type Spawned struct {
	Parent  session.Key `json:"parent"`
	Key     string      `json:"key"`
	ByModel bool        `json:"byModel,omitempty"`
	Run     session.Key `json:"run"`
	ID      string      `json:"id"`
	Digest  string      `json:"digest,omitempty"`
	Until   int64       `json:"until"`
	// Spec and End are those of the run, without its task. Nil: an earlier library archived it.
	Spec *Spec `json:"spec,omitempty"`
	End  *Past `json:"end,omitempty"`
}

// SeenPost is the id of a message that has been posted, which is recognised until a time.
type SeenPost struct {
	To    session.Key `json:"to"`
	ID    string      `json:"id"`
	Until int64       `json:"until"`
	RunID string      `json:"runId,omitempty"` // the run that the message began; empty: none
	// At is the conversation that it was said in; nil: an earlier library did not keep it.
	At  *session.Route `json:"at,omitempty"`
	How uint8          `json:"how,omitempty"` // see told
}

// Image returns the state of the tree. The image shares with the tree only what never changes, so
// the caller may keep it.
func (t *Tree) Image() *Image {
	m := &Image{
		Epoch: t.epoch, Total: t.total, NextOut: t.outbox.nextOrd,
		Runs: make([]RunState, 0, t.runs.Len()), Requests: t.requestCounts(),
		Marks: slices.Clone(t.outbox.marks),
	}
	if t.firstSession != t.root.Spec.SessionID {
		m.FirstSession = t.firstSession
	}
	t.Walk(func(r *Run) {
		m.Runs = append(m.Runs, r.state())
	})
	clocks := make(map[*queue]bool)
	t.Outbox(func(e *Entry) {
		c := *e
		c.queue, c.mayRepeat = nil, false
		m.Outbox = append(m.Outbox, c)
		if q := e.queue; q.since > 0 && !clocks[q] {
			clocks[q] = true
			m.Clocks = append(m.Clocks, Clock{e.Ord, q.since})
		}
	})
	for k, ref := range t.spawned {
		if ref.Until > 0 {
			m.Spawned = append(m.Spawned, Spawned{
				Parent: k.parent, Key: k.key, ByModel: k.byModel, Run: ref.Run, ID: ref.ID,
				Digest: ref.Digest, Until: ref.Until, Spec: ref.spec, End: ref.end,
			})
		}
	}
	slices.SortFunc(m.Spawned, func(a, b Spawned) int {
		return cmp.Or(
			compareKeys(a.Parent, b.Parent), cmp.Compare(a.Key, b.Key),
			falseFirst(a.ByModel, b.ByModel),
		)
	})
	m.Posts = t.seenPosts()
	return m
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// state returns the state of r, which shares with it only what never changes.
func (r *Run) state() RunState {
	s := RunState{
		Spec: r.Spec, State: r.State, Cause: r.Cause, Reason: r.Reason, Silent: r.Silent,
		TurnCancelled: r.TurnCancelled, Quiet: r.Quiet, Retry: r.Retry, Crashes: r.Crashes,
		Open: r.Open, Turns: r.Turns, NextOrd: r.NextOrd, Consumed: r.Consumed, Aside: r.Aside,
		Inbox: r.Inbox, Join: r.Join, Missed: r.Missed, Waits: r.Waits, Answer: r.Answer,
		Usage: r.Usage, Charged: r.Charged, Route: r.Route, Pos: r.Pos, Started: r.Started,
		Deadline: r.Deadline, Grace: r.Grace, Ended: r.Ended, ArchiveFrom: r.ArchiveFrom,
		Nonce: r.Nonce, Siblings: r.Siblings, Spawned: r.Spawned, Request: r.Request,
		Steers: r.Steers, Skills: r.Skills, Ledger: r.Ledger, Active: r.Active, Asked: r.Asked,
		Said: r.Said, Home: r.Home, Former: r.Former, Deposits: r.Deposits,
		Milestones: r.Milestones, Kept: r.Kept, Begin: r.Begin, Past: r.Past, Bound: r.Bound,
		Archiving: r.Archiving, Announce: r.Announce, Discard: r.Discard, Repairs: r.Repairs,
		Unnamed: r.Unnamed, Announced: r.Announced, Senders: r.Senders(),
	}
	s.own()
	return s
}

// setState gives r a state, whose memory r takes over. What is derived from it, and what is
// volatile, stays as it is, but for what rare and talk have of that.
func (r *Run) setState(s *RunState) {
	r.Spec, r.State, r.Cause, r.Silent = s.Spec, s.State, s.Cause, s.Silent
	r.TurnCancelled, r.Quiet, r.Retry, r.Open = s.TurnCancelled, s.Quiet, s.Retry, s.Open
	r.Turns, r.NextOrd, r.Consumed, r.Aside = s.Turns, s.NextOrd, s.Consumed, s.Aside
	r.Inbox, r.Join, r.Waits, r.Answer = s.Inbox, s.Join, s.Waits, s.Answer
	r.Charged, r.Route, r.Pos, r.Started = s.Charged, s.Route, s.Pos, s.Started
	r.Deadline, r.Ended, r.Nonce = s.Deadline, s.Ended, s.Nonce
	r.Siblings, r.Spawned, r.Skills = s.Siblings, s.Spawned, s.Skills
	r.Active, r.Announce, r.Discard = s.Active, s.Announce, s.Discard
	r.Repairs, r.Unnamed = s.Repairs, s.Unnamed
	r.spent, r.rare, r.talk = &noSpent, &noRare, &noTalk
	if s.Usage != (Usage{}) || s.Ledger != nil {
		r.spent = &spent{Usage: s.Usage}
		if s.Ledger != nil {
			r.spent.room = *s.Ledger
			r.spent.Ledger = &r.spent.room
		}
	}
	if s.hasRare() {
		r.rare = &rare{
			Reason: s.Reason, Crashes: s.Crashes, Missed: s.Missed, Milestones: s.Milestones,
			ArchiveFrom: s.ArchiveFrom, Archiving: s.Archiving, Grace: s.Grace,
			Steers: s.Steers, Kept: s.Kept, Begin: s.Begin, Past: s.Past, Bound: s.Bound,
			Announced: s.Announced, Deposits: s.Deposits,
		}
	}
	if s.hasTalk() {
		r.talk = &talk{
			Request: s.Request, Asked: s.Asked, Said: s.Said, Home: s.Home, Former: s.Former,
		}
	}
	r.setSenders(s.Senders)
}

func (s *RunState) hasRare() bool {
	return s.Reason != "" || s.Crashes != nil || s.Missed != 0 || s.Milestones != 0 ||
		s.ArchiveFrom != 0 || s.Archiving != 0 || s.Grace != 0 || s.Steers != nil ||
		s.Kept != "" || s.Begin != nil || s.Past != nil || s.Bound != nil ||
		s.Announced != nil || s.Deposits != nil
}

func (s *RunState) hasTalk() bool {
	return s.Request != "" || s.Asked != nil || s.Said != nil || s.Home != nil ||
		s.Former != nil
}

// own gives a copy of a state memory of its own for what facts change in place.
func (s *RunState) own() {
	s.Inbox = slices.Clone(s.Inbox)
	s.Past, s.Bound = slices.Clone(s.Past), slices.Clone(s.Bound)
	if s.Join != nil {
		j := *s.Join
		s.Join = &j
	}
	if s.Open != nil {
		o := *s.Open
		o.startedIn = 0
		s.Open = &o
	}
	if s.Spec.Parent.IsZero() { // applyOpened changes the specification of the top-level session
		spec := *s.Spec
		s.Spec = &spec
	}
	s.Ledger = s.Ledger.clone()
}

// applySnapshot folds a Snapshot. While a journal is read, the fact has an image, which becomes the
// state of the tree. When the tree itself decides a Snapshot, the fact has none yet: the tree
// forgets the keys and ids that have expired, makes days of usage that is old, and fills the image
// in.
func (t *Tree) applySnapshot(f *Fact) error {
	t.sinceSnapshot, t.textSince, t.textSeen = 0, 0, 0
	if f.Image() != nil {
		return t.restore(f)
	}
	t.forgetExpired(f.At)
	t.coarsen(f.At)
	f.Own().Image = t.Image()
	return nil
}

// forgetExpired removes the spawn keys and message ids that are no longer recognised at now.
func (t *Tree) forgetExpired(now int64) {
	for k, ref := range t.spawned {
		if ref.Until > 0 && ref.Until <= now {
			delete(t.spawned, k)
			t.reindexKey(k)
		}
	}
	t.forgetPosts(now)
}

// restore sets the state of a new tree to the image of a Snapshot, and derives everything that is
// kept beside that state. It returns a *CorruptError for what cannot be the image of a tree.
func (t *Tree) restore(f *Fact) error {
	m := f.Image()
	if t.epoch != 0 || t.runs.Len() != 1 {
		return &CorruptError{f.Kind, t.root.Key(), "a snapshot that is not the first fact"}
	}
	t.epoch, t.total, t.outbox.nextOrd = m.Epoch, m.Total, m.NextOut
	t.outbox.marks = slices.Clone(m.Marks)
	if len(m.Runs) == 0 || m.Runs[0].Spec == nil || m.Runs[0].Spec.Key != t.root.Key() {
		reason := "the top-level session is not the first in the image"
		return &CorruptError{f.Kind, t.root.Key(), reason}
	}
	t.firstSession = cmp.Or(m.FirstSession, m.Runs[0].Spec.SessionID)
	t.runs, t.names = few.WithRoom[session.Key, *Run](len(m.Runs)), nil
	var runs slab[Run]
	for i := range m.Runs {
		if err := t.restoreRun(runs.next(), &m.Runs[i], i == 0); err != nil {
			return err
		}
	}
	if err := t.restoreOutbox(m); err != nil {
		return err
	}
	for _, s := range m.Spawned {
		k := spawnKey{s.Parent, s.Key, s.ByModel}
		few.Put(&t.spawned, k, spawnRef{s.Run, s.ID, s.Digest, s.Until, s.Spec, s.End})
	}
	t.restorePosts(m.Posts)
	t.restoreRequests(m)
	t.Walk(func(r *Run) {
		r.recount()
		if r.Open != nil {
			r.nameReaders()
			r.consumeOpen()
		}
		for i := range r.Inbox {
			if in := &r.Inbox[i]; in.Class == Completion {
				t.holdCompletion(in.From, in.RunID)
			}
		}
	})
	t.Walk(t.armTimer)
	return nil
}

// restoreOutbox adds the entries of the outbox and the failure clocks of their destinations. Of an
// image of version 1, which has no clocks, they begin with the first failure of what is pending.
func (t *Tree) restoreOutbox(m *Image) error {
	for i := range m.Outbox {
		e := m.Outbox[i]
		if i > 0 && e.Ord <= m.Outbox[i-1].Ord {
			reason := fmt.Sprintf("entry %d of the outbox after %d", e.Ord, m.Outbox[i-1].Ord)
			return &CorruptError{Snapshot, t.root.Key(), reason}
		}
		since := e.Since
		e.Since = 0
		t.enqueue(&e)
		if q := e.queue; since > 0 && e.Blocked == 0 && (q.since == 0 || since < q.since) {
			q.since = since
		}
		t.holdEntry(&e, 1)
	}
	for _, c := range m.Clocks {
		e := t.outbox.entries[c.Ord]
		if e == nil {
			reason := fmt.Sprintf("a clock of the entry %d, which is not in the outbox", c.Ord)
			return &CorruptError{Snapshot, t.root.Key(), reason}
		}
		e.queue.since = c.Since
	}
	return nil
}

// restoreRun adds one session of an image, which keeps what it has, as r. The requester of the
// session must have been added before.
func (t *Tree) restoreRun(r *Run, s *RunState, top bool) error {
	switch {
	case s.Spec == nil || s.Spec.Grant == nil:
		return &CorruptError{Snapshot, t.root.Key(), "a run without its specification"}
	case s.State >= states || s.Cause >= causes:
		return &CorruptError{Snapshot, s.Spec.Key, "an unknown state or cause"}
	}
	kept := *s
	kept.own()
	if kept.WasAsked != nil { // without its conversation
		kept.Asked = []Asked{*kept.WasAsked}
		if !top {
			kept.Asked[0].Route = kept.Route
		}
	}
	if shared := t.root.Spec.Grant; top && kept.Spec.Grant.equal(shared) {
		kept.Spec.Grant = shared // own made the Spec
	}
	r.key = s.Spec.Key
	r.setState(&kept)
	for i := range r.Past {
		r.Past[i].held, r.Past[i].keptRequest = 0, false
	}
	if r.Ledger == nil { // an earlier library kept the sum alone
		model := Text(r.Spec.Model)
		if r.Answer != nil {
			model = cmp.Or(r.Answer.Model, model)
		}
		r.enterUsage(model, cmp.Or(r.Ended, r.Started, r.Spec.Created), r.Usage)
	}
	known := t.runs.Len()
	if t.runs.Set(r.Spec.Key, r); top {
		t.root = r
	} else {
		p := t.find(r.Spec.Parent)
		if p == nil || t.runs.Len() == known {
			reason := "its requester is not in the image, or it is there twice"
			return &CorruptError{Snapshot, s.Spec.Key, reason}
		}
		p.addChild(r)
		if !s.State.Terminal() {
			p.live++
			t.live++
			if s.Cause != NoCause {
				p.stopping++
			}
		}
		if s.Spec.SpawnKey() != "" {
			few.Put(&t.spawned, keyOf(s.Spec), refOf(s.Spec))
		}
		if err := t.restoreName(r, Snapshot); err != nil {
			return err
		}
	}
	if s.Open != nil {
		t.turns++
	}
	return nil
}

// consumeOpen takes the inputs of the turn under way off the counts of unread inputs. The turn had
// not consumed them when recount counted.
func (r *Run) consumeOpen() {
	through := r.Open.Through
	r.Open.Through = r.Consumed
	r.consume(through)
	r.Open.Through = through
}

// Bulky reports whether the log is so much longer than a snapshot would be that a snapshot is worth
// writing: it has many more facts, or much more text.
//
// A key or an id that a snapshot keeps only because of KeyWindow counts as one fact, not as four: a
// chat adds one such id with every three or four facts, and only a snapshot forgets them.
func (t *Tree) Bulky() bool {
	return t.sinceSnapshot > 1000 &&
		t.sinceSnapshot > 4*(t.runs.Len()+len(t.outbox.entries))+len(t.spawned)+t.posts.Len() ||
		t.wordy()
}

// maxText is how many bytes of text a log may have before a snapshot is thought of. A message may
// have a million, and a chat few facts.
const maxText = 8 << 20

// wordy reports whether the log has much more text than a snapshot would have. To find that out, it
// looks at each session. It does so again when there is twice as much text, or when a good part of
// it was read since, which costs little for each message.
func (t *Tree) wordy() bool {
	if t.textSince < max(maxText, 2*t.textSeen) {
		return false
	}
	if t.textSince > 4*t.text() {
		return true
	}
	t.textSeen = t.textSince
	return false
}

// forgetText notes that a snapshot would have less text than before.
func (t *Tree) forgetText(n int) { t.textSeen = max(0, t.textSeen-2*n) }

// textOf returns how many bytes of text a fact has, as far as texts can be long.
func textOf(f *Fact) int {
	n := len(f.Text) + f.Answer.text()
	if f.Spec != nil {
		n += len(f.Spec.Task)
	}
	return n
}

func (a *Result) text() int {
	if a == nil {
		return 0
	}
	return len(a.Text) + len(a.JSON) + len(a.Fallback) + len(a.Reply)
}

// text returns how many bytes of text a snapshot would have, as far as texts can be long.
func (t *Tree) text() (n int) {
	for _, r := range t.runs.All() {
		n += len(r.Spec.Task) + r.Answer.text()
		for i := range r.Inbox {
			n += len(r.Inbox[i].Text)
		}
	}
	for i := range t.outbox.entries {
		n += len(t.outbox.entries[i].Text)
	}
	return n
}
