package tree

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

const (
	// MaxMilestones is how many milestones a run reports at most, and a turn of a top-level
	// session.
	MaxMilestones = 100
	// MaxMilestone is how long the text of a milestone may be, in runes.
	MaxMilestone = 1000
)

// A Report says that turn N of a session has reached a milestone. It is the command of an InTurn.
type Report struct {
	Run     session.Key
	N       uint32
	Text    Text
	Percent uint8 // of the work that is done; 0: not known
}

// checkReport checks the text of a milestone.
func checkReport(c *Report) error {
	if text.IsBlank(string(c.Text)) {
		return blankError("text", c.Text)
	}
	if n := utf8.RuneCountInString(string(c.Text)); n > MaxMilestone {
		reason := fmt.Sprintf("it has %d characters, the limit is %d", n, MaxMilestone)
		return &InputError{"text", reason}
	}
	return nil
}

// decideReport records a milestone of the turn under way of r. Its requester finds it if it has
// asked for that, unless the caller runs it: then no turn reads an inbox.
func (t *Tree) decideReport(r *Run, c *Report) (Reply, error) {
	if err := checkReport(c); err != nil {
		return Reply{}, err
	}
	switch {
	case c.Percent > 100:
		return Reply{}, &InputError{"percent", fmt.Sprintf("%d: want 0 to 100", c.Percent)}
	case r.Milestones >= MaxMilestones:
		return Reply{}, &LimitError{
			Field: "milestones", Size: int(r.Milestones) + 1, Limit: MaxMilestones,
			Unit: "milestones", Path: "spawn.MaxMilestones",
		}
	}
	f := reported(t.now, r, c)
	if p := r.Parent; p != nil && r.Spec.Milestones && !(p.IsRoot() && t.opt.CallerRun) {
		f.Flags = FlagTell
	}
	t.emit(f)
	return Reply{Run: r}, nil
}

func (t *Tree) applyReported(r *Run, f *Fact) error {
	switch {
	case f.Ord != r.Milestones+1:
		reason := fmt.Sprintf("milestone %d after %d", f.Ord, r.Milestones)
		return &CorruptError{f.Kind, f.Run, reason}
	case f.Flags&FlagTell != 0 && r.IsRoot():
		return &CorruptError{f.Kind, f.Run, "a top-level session has no requester to be told"}
	}
	r.setMilestones(f.Ord)
	if f.Flags&FlagTell != 0 {
		t.postMilestone(r.Parent, f)
	}
	return nil
}

// postMilestone adds a milestone of a child to an inbox, in the place of an earlier one of that
// child which no turn has begun to read. It starts no turn.
func (t *Tree) postMilestone(to *Run, f *Fact) {
	t.dropMilestone(to, f.Run)
	to.NextOrd++
	to.Inbox = append(to.Inbox, Input{
		Ord: to.NextOrd, Class: Milestone, At: f.At, Text: f.Text, From: f.Run,
		Percent: uint8(f.Num), RunID: t.nameOfRun(f.Run),
	})
}

// nameOfRun returns the name of the present run of a session.
func (t *Tree) nameOfRun(k session.Key) string {
	if r := t.find(k); r != nil {
		return r.runName()
	}
	return ""
}

// dropMilestone removes the milestone of a child from an inbox if no turn has begun to read it.
func (t *Tree) dropMilestone(to *Run, child session.Key) {
	read := to.Consumed
	if to.Open != nil {
		read = to.Open.Through
	}
	ofChild := func(in Input) bool {
		return in.Class == Milestone && in.From == child && in.Ord > read
	}
	if slices.ContainsFunc(to.Inbox, ofChild) {
		t.setInbox(to, slices.DeleteFunc(slices.Clone(to.Inbox), ofChild))
	}
}
