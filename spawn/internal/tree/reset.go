package tree

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Former is a conversation that a top-level session had before a reset. It is kept until its
// transcript and its files are archived, so that a crash at any moment leaves that to the next
// owner.
type Former struct {
	ID  string `json:"id"`            // the session id
	Pos uint64 `json:"pos,omitempty"` // committed end of the transcript
	Ord uint32 `json:"ord,omitempty"` // the last input that came before the reset
	At  int64  `json:"at"`            // of the reset
}

// wishes are what callers wait for, by the ids of their commands. They are volatile: a caller does
// not outlive the owner.
type wishes struct {
	restart    []string          // session ids
	named      map[string]string // ids of the messages that ask for a restart, by its session id
	compact    []string
	compacting []string // the turn under way is for them
}

// wish returns the wishes of r, for changes: most runs never have any.
func (r *Run) wish() *wishes {
	if r.wishes == nil {
		r.ownTalk().wishes = new(wishes)
	}
	return r.wishes
}

// A ChildrenError refuses a reset of a session that has Live sub-agents which have not ended: their
// results belong to the conversation that would be put away.
type ChildrenError struct {
	Session session.Key
	Live    int // children of the Session; what is below them is not counted
}

func (e *ChildrenError) Error() string {
	return fmt.Sprintf("spawn: resetting %q: %s not ended: stop them, or wait for them", e.Session,
		text.Count(e.Live, "sub-agent has", "sub-agents have"))
}

// answerAll tells callers what their wishes have come to.
func (t *Tree) answerAll(ids *[]string, err error) {
	for _, id := range *ids {
		t.effect(Effect{Kind: EffectAnswer, ID: id, Err: err})
	}
	*ids = nil
}

// wisher returns the top-level session k, for a command that doing says.
func (t *Tree) wisher(k session.Key, doing string) (*Run, error) {
	r := t.find(k)
	switch {
	case r == nil:
		return nil, fmt.Errorf("%w: %s %q", ErrNotFound, doing, k)
	case !r.IsRoot():
		return nil, fmt.Errorf("%w: %s %q", ErrNotTopLevel, doing, k)
	}
	return r, nil
}

// withdraw removes the wish of a caller that no longer waits.
func withdraw(ids []string, id string) []string {
	return slices.DeleteFunc(ids, func(x string) bool { return x == id })
}

// decideRestart has settle reset a session as soon as no turn is under way and the session is not
// being stopped. One reset is the answer to all who wait for one.
func (t *Tree) decideRestart(c Restart) (Reply, error) {
	r, err := t.wisher(c.Run, "resetting")
	switch {
	case err != nil:
		return Reply{}, err
	case c.Withdraw:
		r.wish().restart = withdraw(r.wish().restart, c.SessionID)
		delete(r.wish().named, c.SessionID)
		return Reply{Run: r}, nil
	}
	known, err := t.resetKnown(c)
	switch {
	case err != nil:
		return Reply{}, err
	case known:
		t.answerAll(&[]string{c.SessionID}, nil)
		return Reply{Run: r, Existing: true}, nil
	case r.live > 0 && r.Cause == NoCause:
		return Reply{}, &ChildrenError{r.Key(), r.Live()}
	}
	r.wish().restart = append(r.wish().restart, c.SessionID)
	if c.ID != "" {
		if r.wish().named == nil {
			r.wish().named = make(map[string]string)
		}
		r.wish().named[c.SessionID] = c.ID
	}
	t.touch(r)
	return Reply{Run: r}, nil
}

// resetKnown reports whether a reset that a message asks for has been.
func (t *Tree) resetKnown(c Restart) (bool, error) {
	if c.ID == "" {
		return false, nil
	}
	return t.postKnown(c.Run, c.ID, origin{at: c.Run.Route().Clean()})
}

// settleRestart resets a session that has no turn under way if a caller waits for that, or the
// session is to be put away. It reports whether it has, or does when its conversations are unbound.
// A turn may have spawned a child meanwhile: then the callers are refused.
func (t *Tree) settleRestart(r *Run) bool {
	switch {
	case (r.wishes == nil || len(r.wishes.restart) == 0) && !(r.IsRoot() && r.Discard):
		return false
	case r.live > 0:
		t.answerAll(&r.wish().restart, &ChildrenError{r.Key(), r.Live()})
		r.wish().named = nil
		return false
	case r.Discard && len(r.Bound) > 0:
		return true
	}
	if len(r.wish().restart) > 0 {
		id := r.wish().restart[0]
		for _, x := range r.wish().restart { // one with a message makes that known
			if r.wish().named[x] != "" {
				id = x
				break
			}
		}
		t.emit(reset(t.now, r, id, r.wish().named[id]))
	} else {
		t.emit(reset(t.now, r, t.newSessionID(), ""))
	}
	t.answerAll(&r.wish().restart, nil)
	r.wish().named = nil
	return true
}

// applyReset begins a new conversation. What has not been read stays in the inbox. Turns and inputs
// are counted on, so that no name that is made of their numbers comes again.
func (t *Tree) applyReset(r *Run, f *Fact) error {
	known := func(x Former) bool { return x.ID == f.ID() }
	switch old := r.Spec.SessionID; {
	case !r.IsRoot():
		return &CorruptError{f.Kind, f.Run, "a sub-agent has one conversation"}
	case r.Open != nil || r.live > 0 || r.Cause != NoCause:
		return &CorruptError{f.Kind, f.Run, "it has a turn or a child that is alive, or is to end"}
	case string(f.Text) != old:
		return &CorruptError{f.Kind, f.Run, "it does not have the session id " + text.Quote(string(f.Text))}
	case f.ID() == "" || f.ID() == old || slices.ContainsFunc(r.Former, known):
		return &CorruptError{f.Kind, f.Run, "it has had the session id " + text.Quote(f.ID())}
	default:
		r.ownTalk().Former = append(slices.Clip(r.Former), Former{old, r.Pos, r.NextOrd, f.At})
	}
	spec := *r.Spec
	spec.SessionID = f.ID()
	r.Spec = &spec
	r.Pos, r.Answer, r.Silent, r.Skills, r.Active = 0, nil, false, nil, f.At
	r.setKept("") // it was of the conversation before
	r.Discard = false
	if f.Begin() != nil && f.Begin().ID != "" {
		t.notePost(&Fact{At: f.At, Run: f.Run, FactMore: &FactMore{ID: f.Begin().ID}}, "")
	}
	t.armTimer(r)
	return nil
}

// mayPutAway reports whether nothing but time keeps the oldest former conversation from being
// archived: files of messages that came before the reset and are still to be read are in it.
func (r *Run) mayPutAway() bool {
	if len(r.Former) == 0 || r.archiving {
		return false
	}
	return !slices.ContainsFunc(r.Inbox, func(in Input) bool {
		return in.Ord <= r.Former[0].Ord && in.Mail.hasFiles()
	})
}

// hasFiles reports whether m, which may be nil, names files of the session's transcript.
func (m *Mail) hasFiles() bool {
	return m != nil && slices.ContainsFunc(m.Parts, func(p session.Part) bool {
		return !p.File.IsZero()
	})
}

// settleFormer has the oldest former conversation archived.
func (t *Tree) settleFormer(r *Run) {
	if r.mayPutAway() && t.archiveRetries[r].at <= t.now {
		r.archiving = true
		t.archiving++
		t.addEffect(EffectArchive, r, 0)
	}
}

// decidePutAway forgets a former conversation that has been archived. If archiving failed, it is
// tried again, as that of a run is.
func (t *Tree) decidePutAway(c ArchiveDone) {
	r := t.find(c.Run)
	switch {
	case r == nil || len(r.Former) == 0 || r.Former[0].ID != c.Session:
	case !c.Failed:
		t.emit(putAway(t.now, r, c.Session))
	case r.archiving:
		t.retryArchive(r)
	}
}

func (t *Tree) applyPutAway(r *Run, f *Fact) error {
	if len(r.Former) == 0 || r.Former[0].ID != f.ID() {
		return &CorruptError{f.Kind, f.Run, "it does not wait to be archived: " + text.Quote(f.ID())}
	}
	if r.archiving {
		r.archiving = false
		t.archiving--
	}
	delete(t.archiveRetries, r)
	if r.ownTalk().Former = r.Former[1:]; len(r.Former) == 0 {
		r.ownTalk().Former = nil
	}
	t.armTimer(r)
	return nil
}

// decideCondense has settle ask for a slot for a turn that compacts the conversation.
func (t *Tree) decideCondense(c Condense) (Reply, error) {
	r, err := t.wisher(c.Run, "compacting")
	switch {
	case err != nil:
		return Reply{}, err
	case c.Withdraw:
		if slices.Contains(r.wish().compact, c.ID) {
			r.wish().compact = withdraw(r.wish().compact, c.ID)
			t.answerAll(&[]string{c.ID}, ErrTurnCancelled) // the session may be idle now
		}
		return Reply{Run: r}, nil
	case r.Open == nil:
		err = t.compactForbidden(r)
	}
	if err != nil {
		return Reply{}, err
	}
	r.wish().compact = append(r.wish().compact, c.ID)
	t.touch(r)
	return Reply{Run: r}, nil
}

// compactForbidden returns why a session cannot compact its conversation now, or nil.
func (t *Tree) compactForbidden(r *Run) error {
	if r.Pos == 0 {
		return fmt.Errorf("%w: %q", ErrNothing, r.Key())
	}
	if what := t.turnForbiddenBy(r, ""); what != "" {
		return fmt.Errorf("%w: %s", ErrBudget, what)
	}
	return nil
}

// startCompaction starts the turn that callers wait for, in the slot that r was granted. It reports
// whether it has. Such a turn comes before the one over the inputs.
func (t *Tree) startCompaction(r *Run) bool {
	if !r.wantsCompaction() {
		return false
	}
	if err := t.compactForbidden(r); err != nil {
		t.answerAll(&r.wish().compact, err)
		return false
	}
	r.slot = true
	f := turnStarted(t.now, r, r.Consumed, 0, t.reserve(r, ""))
	f.Flags = FlagCompact
	t.emit(f)
	r.wish().compacting, r.wish().compact = r.wish().compact, nil
	t.addEffect(EffectStartTurn, r, 0)
	return true
}

// endCompaction records what a turn that compacts has come to. Of what its Runner returned there
// is what it used: it says nothing to people.
func (t *Tree) endCompaction(r *Run, c *TurnDone) {
	f := turnEnded(t.now, r, OK, nil, FlagCompact, c.Pos, nil)
	if a := c.Answer; a != nil {
		f.Answer = a.usageAlone()
	}
	var err error
	switch {
	case r.TurnCancelled || r.Cause != NoCause:
		f.State, err = Cancelled, ErrTurnCancelled
	case c.Failed != "":
		f.State, f.Text, err = Failed, Text(c.Failed), cmp.Or(c.Err, errors.New(c.Failed))
	case c.Compacted == 0:
		err = fmt.Errorf("%w: %q", ErrNothing, r.Key())
	default:
		f.Ord = c.Compacted
	}
	t.endTurn(r, f)
	t.answerAll(&r.wish().compacting, err)
}

// applyCompacted folds the end of a turn that compacts. It has read nothing, so that nothing is
// consumed, answered, or repeated after a crash.
func (t *Tree) applyCompacted(r *Run, f *Fact) error {
	open := r.Open
	r.Open, r.Active = nil, f.At
	r.setGrace(0)
	t.work().spareTurns.Keep(open)
	delete(t.endedInTurn, r)
	delete(t.reached, r)
	t.turns--
	t.chargeEnd(r, open, f)
	r.Pos = max(r.Pos, f.Num)
	if f.Answer != nil {
		r.recordUsage(f.Answer, f.At)
	}
	if r.State == Running {
		if err := r.transition(Waiting); err != nil {
			return err
		}
	}
	t.armTimer(r)
	return nil
}
