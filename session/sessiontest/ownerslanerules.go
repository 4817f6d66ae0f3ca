package sessiontest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// due makes a tree that is due at a time from now, or never if that is zero.
func (pr *process) due(root session.Key, in time.Duration) {
	b := session.Batch{Entries: []session.Entry{{Payload: session.Raw("1")}}}
	if in != 0 {
		b.Due = time.Now().Add(in)
	}
	_, err := pr.store.Journal.Append(pr.p.ctx, root, 0, b)
	pr.p.must("append", err)
}

// A watch has what the Orphans of a process have yielded.
type watch struct {
	mu   sync.Mutex
	seen map[session.Key]int
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// watch looks for orphans until end is called, and calls f for each, which may be nil.
func (pr *process) watch(f func(session.Key)) *watch {
	ctx, cancel := context.WithCancel(pr.p.ctx)
	w := &watch{seen: make(map[session.Key]int), end: cancel}
	w.wg.Go(func() {
		for root, err := range pr.Orphans(ctx) {
			if err != nil {
				return
			}
			w.mu.Lock()
			w.seen[root]++
			w.mu.Unlock()
			if f != nil {
				f(root)
			}
		}
	})
	return w
}

func (w *watch) has(root session.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[root] > 0
}

func (w *watch) stop() {
	w.end()
	w.wg.Wait()
}

// orphanTime is within which time an orphan is yielded, in tenths of a lease: the spread, and what
// an engine takes to look.
func (c *cluster) orphanTime() int {
	return int((session.OrphanSpread + 2*time.Second) * 10 / c.lease)
}

func checkOrphans(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	a.claim(treeKey("owned"))
	a.due(treeKey("owned"), -time.Hour)
	a.due(treeKey("never"), 0)
	a.due(treeKey("later"), time.Hour)
	a.due(treeKey("now"), -time.Hour)
	a.due(session.BindingsRoot(), -time.Hour)
	w := b.watch(nil)
	defer w.stop()
	c.until(p, "a tree that is due", c.orphanTime(), func() bool { return w.has(treeKey("now")) })
	a.due(treeKey("soon"), c.lease/2)
	c.until(p, "a tree that becomes due", c.orphanTime()+5,
		func() bool { return w.has(treeKey("soon")) })
	c.pass(c.orphanTime())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) != 2 {
		p.fail("got %v, want the trees that are due and without an owner", w.seen)
	}
}

// manyOrphans are more trees than an engine need yield at a time.
const manyOrphans = 60

// watchMany watches so many orphans, with a process that claims none, until all were yielded.
func (c *cluster) watchMany(p *ownersProbe) *watch {
	a := c.serve(p, "a", nil)
	for i := range manyOrphans {
		a.due(treeKey(fmt.Sprintf("t%d", i)), -time.Hour)
	}
	w := c.serve(p, "b", nil).watch(nil)
	c.until(p, fmt.Sprintf("%d orphans", manyOrphans), 4*c.orphanTime(), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.seen) == manyOrphans
	})
	return w
}

func checkOrphansAll(p *ownersProbe) { p.open().watchMany(p).stop() }

func checkOrphansOnce(p *ownersProbe) {
	c := p.open()
	w := c.watchMany(p)
	defer w.stop()
	c.pass(c.orphanTime())
	w.mu.Lock()
	defer w.mu.Unlock()
	for root, n := range w.seen {
		if n != 1 {
			p.fail("got %q %d times, and none has claimed it", root, n)
		}
	}
}

func checkOrphansAnew(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	root := treeKey("one")
	a.due(root, -time.Hour)
	w := b.watch(nil)
	defer w.stop()
	c.until(p, "the orphan", c.orphanTime(), func() bool { return w.has(root) })
	claim := a.claim(root)
	c.pass(c.orphanTime())
	p.must("release", a.Release(p.ctx, claim))
	c.until(p, "the orphan, which had an owner", c.orphanTime(), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.seen[root] > 1
	})
}

func checkOrphansMet(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	root := treeKey("one")
	a.due(root, -time.Hour)
	var first sync.Once
	var met error
	w := b.watch(func(session.Key) {
		first.Do(func() { // before Orphans looks again
			claim, err := a.Claim(p.ctx, root)
			if err == nil {
				_, met = b.Claim(p.ctx, root)
				err = a.Release(p.ctx, claim)
			}
			if err != nil {
				met = err
			}
		})
	})
	defer w.stop()
	c.until(p, "the orphan, whose claim was refused", 2*c.orphanTime(), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.seen[root] > 1
	})
	w.stop()
	p.wantIs("claim of a tree that another process has", met, session.ErrOwned)
}

func checkOrphaned(p *ownersProbe) {
	c := p.open()
	a, b, gone := c.serve(p, "a", nil), c.serve(p, "b", nil), c.serve(p, "gone", nil)
	w := b.watch(nil)
	defer w.stop()
	roots := []session.Key{treeKey("released"), treeKey("left"), treeKey("dead")}
	released := a.claim(roots[0])
	a.claim(roots[1])
	gone.claim(roots[2])
	for _, root := range roots {
		a.due(root, -time.Hour)
	}
	c.pass(c.orphanTime())
	for i, orphan := range []func(){
		func() { p.must("release", a.Release(p.ctx, released)) },
		func() { p.must("Serve", a.stop()) },
		func() {
			c.Cut(gone.store, true)
			c.pass(10)
		},
	} {
		if w.has(roots[i]) {
			p.fail("got %q, which has an owner", roots[i])
		}
		orphan()
		c.until(p, fmt.Sprintf("the orphan %q", roots[i]), c.orphanTime(),
			func() bool { return w.has(roots[i]) })
	}
}

func checkNoStampede(p *ownersProbe) {
	c := p.open()
	const trees = 100
	first := c.join(p, "first")
	for i := range trees {
		first.due(treeKey(fmt.Sprintf("t%d", i)), -time.Hour)
	}
	var mu sync.Mutex
	got, missed := make(map[session.Key]bool), 0
	shares := make([]int, 4)
	var watches []*watch
	var all []*process // first, since an engine takes a while to open
	for i := range shares {
		all = append(all, c.serve(p, fmt.Sprintf("p%d", i), nil))
	}
	for i, pr := range all {
		watches = append(watches, pr.watch(func(root session.Key) {
			_, err := pr.Claim(p.ctx, root)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missed++
				return
			}
			got[root] = true
			shares[i]++
		}))
	}
	c.until(p, "all orphans are claimed", c.orphanTime()+400, func() bool { // a busy machine takes long
		mu.Lock()
		defer mu.Unlock()
		return len(got) == trees
	})
	for _, w := range watches {
		w.stop()
	}
	if missed > trees/2 {
		p.fail("%d claims of %d trees came too late", missed, trees)
	}
	if slices.Min(shares) < trees/20 {
		p.fail("four processes have %v of %d trees", shares, trees)
	}
}

// ticket returns a ticket of a requester.
func ticket(id, requester string) session.Ticket {
	return session.Ticket{ID: id, Requester: requester, Provider: "p"}
}

// wantGranted waits until processes have been granted exactly these tickets, each its own.
func (c *cluster) wantGranted(p *ownersProbe, doing string, all map[*process][]string) {
	c.until(p, doing, 15, func() bool {
		for pr, want := range all {
			if !slices.Equal(pr.granted(), want) {
				return false
			}
		}
		return true
	})
	c.pass(3)
	for pr, want := range all {
		if got := pr.granted(); !slices.Equal(got, want) {
			p.fail("%s: granted %q, want %q", doing, got, want)
		}
	}
}

func checkLaneLimit(p *ownersProbe) {
	c := p.open()
	var all []*process
	var lanes []ruleLane
	for i := range 3 {
		pr := c.serve(p, fmt.Sprintf("p%d", i), nil)
		all, lanes = append(all, pr), append(lanes, pr.lane("l", 2))
		for n := range 4 {
			lanes[i].Ask(ticket(fmt.Sprintf("%d.%d", i, n), ""))
		}
	}
	freed := make(map[string]bool)
	for len(freed) < 12 {
		var have [][2]any
		held := func() int {
			have = have[:0]
			for i, pr := range all {
				for _, id := range pr.granted() {
					if !freed[id] {
						have = append(have, [2]any{i, id})
					}
				}
			}
			return len(have)
		}
		want := min(2, 12-len(freed))
		c.until(p, "slots", 15, func() bool { return held() >= want })
		c.pass(1)
		if n := held(); n > 2 {
			p.fail("%d tickets have a slot, with a limit of 2", n)
		}
		id := have[0][1].(string)
		freed[id] = true
		lanes[have[0][0].(int)].Free(id)
	}
}

func checkLaneTurns(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	la, lb := a.lane("l", 1), b.lane("l", 1)
	la.Ask(ticket("first", "x"))
	c.wantGranted(p, "the first", map[*process][]string{a: {"first"}})
	for i := range 4 {
		la.Ask(ticket(fmt.Sprintf("x%d", i), "x"))
	}
	c.pass(3)
	lb.Ask(ticket("y0", "y"))
	lb.Ask(ticket("y1", "y"))
	c.pass(3)
	order := []string{"first", "x0", "y0", "x1", "y1", "x2", "x3"}
	var ofA, ofB []string
	for i, id := range order {
		if id[0] == 'y' {
			ofB = append(ofB, id)
		} else {
			ofA = append(ofA, id)
		}
		c.wantGranted(p, "turn of "+id, map[*process][]string{a: ofA, b: ofB})
		if i < len(order) {
			la.Free(id)
			lb.Free(id)
		}
	}
}

func checkLaneClass(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	l := a.lane("l", 1)
	l.Ask(ticket("first", "x"))
	c.wantGranted(p, "the first", map[*process][]string{a: {"first"}})
	want := []string{"first"}
	for _, class := range []uint8{2, 1, 0} {
		t := ticket(fmt.Sprintf("class %d", class), "x")
		t.Class = class
		l.Ask(t)
		want = slices.Insert(want, 1, t.ID)
	}
	c.pass(3)
	for i := range want {
		c.wantGranted(p, want[i], map[*process][]string{a: want[:i+1]})
		l.Free(want[i])
	}
}

func checkLaneWithdraw(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	l := a.lane("l", 1)
	for _, id := range []string{"1", "2", "2", "3"} {
		l.Ask(ticket(id, ""))
	}
	c.wantGranted(p, "the first", map[*process][]string{a: {"1"}})
	l.Free("2")
	l.Free("unknown")
	l.Free("1")
	c.wantGranted(p, "the one that waits", map[*process][]string{a: {"1", "3"}})
}

func checkLaneLapse(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	a.lane("l", 1).Ask(ticket("1", ""))
	c.wantGranted(p, "the first", map[*process][]string{a: {"1"}})
	b.lane("l", 1).Ask(ticket("2", ""))
	c.Cut(a.store, true)
	c.pass(1)
	c.wantGranted(p, "before the lapse", map[*process][]string{b: nil})
	c.wantGranted(p, "after the lapse", map[*process][]string{b: {"2"}})
}

func checkLaneBack(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	la, lb := a.lane("l", 1), b.lane("l", 1)
	lb.Ask(ticket("other", "")) // so that the lapsed tickets are dropped
	c.wantGranted(p, "the other", map[*process][]string{b: {"other"}})
	lb.Free("other")
	la.Ask(ticket("1", ""))
	c.wantGranted(p, "the first", map[*process][]string{a: {"1"}})
	c.cutFor(p, a, func() {})
	c.pass(3)
	lb.Ask(ticket("2", ""))
	c.pass(5)
	c.wantGranted(p, "while a holds its slot", map[*process][]string{b: {"other"}, a: {"1"}})
	la.Free("1")
	c.wantGranted(p, "after that", map[*process][]string{b: {"other", "2"}})
}

func checkLanePause(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	la, lb := a.lane("l", 4), b.lane("l", 4)
	la.Pause("p", 2*c.lease)
	la.Pause("p", c.lease/10) // the longer one stands
	la.Pause("p", 0)
	c.until(p, "b is told", 10, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.pause > c.lease && b.pause <= 2*c.lease
	})
	lb.Ask(ticket("paused", "x"))
	lb.Ask(session.Ticket{ID: "other", Requester: "x", Provider: "q"})
	c.wantGranted(p, "of the other provider", map[*process][]string{b: {"other"}})
	c.pass(5)
	c.wantGranted(p, "during the pause", map[*process][]string{b: {"other"}})
	c.wantGranted(p, "after the pause", map[*process][]string{b: {"other", "paused"}})
}

func checkLanesApart(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	a.lane("l", 1).Ask(ticket("1", ""))
	b.lane("L", 1).Ask(ticket("1", ""))
	c.wantGranted(p, "one in each lane", map[*process][]string{a: {"1"}, b: {"1"}})
}

func checkLaneAgain(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	first := a.lane("l", 1)
	first.Ask(ticket("1", ""))
	c.wantGranted(p, "by the first", map[*process][]string{a: {"1"}})
	second := a.Lane("l", 5, session.LaneUser{})
	p.must("ask", second.Ask(ticket("2", "")))
	c.wantGranted(p, "with the limit of the first", map[*process][]string{a: {"1"}})
	first.Free("1")
	c.wantGranted(p, "to the user of the first", map[*process][]string{a: {"1", "2"}})
	second.Free("2")
	first.Ask(ticket("3", ""))
	c.wantGranted(p, "after the second", map[*process][]string{a: {"1", "2", "3"}})
}

func checkLaneAnew(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	old := a.lane("l", 1)
	old.Ask(ticket("1", ""))
	c.wantGranted(p, "by the first", map[*process][]string{a: {"1"}})
	p.must("Serve", a.stop())
	a.mu.Lock()
	a.slots = nil
	a.mu.Unlock()
	again := a.lane("l", 2)
	a.ended = make(chan struct{})
	a.serve(nil)
	again.Ask(ticket("2", ""))
	again.Ask(ticket("3", ""))
	old.Ask(ticket("4", ""))
	c.wantGranted(p, "by the second, with its limit", map[*process][]string{a: {"2", "3"}})
	again.Free("2")
	again.Free("3")
	c.pass(3)
	c.wantGranted(p, "nothing by the first", map[*process][]string{a: {"2", "3"}})
}

func checkHandlePanics(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", func(ctx context.Context, r session.Request) []byte {
		switch r.ID {
		case "panics":
			panic("the Handle of a rule")
		case "exits":
			runtime.Goexit()
		}
		return echo(ctx, r)
	})
	a.claim(treeKey("one"))
	for _, id := range []string{"panics", "exits"} {
		ctx, cancel := context.WithTimeout(p.ctx, c.lease*3/2)
		_, err := a.Call(ctx, request(id, treeKey("one")))
		cancel()
		p.wantIs("call of a Handle that "+id, err, context.DeadlineExceeded)
	}
	a.wantAnswer(request("1", treeKey("one")))
	if n := len(a.handled()); n != 3 {
		p.fail("Handle was called %d times for 3 requests", n)
	}
}

// misbehave panics, or ends its goroutine, by turns.
func misbehave(n int) {
	if n%2 == 0 {
		panic("a callback of a rule")
	}
	runtime.Goexit()
}

func checkCallbackPanics(p *ownersProbe) {
	c := p.open()
	a, b := c.join(p, "a"), c.serve(p, "b", nil)
	var mu sync.Mutex
	var leases int
	var granted []string
	ctx, cancel := context.WithCancel(p.ctx)
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		a.err = a.Serve(ctx, session.Member{Handle: echo, Lease: func(session.Lease) {
			mu.Lock()
			leases++
			n := leases
			mu.Unlock()
			misbehave(n)
		}})
	}()
	lane := ruleLane{a.Lane("l", 5, session.LaneUser{
		Granted: func(id string) {
			mu.Lock()
			granted = append(granted, id)
			n := len(granted)
			mu.Unlock()
			misbehave(n)
		},
		Paused: func(_ string, d time.Duration) { misbehave(int(d / time.Millisecond)) },
	}), p}
	a.claim(treeKey("one"))
	beats := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return leases >= n
		}
	}
	c.until(p, "a goes on to beat", 40, beats(4))
	b.lane("l", 5).Pause("q", time.Second)
	for _, id := range []string{"1", "2", "3"} {
		lane.Ask(ticket(id, ""))
	}
	c.until(p, "a is told of its slots", 40, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(granted) == 3
	})
	_, err := b.Call(p.ctx, request("1", treeKey("one")))
	p.must("call", err)
	mu.Lock()
	n := leases
	mu.Unlock()
	c.until(p, "a beats at the end", 40, beats(n+2))
}

func checkBadTicket(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	l := a.lane("l", 5)
	long := strings.Repeat("x", 257)
	for _, t := range []session.Ticket{
		{},
		{ID: long},
		{ID: strings.Repeat("x", 2<<20)},
		{ID: "\xff"},
		{ID: "1", Requester: strings.Repeat("x", 1025)},
		{ID: "1", Requester: "\xff"},
		{ID: "1", Provider: strings.Repeat("x", 1025)},
		{ID: "1", Provider: "\xff"},
	} {
		p.wantIs("ask", l.Lane.Ask(t), session.ErrInvalidTicket)
	}
	p.wantIs("ask in a lane of a long name", a.lane(long, 5).Lane.Ask(ticket("1", "")),
		session.ErrInvalidTicket)
	most := ticket(long[1:], strings.Repeat("r", 1024))
	a.lane(long[1:], 5).Ask(most)
	c.wantGranted(p, "the longest", map[*process][]string{a: {most.ID}})
	l.Ask(ticket("2", ""))
	c.wantGranted(p, "one more", map[*process][]string{a: {most.ID, "2"}})
}

func checkLaneSetLimit(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	l := a.lane("l", 1)
	for _, id := range []string{"1", "2", "3", "4"} {
		l.Ask(ticket(id, ""))
	}
	c.wantGranted(p, "one", map[*process][]string{a: {"1"}})
	l.SetLimit(3)
	c.wantGranted(p, "three", map[*process][]string{a: {"1", "2", "3"}})
	l.SetLimit(1)
	l.Free("1")
	l.Free("2")
	c.wantGranted(p, "still three", map[*process][]string{a: {"1", "2", "3"}})
	l.Free("3")
	c.wantGranted(p, "the last", map[*process][]string{a: {"1", "2", "3", "4"}})
}

// ownersCalls calls each method that returns an error.
func ownersCalls(ctx context.Context, o session.Owners) map[string]error {
	errs := make(map[string]error)
	_, errs["Claim"] = o.Claim(ctx, treeKey("one"))
	errs["Release"] = o.Release(ctx, session.Claim{Root: treeKey("one")})
	_, errs["Call"] = o.Call(ctx, request("1", treeKey("one")))
	for _, err := range o.Orphans(ctx) {
		errs["Orphans"] = err
	}
	return errs
}

func checkOwnersContext(p *ownersProbe) {
	c := p.open()
	a := c.join(p, "a")
	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	for name, err := range ownersCalls(ctx, a.Owners) {
		p.wantIs(name, err, context.Canceled)
	}
	p.must("Serve", a.Serve(ctx, session.Member{}))
}

func checkOwnersClosed(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	p.must("close", a.store.Close())
	select {
	case <-a.ended:
	case <-time.After(c.lease * 2):
		p.fail("Serve goes on")
	}
	p.wantIs("Serve", a.err, session.ErrClosed)
	for name, err := range ownersCalls(p.ctx, a.Owners) {
		p.wantIs(name, err, session.ErrClosed)
	}
	p.wantIs("Serve", a.Serve(p.ctx, session.Member{}), session.ErrClosed)
}
