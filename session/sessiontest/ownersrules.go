package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

func checkClaim(p *ownersProbe) {
	c := p.open()
	root := treeKey("one")
	a := c.join(p, "a").claim(root)
	if a.Root != root || a.Owner.Name != "a" || a.Owner.Incarnation == 0 || a.Epoch == 0 {
		p.fail("got claim %+v, want one of process a, with an incarnation and an epoch", a)
	}
}

func checkClaimAgain(p *ownersProbe) {
	c := p.open()
	a := c.join(p, "a")
	first := a.claim(treeKey("one"))
	a.claim(treeKey("two"))
	if again := a.claim(treeKey("one")); again != first {
		p.fail("got claim %+v after %+v", again, first)
	}
}

func checkOwned(p *ownersProbe) {
	c := p.open()
	first := c.join(p, "a").claim(treeKey("one"))
	if got := c.join(p, "b").isRefused("claim by b", treeKey("one")); got != first {
		p.fail("the error has claim %+v, want %+v", got, first)
	}
}

func checkOneClaimer(p *ownersProbe) {
	c := p.open()
	var all []*process
	for i := range 16 {
		all = append(all, c.join(p, fmt.Sprintf("p%d", i)))
	}
	var got atomic.Int32
	var wg sync.WaitGroup
	for _, pr := range all {
		wg.Go(func() {
			if _, err := pr.Claim(p.ctx, treeKey("one")); err == nil {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != 1 {
		p.fail("%d processes have the tree", got.Load())
	}
}

func checkEpoch(p *ownersProbe) {
	c := p.open()
	a, b := c.join(p, "a"), c.join(p, "b")
	var last uint64
	for i := range 4 {
		pr := []*process{a, b}[i/2%2]
		claim := pr.claim(treeKey("one"))
		if claim.Epoch <= last {
			p.fail("claim %d has epoch %d after %d", i, claim.Epoch, last)
		}
		last = claim.Epoch
		p.must("release", pr.Release(p.ctx, claim))
	}
}

func checkRelease(p *ownersProbe) {
	c := p.open()
	a, b := c.join(p, "a"), c.join(p, "b")
	p.must("release", a.Release(p.ctx, a.claim(treeKey("one"))))
	b.claim(treeKey("one"))
}

func checkStaleRelease(p *ownersProbe) {
	c := p.open()
	a, b := c.join(p, "a"), c.join(p, "b")
	old := a.claim(treeKey("one"))
	p.must("release", a.Release(p.ctx, old))
	a.claim(treeKey("one"))
	p.must("release of the old claim", a.Release(p.ctx, old))
	now := b.isRefused("claim by b", treeKey("one"))
	p.must("release by another", b.Release(p.ctx, now))
	b.isRefused("claim by b after its release", treeKey("one"))
}

func checkTreesApart(p *ownersProbe) {
	c := p.open()
	roots := []session.Key{
		treeKey("one"), treeKey("one."), treeKey("one_"), treeKey("one:thread:1"),
		session.Must(session.Parse("agent:other:one")),
		session.ConversationRoot(session.Route{Channel: "c", To: "1"}),
		session.ConversationRoot(session.Route{Channel: "c", To: "1", Thread: "1"}),
		session.FarewellsRoot(), session.BindingsRoot(),
	}
	for i, root := range roots {
		c.join(p, fmt.Sprintf("p%d", i)).claim(root)
	}
}

func checkBeat(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	a.claim(treeKey("one"))
	for range 6 {
		c.pass(5)
		b.isRefused("claim of a tree whose owner serves", treeKey("one"))
	}
}

func checkLapse(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	a.claim(treeKey("one"))
	c.Cut(a.store, true)
	c.pass(4)
	b.isRefused("claim before the lease of a has lapsed", treeKey("one"))
	c.pass(9)
	b.claim(treeKey("one"))
}

// cutFor cuts a process off for 15 tenths of a lease, does f before the end of that, and waits for
// the next lease.
func (c *cluster) cutFor(p *ownersProbe, a *process, f func()) {
	c.Cut(a.store, true)
	c.pass(15)
	f()
	before := a.leases()
	c.Cut(a.store, false)
	c.until(p, "the process that came back has a lease", 10,
		func() bool { return a.leases() > before })
}

// taken returns the claims that a process was told others have taken.
func (pr *process) taken() (all []session.Claim) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	for _, l := range pr.told {
		all = append(all, l.Taken...)
	}
	return all
}

func checkBack(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	before := a.claim(treeKey("one"))
	c.cutFor(p, a, func() {})
	b.isRefused("claim after a came back", treeKey("one"))
	if after := a.claim(treeKey("one")); after != before {
		p.fail("the claim was %+v and came back as %+v", before, after)
	}
	if taken := a.taken(); len(taken) > 0 {
		p.fail("told that others have taken %+v", taken)
	}
}

func checkTaken(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.serve(p, "b", nil)
	at := session.ConversationRoot(session.Route{Channel: "c", To: "1"})
	lost, kept := a.claim(at), a.claim(treeKey("kept"))
	c.cutFor(p, a, func() { b.claim(lost.Root) })
	if taken := a.taken(); !slices.Equal(taken, []session.Claim{lost}) {
		p.fail("told that others have taken %+v, want %+v", taken, lost)
	}
	a.isRefused("claim of what b has taken", lost.Root)
	b.isRefused("claim of what a has kept", kept.Root)
}

func checkUntil(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	a.claim(treeKey("one"))
	c.pass(12)
	c.Cut(a.store, true)
	c.until(p, "b has the tree", 20, func() bool {
		_, err := b.Claim(p.ctx, treeKey("one"))
		return err == nil
	})
	taken := time.Now()
	a.mu.Lock()
	last := a.told[len(a.told)-1].Until
	a.mu.Unlock()
	if last.After(taken) {
		p.fail("the lease ends %v after b has the tree", last.Sub(taken))
	}
	if taken.Sub(last) > c.lease {
		p.fail("the lease has ended %v before b has the tree", taken.Sub(last))
	}
}

func checkLeaseLength(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.told[0]; l.Length != c.lease {
		p.fail("told of %v, want %v", l.Length, c.lease)
	}
}

func checkLeave(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	a.claim(treeKey("one"))
	p.must("Serve", a.stop())
	b.claim(treeKey("one"))
}

func checkReplaced(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", nil), c.join(p, "b")
	old := a.claim(treeKey("one"))
	next := c.serve(p, "a", nil)
	b.claim(treeKey("one"))
	if now := next.claim(treeKey("two")); now.Owner.Incarnation <= old.Owner.Incarnation {
		p.fail("incarnation %d after %d", now.Owner.Incarnation, old.Owner.Incarnation)
	}
	select {
	case <-a.ended:
	case <-time.After(c.lease * 2):
		p.fail("Serve of the process that was replaced goes on")
	}
	p.wantIs("Serve", a.err, session.ErrReplaced)
	_, err := a.Claim(p.ctx, treeKey("three"))
	p.wantIs("Claim", err, session.ErrReplaced)
	next.claim(treeKey("two"))
}

func checkServing(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", nil)
	ctx, cancel := context.WithTimeout(p.ctx, c.lease)
	defer cancel()
	p.wantIs("Serve", a.Serve(ctx, session.Member{}), session.ErrServing)
}

// echo answers with the body of a request, twice.
func echo(_ context.Context, r session.Request) []byte { return append(r.Body, r.Body...) }

// wantAnswer fails the rule unless a request has the answer of echo.
func (pr *process) wantAnswer(r session.Request) {
	answer, err := pr.Call(pr.p.ctx, r)
	pr.p.must("call "+r.ID, err)
	if string(answer) != string(r.Body)+string(r.Body) {
		pr.p.fail("the answer to %s is %q", r.ID, answer)
	}
}

// wantHandled fails the rule unless a process has handled exactly these requests.
func (pr *process) wantHandled(want ...session.Request) {
	got := pr.handled()
	same := func(a, b session.Request) bool {
		return a.ID == b.ID && a.Root == b.Root && string(a.Body) == string(b.Body) &&
			a.Attempt == b.Attempt
	}
	if !slices.EqualFunc(got, want, same) {
		pr.p.fail("handled %+v, want %+v", got, want)
	}
}

func checkCall(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", echo), c.serve(p, "b", nil)
	a.claim(treeKey("one"))
	b.claim(treeKey("two"))
	r := session.Request{ID: "r 1/é", Root: treeKey("one"), Body: []byte("a\x00\xff\n")}
	c.join(p, "c").wantAnswer(r)
	r.Attempt = 1
	a.wantHandled(r)
	b.wantHandled()
}

func checkCallOneself(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", echo)
	a.claim(treeKey("one"))
	a.wantAnswer(request("1", treeKey("one")))
}

func checkNoOwner(p *ownersProbe) {
	c := p.open()
	a, b := c.serve(p, "a", echo), c.join(p, "b")
	p.must("release", a.Release(p.ctx, a.claim(treeKey("one"))))
	begun := time.Now()
	for _, name := range []string{"one", "two"} {
		_, err := b.Call(p.ctx, request(name, treeKey(name)))
		p.wantIs("call without an owner", err, session.ErrNoOwner)
	}
	if took := time.Since(begun); took > c.lease/2 {
		p.fail("it took %v", took)
	}
	a.claim(treeKey("one"))
	c.pass(5)
	a.wantHandled()
}

func checkOnce(p *ownersProbe) {
	c := p.open()
	var n atomic.Int32
	a := c.serve(p, "a", func(context.Context, session.Request) []byte {
		c.pass(1)
		return fmt.Append(nil, n.Add(1))
	})
	b := c.join(p, "b")
	a.claim(treeKey("one"))
	call := func() {
		answer, err := b.Call(p.ctx, request("1", treeKey("one")))
		if err != nil || string(answer) != "1" {
			n.Store(100)
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(call)
	}
	wg.Wait()
	c.pass(15)
	call()
	if n.Load() != 1 {
		p.fail("handled more than once, or answered otherwise (%d)", n.Load())
	}
	a.claim(treeKey("two"))
	_, err := b.Call(p.ctx, request("1", treeKey("two")))
	p.wantIs("the id with another tree", err, session.ErrInvalidRequest)
}

func checkCallWaits(p *ownersProbe) {
	c := p.open()
	a, b := c.join(p, "a"), c.join(p, "b")
	a.claim(treeKey("one"))
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		_, err = b.Call(p.ctx, request("1", treeKey("one")))
	}()
	c.pass(6)
	a.serve(echo)
	<-done
	p.must("call", err)
}

// takeAndCut has process a take a request and be cut off while it handles it. It returns what the
// call of process b comes to.
func takeAndCut(
	p *ownersProbe, c *cluster, b *process, root session.Key,
) (outcome chan error, former *process) {
	release := make(chan struct{})
	a := c.serve(p, "a", func(ctx context.Context, _ session.Request) []byte {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return []byte("late")
	})
	a.claim(root)
	outcome = make(chan error, 1)
	go func() {
		answer, err := b.Call(p.ctx, request("1", root))
		if string(answer) == "late" {
			err = errors.New("the answer is that of the former owner")
		}
		outcome <- err
	}()
	c.until(p, "a has the request", 10, func() bool { return len(a.handled()) > 0 })
	c.Cut(a.store, true)
	close(release)
	return outcome, a
}

func checkUnanswered(p *ownersProbe) {
	c := p.open()
	b, root := c.serve(p, "b", echo), treeKey("one")
	outcome, _ := takeAndCut(p, c, b, root)
	p.wantIs("call", <-outcome, session.ErrUnanswered)
	b.claim(root)
	b.wantAnswer(request("1", root))
}

func checkAttempt(p *ownersProbe) {
	c := p.open()
	b, root := c.serve(p, "b", echo), treeKey("one")
	outcome, former := takeAndCut(p, c, b, root)
	c.until(p, "b has the tree", 20, func() bool {
		_, err := b.Claim(p.ctx, root)
		return err == nil
	})
	err := <-outcome
	if errors.Is(err, session.ErrUnanswered) { // the call looked between the two owners
		_, err = b.Call(p.ctx, request("1", root))
	}
	p.must("call", err)
	want := request("1", root)
	want.Attempt = 2
	b.wantHandled(want)
	c.Cut(former.store, false)
	c.pass(5)
	b.wantAnswer(request("1", root)) // the late answer of the former owner has not replaced it
}

func checkBadRequest(p *ownersProbe) {
	c := p.open()
	a := c.serve(p, "a", echo)
	a.claim(treeKey("one"))
	for _, r := range []session.Request{
		{Root: treeKey("one")},
		{ID: "1"},
		{ID: string(make([]byte, 1000)), Root: treeKey("one")},
		{ID: "1", Root: treeKey("one"), Body: make([]byte, session.RequestLimit+1)},
	} {
		_, err := a.Call(p.ctx, r)
		p.wantIs("call", err, session.ErrInvalidRequest)
	}
	a.wantHandled()
	_, err := a.Claim(p.ctx, session.Key{})
	p.wantIs("claim of the zero key", err, session.ErrInvalidKey)
}
