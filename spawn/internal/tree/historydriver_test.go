package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// do decides one command, does its effects, and checks.
func (d *driver) do(c Command) error {
	var before *Image
	if _, spawn := c.(*Spawn); spawn {
		before = d.tree.Image()
	}
	d.before = make(map[uint32]*Entry)
	d.tree.Outbox(func(e *Entry) { x := *e; d.before[e.Ord] = &x })
	stopped := d.tree.root.Cause == Stopped
	reply, err := d.tree.Decide(d.seeded(c), d.now)
	facts, effects := d.tree.Take()
	refused := err != nil && len(facts) == 0
	fmt.Fprintf(&d.trace, "%T %v\n", c, err)
	d.count(c, err, facts)
	if s, ok := c.(*Spawn); ok && err == nil && !reply.Existing && !s.Dry {
		d.keys = append(d.keys, reply.Ref)
	}
	if s, ok := c.(*Spawn); ok && err == nil && !reply.Existing && s.Deposits {
		d.deposits = append(d.deposits, *s)
	}
	for i := range facts {
		fmt.Fprintf(&d.trace, " %v\n", &facts[i])
		if err := d.inOrder(&facts[i]); err != nil {
			return fmt.Errorf("after %T: %w", c, err)
		}
		if a := facts[i].Answer; a != nil {
			d.used += a.Usage.Input
		}
	}
	for _, e := range effects {
		fmt.Fprintf(&d.trace, " -> %v %d\n", e.Kind, e.Ord)
		if err := d.act(e); err != nil {
			return fmt.Errorf("after %T: %w", c, err)
		}
	}
	if err := d.log.append(facts); err != nil {
		return err
	}
	if err := d.checkBatch(facts); err != nil {
		return fmt.Errorf("after %T: %w", c, err)
	}
	if err := d.checkSenders(c, facts); err != nil {
		return fmt.Errorf("after %T: %w", c, err)
	}
	if err := d.checkUpdates(facts, stopped); err != nil {
		return fmt.Errorf("after %T: %w", c, err)
	}
	d.commands++
	// A comparison reads the whole journal.
	if !d.again && (d.commands%8 == 0 || len(d.data) == 0 && d.commands%50 == 0) {
		if err := d.log.check(d.tree); err != nil {
			return fmt.Errorf("after %T: %w", c, err)
		}
	}
	if refused && before != nil {
		if diff := sameImage(before, d.tree.Image()); diff != nil {
			return fmt.Errorf("%T was refused (%w) and changed something: %w", c, err, diff)
		}
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("after %T at %v: %w", c, time.Duration(d.now), err)
	}
	return nil
}

func (d *driver) act(e Effect) error {
	switch e.Kind {
	case EffectAskSlot:
		if d.asked[e.Run.Key()] && !(e.Run.IsRoot() && e.Run.ForPeople()) {
			return fmt.Errorf("%s asks twice", e.Run.Key())
		}
		d.asked[e.Run.Key()] = true
	case EffectFreeSlot:
		if d.slots[e.Run.Key()]--; d.slots[e.Run.Key()] < 0 {
			return fmt.Errorf("%s gives back a slot that it has not", e.Run.Key())
		}
	case EffectStartTurn:
		d.started[e.Run.Key()] = e.Ord
		delete(d.told, e.Run.Key())
	case EffectCancelTurn:
		d.told[e.Run.Key()] = true
	case EffectDeliver:
		if d.inFlight(e.Ord) {
			return fmt.Errorf("entry %d is handed over twice", e.Ord)
		}
		entry := d.tree.Entry(e.Ord)
		if entry == nil { // it was taken back in the same command
			return nil
		}
		if slices.Contains(d.hung, e.Ord) {
			return fmt.Errorf("entry %d is handed over while its call hangs", e.Ord)
		}
		d.flying = append(d.flying, entry)
	case EffectRecall:
		d.flying = slices.DeleteFunc(d.flying, func(x *Entry) bool {
			return x.Destination() == *e.To
		})
	case EffectDrop:
		if slices.Contains(d.dropping, e.Deposit.Run) {
			return fmt.Errorf("the files of %s are removed twice", e.Deposit.Run)
		}
		if d.tree.Run(e.Deposit.Run) != nil {
			return fmt.Errorf("the files of %s are removed, which is there", e.Deposit.Run)
		}
		d.dropping = append(d.dropping, e.Deposit.Run)
	case EffectArchive:
		d.archived[e.Run.Key()] = true
		return d.keepRecord(e.Run)
	case EffectRestore:
		d.restoring[e.Run.Key()] = true
	case EffectUnbind:
		for _, u := range d.unbindings {
			if u.run == e.Run.Key() {
				return fmt.Errorf("%s has two conversations unbound at once", u.run)
			}
		}
		d.unbindings = append(d.unbindings, unbinding{e.Run.Key(), e.To.Route, e.ID})
	}
	return nil
}

func (d *driver) inFlight(ord uint32) bool {
	return slices.ContainsFunc(d.flying, func(e *Entry) bool { return e.Ord == ord })
}

// childrenAlive counts the children that have not ended, and of those the ones that nothing has
// told to.
func childrenAlive(r *Run) (all, working int) {
	for c := r.firstChild; c != nil; c = c.nextSibling {
		if c.State.Terminal() {
			continue
		}
		if all++; c.Cause == NoCause {
			working++
		}
	}
	return all, working
}

// check looks for work that was left undone and for what must never be.
func (d *driver) check() (err error) {
	t := d.tree
	fail := func(r *Run, format string, args ...any) {
		if err == nil {
			what := fmt.Sprintf(format, args...)
			err = fmt.Errorf("%s (%v, %v): %s", r.Key(), r.State, r.Cause, what)
		}
	}
	t.Walk(func(r *Run) {
		open, terminal := r.Open != nil, r.State.Terminal()
		below, working := childrenAlive(r)
		held := d.slots[r.Key()]
		switch {
		case below != r.Live():
			fail(r, "%d live children, counted %d", below, r.live)
		case working != r.Working():
			fail(r, "%d children that nothing has told to end, counted %d", working, r.Working())
		case terminal && (open || below > 0):
			fail(r, "it has ended with a turn or a live child")
		case held != 0 && !open, open && held != 1:
			fail(r, "it holds %d slots, turn under way: %v", held, open)
		case open != (r.State == Running || open && r.State == Stopping):
			fail(r, "turn under way: %v", open)
		case r.wantsTurn(t.now) && t.turnForbiddenBy(r, requestOf(r)) == "" && !d.asked[r.Key()] &&
			!(r.Discard && len(r.Bound) > 0): // it goes on when they are unbound
			fail(r, "it wants a turn and the lane was not asked")
		case r.Cause != NoCause && open && !d.told[r.Key()]:
			fail(r, "its turn is not cancelled")
		case r.Cause != NoCause && !open && below == 0 && !terminal:
			fail(r, "it is to end and does not")
		case !r.IsRoot() && !terminal && !open && r.Join == nil && below == 0 && r.Turns > 0 &&
			!r.wantsTurn(t.now) && !(r.Spec.Step && r.Announced == nil && d.asked[r.Key()]):
			fail(r, "it has nothing left to do and does not end")
		}
	})
	var used int64
	t.Walk(func(r *Run) {
		own := Usage{}
		r.Expenses(func(x Expense, gone bool) {
			if used += x.Usage.Input; !gone {
				own = own.add(x.Usage)
			}
		})
		if own != r.Usage && len(r.Past) == 0 && !d.revived[r.Key()] {
			fail(r, "its ledger has %v, its turns used %v", own, r.Usage)
		}
	})
	if err == nil && used != d.used {
		err = fmt.Errorf("the ledger has %d, the turns used %d", used, d.used)
	}
	t.Outbox(func(e *Entry) {
		next := e.Blocked == 0 && e.queue.pending[0] == e
		if err == nil && next && !d.inFlight(e.Ord) && t.NextWake() == 0 {
			err = fmt.Errorf("entry %d comes next and has no timer", e.Ord)
		}
	})
	for _, x := range t.root.Deposits {
		held := slices.ContainsFunc(d.deposits, func(c Spawn) bool { return c.ID == x.Run.ID() })
		if err == nil && !held && !slices.Contains(d.dropping, x.Run) && t.NextWake() == 0 {
			err = fmt.Errorf("the files of %s are to be removed and it has no timer", x.Run)
		}
	}
	if err == nil && t.root.mayPutAway() && t.NextWake() == 0 {
		err = fmt.Errorf("%v is to be archived and has no timer", t.root.Former)
	}
	if err == nil && t.Due().IsZero() && (t.live > 0 || t.outbox.pending > 0) {
		const format = "no owner is wanted although %d runs live and %d entries wait"
		err = fmt.Errorf(format, t.live, t.outbox.pending)
	}
	if err == nil {
		err = d.checkSessions()
	}
	return err
}

// rest does everything that is asked for until nothing is, waiting where the tree waits.
func (d *driver) rest() error {
	for i := 0; ; i++ {
		if i > 2000 {
			last := d.trace.String()[max(0, d.trace.Len()-2000):]
			return fmt.Errorf("it does not come to rest: %s", last)
		}
		busy, err := d.work()
		if err != nil {
			return err
		}
		if busy {
			continue
		}
		at := d.tree.NextWake()
		if at == 0 {
			break
		}
		d.now = max(d.now, at)
		if err := d.do(Tick{}); err != nil {
			return err
		}
	}
	if n := d.tree.Live(); n > 0 {
		return fmt.Errorf("%d runs never end", n)
	}
	if pending, _ := d.tree.Undelivered(); pending > 0 {
		return fmt.Errorf("%d entries never arrive", pending)
	}
	if err := d.log.check(d.tree); err != nil {
		return err
	}
	if !d.tree.Due().IsZero() || !d.tree.Idle() {
		t := d.tree
		return fmt.Errorf("at rest it is due %v, idle %v, %d archives, %d unbinds, wants %v",
			t.Due(), t.Idle(), t.archiving, len(t.unbinding), t.root.wantsTurn(t.now))
	}
	return d.checkRest()
}

// work does one round of what is asked for, in the order of the keys.
func (d *driver) work() (busy bool, err error) {
	for _, k := range append([]session.Key(nil), d.keys...) {
		r := d.tree.Run(k)
		switch {
		case d.asked[k]:
			busy, err = true, d.grant(k)
		case r != nil && r.Open != nil:
			answer := &Result{Text: "end"}
			if r.Repairs > 0 { // what is refused twice is refused for good
				answer.Own().Refused = "not what was asked for"
			}
			busy, err = true, d.do(&TurnDone{Run: k, N: r.Open.N, Answer: answer})
		case d.restoring[k]:
			busy, err = true, d.restored(k, false)
		case d.archived[k] && r != nil:
			delete(d.archived, k)
			done := ArchiveDone{Run: k}
			if k == top && len(r.Former) > 0 {
				done.Session = r.Former[0].ID
			}
			busy, err = true, d.do(done)
		}
		if err != nil {
			return true, err
		}
	}
	for len(d.deposits) > 0 && err == nil {
		busy, err = true, d.deposited(0)
	}
	for len(d.dropping) > 0 && err == nil {
		busy, err = true, d.dropped(false)
	}
	for len(d.flying) > 0 && err == nil {
		ord := d.flying[0].Ord
		d.flying = d.flying[1:]
		busy, err = true, d.do(&Settle{Ord: ord})
	}
	for len(d.unbindings) > 0 && err == nil {
		busy, err = true, d.unbound(0)
	}
	for len(d.hung) > 0 && err == nil {
		ord := d.hung[0]
		d.hung = d.hung[1:]
		late := &Settle{Ord: ord, More: d.hungMore[ord], Error: "it was late"}
		busy, err = true, d.do(late)
	}
	for _, ord := range d.tree.outbox.ords() {
		if e := d.tree.Entry(ord); err == nil && e.Blocked > 0 {
			busy, err = true, d.do(Dismiss{Ord: ord})
		}
	}
	if err != nil {
		return true, err
	}
	return busy, nil
}

func sameImage(a, b *Image) error {
	x, err := json.Marshal(a)
	if err != nil {
		return err
	}
	y, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("%s\n%s", x, y)
	}
	return nil
}
