package tree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// What a driver does with sessions that outlive their runs: messages of bound conversations, later
// runs, archives that come back, sessions that are deleted.

// An unbinding is one that the Executor was asked for.
type unbinding struct {
	run    session.Key
	route  session.Route
	reason string
}

// conversation returns one of a few.
func (d *driver) conversation() session.Route {
	return session.Route{Channel: "irc", To: "room" + string('a'+rune(d.byte()%3))}
}

// session does one thing of those that sessions are there for.
func (d *driver) session(what byte) error {
	switch what % 10 {
	case 0:
		return d.do(&Bind{Run: d.ended(), Route: d.conversation()})
	case 1:
		c := &Unbind{Run: d.ended(), Route: d.conversation(), Reason: "manual"}
		if r := d.tree.Run(c.Run); r != nil && len(r.Bound) > 0 {
			c.Route = r.Bound[0].Route
		}
		if err := d.do(c); err != nil || what&16 == 0 {
			return err
		}
		return d.post(c.Run, what)
	case 2, 3:
		c := &Post{To: d.key(), ID: "m" + string('a'+rune(what>>5)), Text: "there", RunID: d.id()}
		route := d.conversation()
		if r := d.tree.Run(c.To); r != nil && len(r.Bound) > 0 && what&16 != 0 {
			route = r.Bound[0].Route
		}
		if c.Route, c.Thread = &route, true; what&32 != 0 {
			c.Own = top
		}
		return d.do(c)
	case 4:
		c := &Spawn{
			Parent: d.alive(), ID: d.id(), Task: "work", Announce: what&16 != 0,
			Delete: what&32 != 0, Dry: what>>6 == 3,
		}
		if c.Dry {
			return d.deposit(c, what)
		}
		if what>>6 == 1 || what>>6 == 2 {
			route := d.conversation()
			c.Thread, c.Bind, c.Session = true, &route, what>>6 == 1
			c.Delete = c.Delete && !c.Session
		}
		return d.do(c)
	case 5:
		switch { // each ends a great deal
		case what < 64:
			return d.stop()
		case what < 96:
			return d.do(&Discard{Run: d.key(), Reason: "deleted"})
		}
		return d.post(d.ended(), what)
	case 6:
		return d.revive(what)
	case 7:
		k := d.key()
		c := AnnounceRest{Keys: []session.Key{k}, Runs: []string{""}}
		if r := d.tree.Run(k); r != nil && !r.IsRoot() {
			c.Runs[0] = r.RunID()
		}
		return d.do(c)
	}
	return d.unbound(what)
}

// deposit begins a deposit, or goes on with one.
func (d *driver) deposit(c *Spawn, what byte) error {
	if len(d.deposits) > 0 && what&16 == 0 {
		return d.deposited(d.byte())
	}
	if len(d.dropping) > 0 && what&8 == 0 {
		return d.dropped(what&16 != 0)
	}
	if what&32 != 0 {
		c.Key = "f" + strconv.Itoa(int(d.byte()%4))
	}
	c.Files, c.Deposits = what&4 == 0, what&4 == 0
	return d.do(c)
}

// deposited lets the caller that began the oldest deposit spawn, or leave.
func (d *driver) deposited(how byte) error {
	c := d.deposits[0]
	if how%4 != 3 {
		c.Dry, c.Deposits = false, false
		if err := d.do(&c); err != nil {
			return err
		}
	}
	d.deposits = d.deposits[1:]
	return d.do(Abandon{ID: c.ID})
}

// dropped lets the Executor say what the removal of files has come to.
func (d *driver) dropped(failed bool) error {
	c := DropDone{Run: d.dropping[0], Failed: failed}
	d.dropping = d.dropping[1:]
	return d.do(c)
}

// seeded gives a command a random number that no other one has.
func (d *driver) seeded(c Command) Command {
	n := uint64(d.commands) << 16
	switch c := c.(type) {
	case *Open:
		c.Rand += n
	case *TurnDone:
		c.Rand += n
	case *Settle:
		c.Rand += n
	case *Stop:
		c.Rand += n
	case *Discard:
		c.Rand += n
	case CancelTurn:
		c.Rand += n
		return c
	case Tick:
		c.Rand += n
		return c
	}
	return c
}

// unbound lets the Executor answer for a conversation.
func (d *driver) unbound(how byte) error {
	if len(d.unbindings) == 0 {
		return nil
	}
	u := d.unbindings[0]
	d.unbindings = d.unbindings[1:]
	return d.do(&UnbindDone{
		Run: u.run, Route: u.route, Reason: Text(u.reason), Failed: how&64 != 0,
	})
}

// revive brings back a session that is archived, or tries to.
func (d *driver) revive(how byte) error {
	k := d.keyOf(func(k session.Key) bool { return d.records[k] != nil && d.tree.Run(k) == nil })
	record := d.records[k]
	if record == nil {
		return nil
	}
	line, err := record.AppendJSON(nil)
	if err != nil {
		return err
	}
	state, err := DecodeFact(line)
	if err != nil {
		return err
	}
	c := &Revive{State: state}
	d.revived[k] = true
	was := d.tree.Run(k) != nil
	if !was && d.asked[k] { // the lane still has a ticket from before
		if err := d.grant(k); err != nil {
			return err
		}
	}
	if err := d.do(c); err != nil || was {
		return err
	}
	r := d.tree.Run(k)
	if r == nil {
		return nil // it was refused
	}
	s := &record.Image().Runs[0]
	if r.Spec.SpawnKey() != s.Spec.SpawnKey() {
		delete(d.records, k) // it has another one now
	}
	switch {
	case r.State != s.State || r.Turns != s.Turns || r.NextOrd != s.NextOrd || r.Pos != s.Pos ||
		len(r.Past) != len(s.Past) || r.RunID() != NewRun(*s).RunID():
		return fmt.Errorf("%s comes back as %+v, it was %+v", k, r.state(), s)
	case r.IsBack() || !r.leaves():
		return fmt.Errorf("%s is back before its archive has been restored", k)
	case how >= 128: // later, or after a crash
		return d.post(k, how)
	}
	if err := d.restored(k, how >= 96); err != nil {
		return err
	}
	return d.post(k, how)
}

// restored lets the Executor say what the restoring of an archive has come to.
func (d *driver) restored(k session.Key, failed bool) error {
	delete(d.restoring, k)
	if err := d.do(RestoreDone{Run: k, Failed: failed}); err != nil {
		return err
	}
	r := d.tree.Run(k)
	switch {
	case r == nil:
		return fmt.Errorf("%s is gone with the end of its restoring", k)
	case failed && r.IsBack():
		return fmt.Errorf("%s is back, which failed", k)
	case r.IsBack():
		delete(d.records, k) // its next archive has another one, also at the same instant
	}
	return nil
}

// keepRecord keeps the record of a session that is to be archived, as the Executor does. Each
// attempt has the same one.
func (d *driver) keepRecord(r *Run) error {
	if r.IsRoot() {
		return nil
	}
	f := d.tree.Record(r)
	now, err := f.AppendJSON(nil)
	if err != nil {
		return err
	}
	if old := d.records[r.Key()]; old != nil && old.At == f.At {
		before, err := old.AppendJSON(nil)
		if err == nil && !bytes.Equal(before, now) {
			i := 0
			for i < min(len(before), len(now)) && before[i] == now[i] {
				i++
			}
			err = fmt.Errorf("the record of %s was %s, and is %s", r.Key(), before[i:], now[i:])
		}
		return err
	}
	d.records[r.Key()] = f
	return nil
}

// leave lets the turns that a shutdown has ended return.
func (d *driver) leave(how byte) error {
	for _, k := range d.keys {
		if n, ok := d.started[k]; ok && how&16 != 0 {
			done := &TurnDone{Run: k, N: n, Untouched: how&8 != 0, Answer: &Result{Text: "last"}}
			if err := d.do(done); err != nil {
				return err
			}
		}
	}
	return d.do(Leave{Queued: d.notCalled()})
}

// checkBatch checks what a batch says of sessions against the tree as it is now.
func (d *driver) checkBatch(facts []Fact) error {
	for i := range facts {
		f := &facts[i]
		r := d.tree.Run(f.Run)
		if f.Join() != nil {
			for i, k := range f.Join().Keys {
				d.joined[runName{k, f.Join().run(i)}] = true
			}
		}
		switch {
		case f.Kind == Restarted && r != nil:
			for x := r.Parent; x != nil; x = x.Parent {
				if x.State.Terminal() {
					return fmt.Errorf("%s begins a run below %s, which has ended", f.Run, x.Key())
				}
			}
		case f.Kind == Archived && r != nil:
			return fmt.Errorf("%s is archived and in the tree", f.Run)
		}
	}
	return nil
}

// checkSessions checks each session: what holds it, what leaves it, what it waits for.
func (d *driver) checkSessions() (err error) {
	t, named := d.tree, d.namedRuns()
	fail := func(r *Run, format string, args ...any) {
		if err == nil {
			err = fmt.Errorf("%s (%v): %s", r.Key(), r.State, fmt.Sprintf(format, args...))
		}
	}
	live, called := 0, 0
	t.Walk(func(r *Run) {
		if !r.IsRoot() && !r.State.Terminal() {
			live++
		}
		if r.Name() != "" {
			if called++; t.names[nameKey{r.Spec.Parent, r.Name()}] != r {
				fail(r, "it is called %q, and another one is found by that", r.Name())
			}
		}
		if r.Archiving != 0 && (len(r.Bound) > 0 || r.isHeld() || r.firstChild != nil ||
			!r.State.Terminal() || r.Open != nil) {
			fail(r, "it is being archived, with %v bound, held: %v", r.Bound, r.isHeld())
		}
		last := len(r.Past) - 1
		for i := range r.Past {
			p := &r.Past[i]
			if !p.State.Terminal() {
				fail(r, "the run %q, which another has followed, is %v", p.name(), p.State)
			}
			n := named[runName{r.Key(), p.name()}]
			if p.held != n {
				fail(r, "its run %q is named %d times, counted %d", p.name(), n, p.held)
			}
			// One that a join has named stays until the session begins its next run.
			if i > 0 && i < last && n == 0 && !d.joined[runName{r.Key(), p.name()}] {
				fail(r, "the run %q is kept for nothing", p.name())
			}
		}
		if r.IsRoot() {
			return
		}
		// Only a task that was never read is read together with what began a later run.
		if b := r.Begin; b != nil && r.Consumed > 0 && r.Consumed < b.Ord-1 {
			fail(r, "it has read up to %d, and its run began with %d", r.Consumed, b.Ord)
		}
		if n := named[runName{r.Key(), r.runName()}]; n != int(r.held+r.hooks) {
			fail(r, "its run %q is named %d times, counted %d", r.runName(), n, r.held+r.hooks)
		}
		switch {
		case t.NextWake() > 0 || d.waitsForExecutor(r):
		case r.State.Terminal() && t.mayArchive(r):
			fail(r, "it is to be archived and has no timer")
		case t.wantsUnbind(r):
			fail(r, "%v is to be unbound and it has no timer", r.Bound)
		}
	})
	switch {
	case err != nil:
	case live != t.live:
		err = fmt.Errorf("%d runs live, counted %d", live, t.live)
	case called != len(t.names):
		err = fmt.Errorf("%d runs are called something, %d are found by that", called, len(t.names))
	}
	return err
}

// waitsForExecutor reports whether the Executor is to archive something of r, or to unbind it.
func (d *driver) waitsForExecutor(r *Run) bool {
	return d.archived[r.Key()] || d.restoring[r.Key()] ||
		slices.ContainsFunc(d.unbindings, func(u unbinding) bool { return u.run == r.Key() })
}

type runName struct {
	key session.Key
	run string
}

// namedRuns counts how often inboxes and the outbox name each run.
func (d *driver) namedRuns() map[runName]int {
	named := make(map[runName]int)
	d.tree.Walk(func(r *Run) {
		for i := range r.Inbox {
			if in := &r.Inbox[i]; in.Class == Completion {
				named[runName{in.From, in.RunID}]++
			}
		}
	})
	d.tree.Outbox(func(e *Entry) {
		if !e.Reply {
			named[runName{e.Run, e.RunID}]++
		}
	})
	return named
}

// checkRest checks that nothing of the sessions waits when the tree has come to rest.
func (d *driver) checkRest() (err error) {
	t := d.tree
	t.Walk(func(r *Run) {
		var why string
		switch {
		case err != nil:
			return
		case r.IsRoot() && len(r.Former) > 0:
			why = fmt.Sprintf("%v is not put away", r.Former)
		case r.IsRoot():
		case r.Archiving != 0:
			why = "it is being archived for ever"
		case t.wantsUnbind(r):
			why = fmt.Sprintf("%v is never unbound", r.Bound)
		case len(r.Bound) > 0 || r.firstChild != nil || r.isHeld():
		case r.Discard || r.Spec.Delete:
			why = "it is to be deleted, and stays"
		case d.opt.ArchiveAfter > 0:
			why = fmt.Sprintf("it is never archived; it ended at %v",
				time.Unix(0, r.archiveFrom()))
		}
		if why != "" {
			err = fmt.Errorf("at rest: %s (%v): %s", r.Key(), r.State, why)
		}
	})
	return err
}
