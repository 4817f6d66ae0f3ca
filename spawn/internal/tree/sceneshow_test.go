package tree

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// showUsage prints what every session has used, and when it was last active.
func (s *scene) showUsage() string {
	var b strings.Builder
	s.tree.Walk(func(r *Run) {
		at := time.Unix(0, r.LastActive()).UTC()
		fmt.Fprintf(&b, "%s active %s\n", r.Key(), at.Format("2006-01-02 15:04"))
		r.Expenses(func(x Expense, gone bool) {
			who, start := "it", x.Middle.Add(-x.Length/2)
			if gone {
				who = "gone below it"
			}
			fmt.Fprintf(&b, "  %s as %s with %q from %s for %v: %d\n", who, x.Agent, x.Model,
				start.Format("2006-01-02 15:04"), x.Length, x.Usage.Input)
		})
	})
	return strings.NewReplacer(s.replace...).Replace(b.String())
}

// show prints where every session stands, the outbox, and when the tree wants to be looked at.
func (s *scene) show() string {
	var b strings.Builder
	s.tree.Walk(func(r *Run) {
		fmt.Fprintf(&b, "%s%s %v", strings.Repeat("  ", r.Spec.Depth), r.Key(), r.State)
		if r.Cause != NoCause {
			fmt.Fprintf(&b, " (%v: %s)", r.Cause, r.Reason)
		}
		b.WriteString(runsOf(r))
		if r.Answer != nil && r.Answer.Text != "" {
			fmt.Fprintf(&b, " %s", quoteShort(r.Answer.Text))
		}
		b.WriteString(announcedBy(r))
		if n := r.nUser + r.nComp + r.nControl; n > 0 {
			fmt.Fprintf(&b, " unread %d", n)
		}
		if r.Join != nil {
			fmt.Fprintf(&b, " waits for %d%s", r.Join.Left, waitsIn(r))
		}
		if k := r.Skills; k != nil {
			fmt.Fprintf(&b, " skills %v of version %s", k.Skills, k.Version)
		}
		b.WriteString(owedBy(r))
		b.WriteString(saidBy(r))
		if r.Pos > 0 {
			fmt.Fprintf(&b, " to position %d", r.Pos)
		}
		for _, x := range r.Former {
			fmt.Fprintf(&b, " puts %s away at %d", x.ID, x.Pos)
		}
		b.WriteString(milestonesOf(r))
		if r.IsRoot() && r.Route != nil {
			b.WriteString(" at " + wordsOf(r.Route))
		}
		b.WriteString(laterOf(r))
		if r.Charged.Tokens > 0 {
			fmt.Fprintf(&b, " charged %d", r.Charged.Tokens)
		}
		b.WriteByte('\n')
	})
	b.WriteString(s.requests())
	s.tree.Outbox(func(e *Entry) {
		fmt.Fprintf(&b, "entry %d to %s tries %d%s", e.Ord, e.To, e.Tries, forHook(e))
		if e.Blocked > 0 {
			b.WriteString(" blocked")
		}
		if e.Late {
			b.WriteString(" late")
		}
		if e.MayRepeat() && e.Tries == 0 {
			b.WriteString(" may repeat")
		}
		if mark := s.tree.MarkOf(e.Ord); mark != "" {
			b.WriteString(" of " + mark)
		}
		if len(e.InReplyTo) > 0 {
			fmt.Fprintf(&b, " answers %s", strings.Join(e.InReplyTo, " "))
		}
		for k, v := range e.Meta {
			fmt.Fprintf(&b, " with %s:%s", k, v)
		}
		if e.Reply && e.Route != nil {
			b.WriteString(" at " + wordsOf(e.Route))
		}
		b.WriteByte('\n')
	})
	b.WriteString(keptOf(s.tree))
	switch due := s.tree.Due(); {
	case due.IsZero():
		b.WriteString("due never\n")
	case due.UnixNano() <= s.now:
		b.WriteString("due now\n")
	default:
		fmt.Fprintf(&b, "due in %s\n", time.Duration(due.UnixNano()-s.now))
	}
	return strings.NewReplacer(s.replace...).Replace(b.String())
}

// announcedBy says what the announce step of a run has come to.
func announcedBy(r *Run) string {
	x := r.Announced
	switch {
	case x == nil:
		return ""
	case x.Silent:
		return " announces silent"
	}
	return " announces " + quoteShort(x.Text)
}

// forHook says whose end an entry of the outbox is for the hook.
func forHook(e *Entry) string {
	switch {
	case e.Update:
		return " for people, of " + cmp.Or(e.RunID, e.Run.ID()) + " at " + wordsOf(e.Route)
	case e.Event:
		return " event " + e.RunID
	case e.Sends:
		return fmt.Sprintf(" from %s, message %s for %d", e.Run, e.RunID, len(e.Senders))
	case !e.Hook:
		return ""
	}
	return " for the hook, of " + cmp.Or(e.RunID, e.Run.ID())
}

// keptOf says what has become of runs with a key that have left the tree.
func keptOf(t *Tree) string {
	var b strings.Builder
	for _, kept := range t.Image().Spawned {
		if end := kept.End; end != nil {
			fmt.Fprintf(&b, "key %s gives %s, which ended %v", kept.Key, kept.Run, end.State)
			if end.Answer != nil && end.Answer.Text != "" {
				fmt.Fprintf(&b, " %s", quoteShort(end.Answer.Text))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// requests says what requests have been charged, if they have a budget.
func (s *scene) requests() string {
	var b strings.Builder
	if BudgetOf(s.rules.RequestBudget).Limited() {
		for _, c := range s.tree.requestCounts() {
			fmt.Fprintf(&b, "request %s charged %d in %d turns\n", c.Request, c.Charged.Tokens,
				c.Charged.Turns)
		}
	}
	return b.String()
}

// laterOf says what has been decided on a session since its spawn.
func laterOf(r *Run) string {
	var b strings.Builder
	for _, c := range r.Bound {
		b.WriteString(" bound to " + wordsOf(&c.Route))
	}
	if r.Announce {
		b.WriteString(" announced")
	}
	for _, d := range r.Deposits {
		fmt.Fprintf(&b, " files of %s", d.Run)
	}
	return b.String()
}

func runsOf(r *Run) string {
	var b strings.Builder
	if r.Begin != nil {
		fmt.Fprintf(&b, " run %s after", r.Begin.ID)
		for i := range r.Past {
			fmt.Fprintf(&b, " %s", cmp.Or(r.Past[i].name(), "the first"))
		}
	}
	sep := " for "
	for _, who := range r.Senders() { // most messages of scenarios do not say whose they are
		if who.ID != "" {
			b.WriteString(sep + who.ID)
			sep = ","
		}
	}
	return b.String()
}

// milestonesOf says how a session is called, how many milestones it has reported, and which it has
// not read.
func milestonesOf(r *Run) string {
	var b strings.Builder
	if name := r.Name(); name != "" {
		b.WriteString(" called " + name)
	}
	if r.Milestones > 0 {
		fmt.Fprintf(&b, " milestones %d", r.Milestones)
	}
	if r.Kept != "" {
		b.WriteString(" keeps " + quoteShort(r.Kept))
	}
	for _, in := range r.Inbox {
		if in.Class == Milestone {
			fmt.Fprintf(&b, " input %d of %s %s", in.Ord, in.From, quoteShort(in.Text))
		}
	}
	return b.String()
}

// waitsIn returns where the wait of a session is answered, if that is not where it answered last.
func waitsIn(r *Run) string {
	if at := r.Join.At; at != nil && *at != *cmp.Or(r.Route, &session.Route{}) {
		return " to answer in " + wordsOf(at)
	}
	return ""
}

// saidBy returns what a turn of r has said that will be repeated.
func saidBy(r *Run) string {
	var b strings.Builder
	for _, x := range r.Said {
		fmt.Fprintf(&b, " said %d%s %s", x.Num, x.ID, quoteShort(x.Text))
		if x.Empty {
			b.WriteString(" to end a wait")
		}
	}
	return b.String()
}

// owedBy says which messages of r wait for an answer.
func owedBy(r *Run) (words string) {
	for _, a := range r.Asked {
		words += " owes " + strings.Join(a.IDs, " ")
		if a.Route != nil {
			words += " at " + wordsOf(a.Route)
		}
		if a.At != nil && !a.At.IsZero() {
			words += " in " + wordsOf(a.At)
		}
	}
	return words
}
