package tree

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// What a driver does as the receivers of what leaves the tree.

// settle lets a receiver answer: one that hung, or that of an entry which is the first of its
// destination.
func (d *driver) settle(which, how byte) error {
	c := &Settle{Rand: uint64(how)}
	switch how & 7 {
	case 1:
		c.Error = "down"
	case 4:
		c.Error, c.Never = "never", true
	case 5:
		c.Error, c.Wait = "wait", int64(time.Duration(which)*time.Minute)
	case 6:
		c.Error, c.Busy, c.Wait = "busy", true, int64(time.Duration(which)*time.Second)
	case 2:
		c.Error, c.Busy = "busy", true
	case 3:
		c.Error, c.Hangs = "hangs", true
	}
	switch {
	case how&8 != 0: // what was not asked for changes nothing that matters
		c.Ord = uint32(which)
		if c.Hangs || c.Error == "" {
			return nil
		}
		d.hung = slices.DeleteFunc(d.hung, func(ord uint32) bool { return ord == c.Ord })
	case how&16 != 0 && len(d.hung) > 0:
		c.Hangs = false
		c.Ord, d.hung = d.hung[0], d.hung[1:]
		c.More = d.hungMore[c.Ord]
	case len(d.flying) == 0:
		return nil
	default:
		e := d.flying[int(which)%len(d.flying)]
		c.Ord = d.calledFor(e.Destination()).Ord
		if how&32 != 0 {
			c.More = d.collected(e.Destination(), int(how>>6)+1)
		}
		if c.Hangs {
			d.hung = append(d.hung, c.Ord)
			d.hungMore[c.Ord] = c.More
		}
		d.flying = slices.DeleteFunc(d.flying, func(x *Entry) bool {
			return x.Ord == c.Ord || slices.Contains(c.More, x.Ord)
		})
	}
	return d.do(c)
}

// collected returns up to n entries that were handed over behind the one that their destination is
// called for.
func (d *driver) collected(to Destination, n int) (ords []uint32) {
	for _, e := range d.flying {
		if e.Destination() == to && len(ords) <= n {
			ords = append(ords, e.Ord)
		}
	}
	return ords[1:]
}

// calledFor returns the entry that a destination is called for: the first that was handed over.
func (d *driver) calledFor(to Destination) *Entry {
	i := slices.IndexFunc(d.flying, func(e *Entry) bool { return e.Destination() == to })
	return d.flying[i]
}

// notCalled returns the entries that were handed over behind the one that their destination is
// called for.
func (d *driver) notCalled() (ords []uint32) {
	for _, e := range d.flying {
		if d.calledFor(e.Destination()) != e {
			ords = append(ords, e.Ord)
		}
	}
	return ords
}

// write has a session write to another tree, in its turn n or, if n is 0, on behalf of a program.
// Some messages have been sent before, and may be in the outbox still.
func (d *driver) write(from session.Key, how byte, n uint32) error {
	c := &SendOut{
		From: from, To: others[how%2], ID: "w" + strconv.Itoa(int(how>>1%8)), Text: "hello there",
		Senders: speakers(how >> 5),
	}
	if how%16 == 15 {
		c.To = from // its own tree
	}
	waits := d.tree.SentTo(c.To, c.ID) != nil
	var cmd Command = c
	if n > 0 {
		cmd = InTurn{Run: from, N: n, Cmd: c}
	}
	entries := len(d.tree.outbox.entries)
	if err := d.do(cmd); err != nil {
		return err
	}
	if waits && len(d.tree.outbox.entries) > entries {
		return fmt.Errorf("message %s to %s has two entries", c.ID, c.To)
	}
	return nil
}

// others are top-level sessions of other trees.
var others = [...]session.Key{
	session.Must(session.MainKey("other")), session.Must(session.MainKey("third")),
}

// checkUpdates checks that people are told once of the end of a run which says so, and of each that
// did not end well, unless its requester was stopped as well.
func (d *driver) checkUpdates(facts []Fact, stopped bool) (err error) {
	d.tree.Outbox(func(e *Entry) {
		if !e.Update || d.before[e.Ord] != nil {
			return
		}
		run := runName{e.Run, e.RunID}
		if d.updated[run] {
			err = fmt.Errorf("people are told twice of the end of %v", run)
		}
		d.updated[run] = true
		d.happened["update"]++
	})
	for i := range facts {
		f, r := &facts[i], d.tree.Run(facts[i].Run)
		stopped = stopped || f.Kind == StopRequested && f.Run == top
		if f.Kind != RunEnded || r == nil || !r.Spec.Update || r.Begin != nil || !d.opt.Replies {
			continue
		}
		isBad := f.State == Failed || f.State == TimedOut || f.State == Interrupted
		if err == nil && isBad && !stopped && !d.updated[runName{r.key, ""}] {
			err = fmt.Errorf("people are not told of the end of %s: %v", r.key, f.State)
		}
	}
	return err
}

// inOrder checks that what arrives has not been overtaken, and that what came before it is
// delivered or blocked. A blocked entry that is retried may be late, and says so.
func (d *driver) inOrder(f *Fact) error {
	e := d.before[f.Ord]
	if f.Kind != Delivered || e == nil {
		return nil
	}
	for _, x := range d.before {
		if x.Destination() == e.Destination() && x.Ord < e.Ord && x.Blocked == 0 && !x.Late &&
			!e.Late && e.Blocked == 0 {
			return fmt.Errorf("entry %d arrives before entry %d", e.Ord, x.Ord)
		}
	}
	if !e.Late && e.Blocked == 0 && e.Ord < d.arrived[e.Destination()] {
		return fmt.Errorf("entry %d arrives too late and does not say so", e.Ord)
	}
	for _, x := range d.before {
		if x.Destination() == e.Destination() && x.Update != e.Update && !d.again {
			d.happened["update among replies"]++
			break
		}
	}
	d.arrived[e.Destination()] = max(d.arrived[e.Destination()], e.Ord)
	delete(d.before, f.Ord) // those of the same call come behind it
	return nil
}
