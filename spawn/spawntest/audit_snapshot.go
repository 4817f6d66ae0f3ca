package spawntest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

func compareKeys(a, b session.Key) int { return strings.Compare(a.String(), b.String()) }

// snapshot compares a snapshot with the entries before it, or begins with it.
func (a *auditor) snapshot(f *tree.Fact) {
	if a.root == nil {
		a.begin(f.Image())
		return
	}
	m := f.Image()
	if m.Epoch != a.epoch || m.Total != a.total || m.NextOut != a.out {
		a.fail(
			nil, "snapshot", "epoch %d, %d runs, %d entries; the facts say %d, %d, %d", m.Epoch,
			m.Total, m.NextOut, a.epoch, a.total, a.out,
		)
	}
	if got := lastMark(m); got != a.mark {
		a.fail(nil, "snapshot", "the last repair is %q; the facts say %q", got, a.mark)
	}
	if got := cmp.Or(m.FirstSession, m.Runs[0].Spec.SessionID); got != a.firstSession {
		a.fail(nil, "snapshot", "the first session id is %q; the facts say %q", got, a.firstSession)
	}
	there := 0
	for i := range m.Runs {
		s := &m.Runs[i]
		r := a.runs[s.Spec.Key]
		if r == nil && i == 0 {
			r = a.top(s.Spec.Key)
		}
		if r == nil {
			a.fail(nil, "snapshot", "%q is not in the tree", s.Spec.Key)
			return
		}
		there++
		if got, want := describeState(s), r.describe(); got != want {
			a.fail(r, "snapshot", "%s; the facts say %s", got, want)
		}
		a.keepsGrant(r, s)
		used, gone := ledgerOf(s)
		if s.Ledger == nil && s.Active == 0 { // of an earlier library
			r.used, r.gone = used, gone
		}
		if !sameUsage(used, r.used) || !sameUsage(gone, r.gone) {
			a.fail(r, "snapshot", "it has used %+v, and archived runs %+v; the facts say %+v, %+v",
				used, gone, r.used, r.gone)
		}
	}
	if there != len(a.runs) {
		a.fail(nil, "snapshot", "%d sessions; the facts say %d", there, len(a.runs))
	}
	for _, c := range m.Requests {
		if c.ByModel > a.requests[c.Request] {
			a.fail(nil, "snapshot", "models have spawned %d runs for %q; the facts say %d",
				c.ByModel, c.Request, a.requests[c.Request])
		}
	}
	a.checkKeys(m)
	a.sameCharges(m)
	ords := make(map[uint32]bool)
	for _, e := range m.Outbox {
		ords[e.Ord] = true
		if p := a.outbox[e.Ord]; p == nil || p.blocked != (e.Blocked > 0) ||
			p.unsent != e.Unsent || (p.child == nil) != (e.Reply || e.Hook || e.Event || e.Sends) ||
			(p.hook != nil) != e.Hook || (p.event != nil) != e.Event ||
			!p.message.is(e) {
			a.fail(nil, "snapshot", "entry %d of the outbox is not as the facts say", e.Ord)
		} else if n := len(e.InReplyTo) - len(p.answers); n < 0 ||
			!slices.Equal(e.InReplyTo[n:], p.answers) {
			a.fail(nil, "replies", "entry %d answers %q; its turn has read %q", e.Ord, e.InReplyTo,
				p.answers)
		}
	}
	if len(ords) != len(a.outbox) {
		a.fail(
			nil, "snapshot", "%d entries in the outbox; the facts say %d", len(ords), len(a.outbox),
		)
	}
}

// checkKeys checks that what a snapshot has of runs that have left the tree is what has become of
// them.
func (a *auditor) checkKeys(m *tree.Image) {
	for _, s := range m.Spawned {
		r := a.keys[spawnKey{s.Parent, s.Key, s.ByModel}]
		if r == nil || r.spec.Key != s.Run {
			a.fail(nil, "spawn key", "%q is said to be of %q", s.Key, s.Run)
		} else if s.End != nil && s.End.State != r.firstEnd.State {
			a.fail(r, "spawn key", "it is said to have ended %v, and has %v", s.End.State, r.firstEnd.State)
		}
	}
}

// lastMark returns the mark of the last repair, or "".
func lastMark(m *tree.Image) string {
	if n := len(m.Marks); n > 0 {
		return m.Marks[n-1].ID
	}
	return ""
}

func describeState(s *tree.RunState) string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "%v %v turns=%d next=%d consumed=%d charged=%d", s.State, s.Cause, s.Turns, s.NextOrd,
		s.Consumed, s.Charged,
	)
	if s.Aside != 0 {
		fmt.Fprintf(&b, " aside=%d", s.Aside)
	}
	if s.Open != nil {
		fmt.Fprintf(&b, " open=%d/%d %v%v", s.Open.N, s.Open.Through, s.Open.Compact, s.Open.Step)
	}
	if s.Announced != nil {
		fmt.Fprintf(&b, " step silent=%v", s.Announced.Silent)
	}
	for _, in := range s.Inbox {
		fmt.Fprintf(&b, " %d:%v:%s%s:%q:%v%v", in.Ord, in.Class, in.From, in.RunID, in.ID,
			in.Mail != nil, in.Repair)
	}
	for _, x := range s.Said {
		fmt.Fprintf(&b, " said=%d%q%v", x.Num, x.ID, x.Empty)
	}
	if s.Begin != nil {
		fmt.Fprintf(&b, " run=%s from=%s", s.Begin.ID, s.Begin.From)
	}
	if s.Spec.Name() != "" && !s.Unnamed {
		fmt.Fprintf(&b, " called=%s", s.Spec.Name())
	}
	if s.Milestones != 0 {
		fmt.Fprintf(&b, " milestones=%d", s.Milestones)
	}
	if s.Kept != "" {
		fmt.Fprintf(&b, " keeps=%.40q of %d", s.Kept, len(s.Kept))
	}
	if s.Skills != nil {
		fmt.Fprintf(&b, " skills=%v", *s.Skills)
	}
	if s.Spec.Parent.IsZero() {
		fmt.Fprintf(&b, " %s to %d", s.Spec.SessionID, s.Pos)
	}
	for _, x := range s.Former {
		fmt.Fprintf(&b, " former=%s", x.ID)
	}
	for _, x := range s.Deposits {
		fmt.Fprintf(&b, " files of %s", x.Run)
	}
	if s.Announce {
		b.WriteString(" announced")
	}
	if s.Repairs > 0 {
		fmt.Fprintf(&b, " repairs=%d", s.Repairs)
	}
	for _, x := range s.Bound {
		fmt.Fprintf(&b, " bound=%+v", x.Route)
	}
	if s.Archiving != 0 || s.Discard {
		fmt.Fprintf(&b, " leaving=%v,%v", s.Archiving != 0, s.Discard)
	}
	return b.String()
}

func (r *run) describe() string {
	s := tree.RunState{
		State:      r.state,
		Cause:      r.cause,
		Turns:      r.turns,
		NextOrd:    r.next,
		Consumed:   r.consumed,
		Charged:    r.charged,
		Skills:     r.skills,
		Kept:       r.kept,
		Aside:      r.aside,
		Said:       r.said,
		Pos:        r.pos,
		Milestones: r.reported,
		Announce:   r.announce,
		Repairs:    r.answer.repairs,
		Begin:      r.begin,
		Spec: &tree.Spec{
			Parent: r.spec.Parent, SessionID: r.session, SpecMore: &tree.SpecMore{Name: r.name},
		},
	}
	for _, id := range r.former {
		s.Former = append(s.Former, tree.Former{ID: id})
	}
	for _, k := range r.deposits {
		s.Deposits = append(s.Deposits, tree.Deposit{Run: k})
	}
	if s.Discard = r.leaving.to; r.leaving.begun {
		s.Archiving = 1
	}
	for _, route := range r.bound {
		s.Bound = append(s.Bound, tree.Conversation{Route: route})
	}
	if r.turn != nil {
		s.Open = &tree.OpenTurn{
			N: r.turn.n, Through: r.turn.through, Compact: r.turn.compact, Step: r.turn.step,
		}
	}
	if r.step.taken {
		s.Announced = &tree.Announcement{Silent: r.step.silent}
	}
	for _, in := range r.inbox {
		x := tree.Input{
			Ord: in.ord, Class: in.class, ID: in.id, From: in.steerer, RunID: in.run,
			Repair: in.repair,
		}
		if in.mail {
			x.Mail = new(tree.Mail)
		}
		if in.from != nil {
			x.From, x.RunID = in.from.of.spec.Key, in.from.id
		}
		s.Inbox = append(s.Inbox, x)
	}
	return describeState(&s)
}

// ledgerOf returns what the ledger of a session says that it has used, and that runs below it had
// used which were archived. A session of an earlier library has the sum of its turns alone.
func ledgerOf(s *tree.RunState) (used, gone session.Usage) {
	switch {
	case s.Ledger != nil:
	case s.Active == 0:
		return usageOf(s.Usage), gone
	default:
		return used, gone
	}
	r := tree.NewRun(*s)
	r.Expenses(func(x tree.Expense, below bool) {
		if below {
			gone = gone.Add(usageOf(x.Usage))
		} else {
			used = used.Add(usageOf(x.Usage))
		}
	})
	return used, gone
}

// runOf returns a session as a snapshot has it, without those around it.
func runOf(s *tree.RunState) *run {
	r := &run{
		spec:     s.Spec,
		children: make(map[session.Key]*run),
		state:    s.State,
		cause:    s.Cause,
		quiet:    s.Quiet,
		silent:   s.Silent,
		announce: s.Announce,
		turns:    s.Turns,
		started:  s.Started != 0,
		next:     s.NextOrd,
		consumed: s.Consumed,
		charged:  s.Charged,
		crashes:  len(s.Crashes),
		skills:   s.Skills,
		kept:     s.Kept,
		aside:    s.Aside,
		reported: s.Milestones,
		at:       s.Request,
		pos:      s.Pos,
		session:  s.Spec.SessionID,
		past:     map[string]bool{s.Spec.SessionID: true},
		begin:    s.Begin,
	}
	if s.Join != nil {
		r.wait = s.Join.At
	}
	if x := s.Answer; x != nil {
		r.answer = answer{true, x.Text != "", x.Refused() != "", s.Repairs}
	}
	if x := s.Announced; x != nil {
		r.step = step{true, x.Silent}
	}
	r.leaving = leaving{begun: s.Archiving != 0, back: s.Archiving != 0, to: s.Discard}
	if !s.Unnamed {
		r.name = s.Spec.Name()
	}
	r.beginsOf(s)
	r.worksFor(s.Senders)
	r.reason = s.Reason
	if len(s.Past) > 0 {
		r.firstEnd = s.Past[0]
	} else if s.State.Terminal() {
		r.firstEnd = tree.Past{State: s.State, Quiet: s.Quiet, Reason: s.Reason}
	}
	for _, x := range s.Former {
		r.former = append(r.former, x.ID)
		r.past[x.ID] = true
	}
	for _, x := range s.Deposits {
		r.deposits = append(r.deposits, x.Run)
	}
	for _, x := range s.Bound {
		r.bound, r.wroteTo = append(r.bound, x.Route), true
	}
	for _, x := range s.Said {
		r.said = append(r.said, tree.Saying{Num: x.Num, ID: x.ID, Empty: x.Empty})
	}
	r.used, r.gone = ledgerOf(s)
	return r
}

// beginsOf has the runs that a snapshot knows of a session.
func (r *run) beginsOf(s *tree.RunState) {
	begins := func(b *tree.Begin) {
		name := ""
		if r.begin = b; b != nil {
			name = b.ID
		}
		r.begins(name)
	}
	for i := range s.Past {
		begins(s.Past[i].Begin)
	}
	begins(s.Begin)
}

// completion returns that of a run of a session in the tree, or nil.
func (a *auditor) completion(k session.Key, name string) *completion {
	if r := a.runs[k]; r != nil {
		return r.completionOf(name)
	}
	return nil
}

// begin takes a snapshot as the beginning.
func (a *auditor) begin(m *tree.Image) {
	a.epoch, a.total, a.out, a.mark = m.Epoch, m.Total, m.NextOut, lastMark(m)
	a.partial = true
	if len(m.Runs) > 0 {
		a.firstSession = cmp.Or(m.FirstSession, m.Runs[0].Spec.SessionID)
	}
	for i := range m.Runs {
		s := &m.Runs[i]
		r := runOf(s)
		if s.Open != nil {
			r.turn = &turn{
				n: s.Open.N, through: s.Open.Through, reserve: s.Open.Reserve,
				shutdown: s.Open.Shutdown, compact: s.Open.Compact, step: s.Open.Step,
				first:     s.Consumed == 0 || s.Begin != nil && s.Consumed < s.Begin.Ord,
				cancelled: s.TurnCancelled, empty: s.Open.Empty, endsWait: s.Open.Wait != nil,
			}
			r.turnWaits(s)
			r.turn.parts = partsOf(s)
			a.open[r] = a.epoch
		}
		if i == 0 {
			a.root = r
		} else if p := a.runs[s.Spec.Parent]; p != nil {
			r.parent = p
			p.children[s.Spec.Key] = r
			a.within(p, r)
		} else {
			a.fail(nil, "snapshot", "%q stands before its parent", s.Spec.Key)
		}
		if s.Spec.SpawnKey() != "" {
			a.keys[spawnKey{s.Spec.Parent, s.Spec.SpawnKey(), s.Spec.ByModel}] = r
		}
		a.runs[s.Spec.Key] = r
	}
	for i := range m.Runs {
		r := a.runs[m.Runs[i].Spec.Key]
		for _, in := range m.Runs[i].Inbox {
			x := input{
				ord: in.Ord, class: in.Class, id: in.ID, steerer: in.From, mail: in.Mail != nil,
				run: in.RunID, thread: in.Thread, repair: in.Repair,
			}
			if in.Thread && in.Route != nil {
				x.route = *in.Route
			}
			if in.Class == tree.Completion {
				x.from, x.steerer = a.completion(in.From, in.RunID), session.Key{}
				a.move(x.from, nowhere, inInbox)
			}
			r.inbox = append(r.inbox, x)
		}
	}
	a.beginOutbox(m)
	a.beginRequests(m)
	for _, s := range m.Spawned {
		k := spawnKey{s.Parent, s.Key, s.ByModel}
		if a.keys[k] == nil {
			a.keys[k] = &run{
				spec:     &tree.Spec{Key: s.Run, Grant: &tree.Grant{}},
				archived: s.Until - int64(tree.KeyWindow),
			}
			if s.End != nil {
				a.keys[k].firstEnd = *s.End
			}
		}
	}
}

// beginOutbox takes the outbox of the snapshot that a journal begins with.
func (a *auditor) beginOutbox(m *tree.Image) {
	for _, e := range m.Outbox {
		p := &parcel{
			blocked: e.Blocked > 0, busy: e.Busy, sent: e.Tries > 0, unsent: e.Unsent,
			answers: e.InReplyTo,
		}
		switch {
		case e.Hook:
			p.hook = a.completion(e.Run, e.RunID)
		case e.Event:
			p.event = &e.RunID
		case e.Sends:
			p.message = &message{
				from: e.Run, to: e.To, id: e.RunID, text: e.Text, late: e.Late || e.Blocked > 0,
			}
			a.messages = append(a.messages, p.message)
		case !e.Reply:
			p.child = a.completion(e.Run, e.RunID)
			a.move(p.child, nowhere, inOutbox)
		}
		a.outbox[e.Ord] = p
	}
}
