package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/cluster"
)

// The kinds of the subjects of the stream of documents. Each subject has one message.
const (
	incarnationKind = "i" // the last incarnation: its sequence
	processKind     = "v" // a process that has joined: v.<token of the name>
	claimKind       = "o" // who has a tree: o.<token of the root>
	requestKind     = "r" // a request: r.<token of the id>
	laneKind        = "n" // a lane: n.<token of the name>
	openKind        = "s" // a Store that is open: s.<token of its own>
)

// processTTL is after which time a process is forgotten that was not heard of.
const processTTL = 2 * MaxLease

// A tenant is a process between joining and leaving. One that leaves and joins again is another
// one: what it had is given up.
type tenant struct {
	session.Process
	Term uint64 `json:"term,omitempty"`
}

// A membership is what the server knows of a process. The time of its message is that of the last
// beat.
type membership struct {
	tenant
	Lease time.Duration `json:"lease"`
	Left  bool          `json:"left,omitempty"`

	seq  uint64
	beat time.Time
}

// A claim is what the server knows of who has a tree.
type claim struct {
	Root     string `json:"root"`
	Owner    tenant `json:"owner"`
	Epoch    uint64 `json:"epoch,omitempty"` // 0: the sequence of this message when it came
	Released bool   `json:"released,omitempty"`
	Taken    bool   `json:"taken,omitempty"` // from another process, which has not released it

	seq uint64
}

// isClaim reports whether there is a claim, and not that it holds.
func (c claim) isClaim() bool { return c.seq > 0 && !c.Released }

// epoch returns the epoch of c.
func (c claim) epoch() uint64 {
	if c.Epoch == 0 {
		return c.seq
	}
	return c.Epoch
}

// lifted reports whether c has an epoch above those that the stream gives: the log of the tree has
// a mark of documents that are lost.
func (c claim) lifted() bool { return c.Epoch > c.seq }

// nextClaim returns the claim of a process that follows another one. mark is the epoch that the log
// of the tree names, and last a sequence that the stream of documents has reached. The epoch of the
// claim is above both of those before: the stream may be newer than the log, or an older copy.
func nextClaim(root session.Key, me tenant, now claim, mark, last uint64) claim {
	next := claim{Root: root.String(), Owner: me, Taken: now.isClaim()}
	if before := max(mark, now.epoch()); before > last {
		next.Epoch = before + 1
	}
	return next
}

// of returns the session.Claim that c is.
func (c claim) of() (s session.Claim, err error) {
	s = session.Claim{Owner: c.Owner.Process, Epoch: c.epoch()}
	if s.Root, err = session.ParseRoot(c.Root); err != nil {
		err = &session.CorruptError{
			File: "claim on " + fmt.Sprintf("%.80q", c.Root), Reason: err.Error(),
		}
	}
	return s, err
}

// A view is who has a lease at a time of the server's clock.
type view struct {
	now     time.Time
	members map[string]membership // by name
}

// has reports whether a tenant has a lease.
func (v view) has(t tenant) bool {
	m, ok := v.members[t.Name]
	return ok && m.tenant == t && !m.Left && v.now.Before(m.beat.Add(m.Lease))
}

// lives reports whether a process has a lease.
func (v view) lives(p session.Process) bool { return v.has(tenant{p, v.members[p.Name].Term}) }

// A ledger is the cluster.Ledger of a process.
//
// What depends on two documents is decided so: a process whose lease lapses writes its claims again
// when it comes back, before it relies on them. So another process that saw it lapsed, and takes a
// tree of it after that, finds that the claim has moved. The clock is looked at before the beats:
// a beat that is not seen is later than the end of the lease, and its process notices.
type ledger struct {
	journal journal
	docs    stream // with the time of calls that carry no body
	bodies  stream // the same, with the time of others

	members  map[string]membership // by name; those of whom
	whom     *mirror
	claims   map[string]claim // by token of the root; those of claimed
	claimed  *mirror
	dues     map[string]*dueTree // by root; those of leads
	leads    *mirror
	requests map[string]message // open ones, by subject; those of asking
	asking   *mirror

	turn chan struct{} // has an element while no goroutine renews the lease

	mu     sync.Mutex
	told   reading   // by the clock of the server
	heard  time.Time // when that was asked for
	term   uint64
	joined bool
	doubt  bool                  // the lease had lapsed, and the claims are not confirmed yet
	mine   map[session.Key]claim // as this process knows
	taken  []session.Claim       // that others have taken; not told yet
}

var _ cluster.Ledger = (*ledger)(nil)

// newLedger returns the ledger of a Store.
func newLedger(e *engine, timeout time.Duration) *ledger {
	l := &ledger{
		journal: journal{e}, docs: e.docs.within(timeout).in(paceBrief),
		bodies: e.docs.within(max(timeout, e.timeout)),
		turn:   make(chan struct{}, 1), mine: make(map[session.Key]claim),
	}
	l.turn <- struct{}{}
	l.whom = newMirror(l.docs, l.docs.subject(processKind, "*"), func(m message) {
		var p membership
		if json.Unmarshal(m.data, &p) == nil {
			p.seq, p.beat = m.seq, m.time
			l.members[p.Name] = p
		}
	}, func() { l.members = make(map[string]membership) })
	l.claimed = newMirror(l.docs, l.docs.subject(claimKind, "*"), func(m message) {
		var c claim
		if json.Unmarshal(m.data, &c) == nil && !c.Released {
			c.seq = m.seq
			l.claims[lastToken(m.subject)] = c
			return
		}
		delete(l.claims, lastToken(m.subject))
	}, func() { l.claims = make(map[string]claim) })
	l.leads = newMirror(e.log.within(timeout), e.log.subject(dueKind, "*"), l.addLead,
		func() { l.dues = make(map[string]*dueTree) })
	l.asking = newMirror(l.docs.in(paceUsual), l.docs.subject(requestKind, "*"), l.addRequest,
		func() { l.requests = make(map[string]message) })
	return l
}

// newProcess returns a process of that name which has not joined.
func (l *ledger) newProcess(ctx context.Context, name string) (session.Process, error) {
	n, err := l.docs.publish(ctx, publication{subject: l.docs.subject(incarnationKind)})
	return session.Process{Name: name, Incarnation: n}, err
}

// clockAge is for how long a time that the server has told is counted on.
const clockAge = time.Second

// clock returns the time of the server, or one before it: what was told, and what has passed since
// it came. So no lease ends early by it.
func (l *ledger) clock(ctx context.Context) (r reading, err error) {
	l.mu.Lock()
	r, passed := l.told, time.Since(l.heard)
	l.mu.Unlock()
	if !r.now.IsZero() && passed < clockAge {
		r.now = r.now.Add(passed)
		return r, nil
	}
	if r, err = l.docs.clock(ctx); err == nil {
		l.mu.Lock()
		l.told, l.heard = r, time.Now()
		l.mu.Unlock()
	}
	return r, err
}

// look returns who has a lease.
func (l *ledger) look(ctx context.Context) (v view, err error) {
	r, err := l.clock(ctx)
	if err != nil {
		return v, err
	}
	done, err := l.whom.refresh(ctx, r)
	if err != nil {
		return v, err
	}
	defer done()
	return view{r.now, maps.Clone(l.members)}, nil
}

// put replaces a document. The error is errMoved if it is not that of a sequence any more.
func (s stream) put(
	ctx context.Context, subject string, v any, after uint64, ttl time.Duration,
) (uint64, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return s.publish(ctx, publication{
		subject: subject, data: data, after: after, compares: true, ttl: ttl,
	})
}

// load reads a document, and reports whether there is one.
func (s stream) load(ctx context.Context, subject string, v any) (m message, ok bool, err error) {
	m, ok, err = s.last(ctx, subject)
	if err == nil && ok {
		if err = json.Unmarshal(m.data, v); err != nil {
			err = &session.CorruptError{
				File: "subject " + subject, Offset: int64(min(m.seq, math.MaxInt64)), Reason: err.Error(),
			}
		}
	}
	return m, ok, err
}

// member returns what the server knows of the process of a name.
func (l *ledger) member(
	ctx context.Context, name string,
) (m membership, subject string, err error) {
	subject = l.docs.subject(processKind, token(name))
	found, ok, err := l.docs.load(ctx, subject, &m)
	if ok && err == nil {
		m.seq, m.beat = found.seq, found.time
	}
	return m, subject, err
}

// claimOn returns what the server knows of who has a tree.
func (l *ledger) claimOn(
	ctx context.Context, root session.Key,
) (c claim, subject string, err error) {
	subject = l.docs.subject(claimKind, token(root.String()))
	m, ok, err := l.docs.load(ctx, subject, &c)
	if ok && err == nil {
		c.seq = m.seq
	}
	return c, subject, err
}

// renew begins or renews the lease of p, and reports whether it begins.
func (l *ledger) renew(
	ctx context.Context, p session.Process, d time.Duration,
) (begun bool, err error) {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	for {
		now, subject, err := l.member(ctx, p.Name)
		if err != nil {
			return begun, err
		}
		if now.Incarnation > p.Incarnation {
			return begun, session.ErrReplaced
		}
		next := membership{tenant: tenant{p, now.Term}, Lease: d}
		same := now.Process == p
		if !same {
			next.Term = l.termIfJoined()
		}
		next.seq, err = l.docs.put(ctx, subject, next, now.seq, processTTL)
		if errors.Is(err, errMoved) {
			continue
		}
		var m message
		ok := false
		if err == nil {
			m, ok, err = l.docs.at(ctx, next.seq)
		}
		if err != nil {
			return begun, err
		}
		if !ok { // another process has taken the name
			continue
		}
		return l.joinedAt(same, now, next, m.time), l.confirm(ctx, next.tenant)
	}
}

// termIfJoined returns the term of the process, if it has one: its membership was forgotten.
func (l *ledger) termIfJoined() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// joinedAt notes that the lease begins or goes on at a time, and reports whether it begins.
func (l *ledger) joinedAt(same bool, before, now membership, at time.Time) (begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined && (!same || !before.Left && !at.Before(before.beat.Add(before.Lease))) {
		l.doubt = true
	}
	begun = !l.joined
	l.joined, l.term = true, now.Term
	return begun
}

// confirm writes the claims of the process again, if its lease had lapsed, and finds out which of
// them others have taken.
func (l *ledger) confirm(ctx context.Context, me tenant) error {
	l.mu.Lock()
	var claims []claim
	if l.doubt {
		for _, c := range l.mine {
			claims = append(claims, c)
		}
	}
	l.mu.Unlock()
	for _, c := range claims {
		if err := l.confirmOne(ctx, me, c); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubt = false
	return nil
}

// confirmOne writes a claim of the process again, or notes that it was taken.
func (l *ledger) confirmOne(ctx context.Context, me tenant, c claim) error {
	was, err := c.of()
	if err != nil {
		return err
	}
	for {
		now, subject, err := l.claimOn(ctx, was.Root)
		if err != nil {
			return err
		}
		is, _ := now.of()
		taken := now.seq == 0 || now.Owner != me || is.Epoch != was.Epoch
		if !taken {
			now.Epoch = is.Epoch
			now.seq, err = l.docs.put(ctx, subject, now, now.seq, 0)
			if errors.Is(err, errMoved) {
				continue
			}
		}
		if err != nil {
			return err
		}
		if taken {
			l.lose(was, c)
		}
		return nil
	}
}

// lose notes that another process has taken a tree.
func (l *ledger) lose(was session.Claim, c claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mine[was.Root].seq == c.seq {
		delete(l.mine, was.Root)
		l.taken = append(l.taken, was)
	}
}

// Beat implements cluster.Ledger.
func (l *ledger) Beat(
	ctx context.Context, p session.Process, d time.Duration, _ []uint64,
) (taken []session.Claim, begun bool, err error) {
	begun, err = l.renew(ctx, p, d)
	if err != nil {
		return nil, begun, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken, l.taken = l.taken, nil
	return taken, begun, nil
}

// Claim implements cluster.Ledger.
func (l *ledger) Claim(
	ctx context.Context, p session.Process, d time.Duration, root session.Key, renew bool,
) (c session.Claim, begun bool, err error) {
	for {
		if renew {
			var first bool
			first, err = l.renew(ctx, p, d)
			begun = begun || first
			if err != nil {
				return c, begun, err
			}
		}
		v, err := l.look(ctx)
		var now claim
		var subject string
		if err == nil {
			now, subject, err = l.claimOn(ctx, root)
		}
		var mark uint64
		if err == nil {
			mark, err = l.markOf(ctx, root)
		}
		if err != nil {
			return c, begun, err
		}
		me := tenant{p, l.termIfJoined()}
		if renew = !v.has(me); renew {
			continue
		}
		if now.isClaim() && now.Owner != me && v.has(now.Owner) {
			if c, err = now.of(); err == nil {
				err = &session.OwnedError{Claim: c}
			}
			return session.Claim{}, begun, err
		}
		if !now.isClaim() || now.Owner != me || now.epoch() < mark {
			now, err = l.replaceClaim(ctx, root, subject, me, now, mark)
			if errors.Is(err, errMoved) {
				continue
			}
		}
		if err == nil {
			c, err = l.enter(ctx, root, now)
		}
		return c, begun, err
	}
}

// replaceClaim puts the claim of a process in the place of another one.
func (l *ledger) replaceClaim(
	ctx context.Context, root session.Key, subject string, me tenant, now claim, mark uint64,
) (next claim, err error) {
	r, err := l.clock(ctx)
	if err == nil && r.last < max(mark, now.epoch()) { // it may have been read before
		r, err = l.docs.clock(ctx)
	}
	if err != nil {
		return now, err
	}
	next = nextClaim(root, me, now, mark, r.last)
	next.seq, err = l.docs.put(ctx, subject, next, now.seq, 0)
	return next, err
}

// markOf returns the epoch that the log of a tree names, 0 for none. One that is damaged names
// none: who reads it is told.
func (l *ledger) markOf(ctx context.Context, root session.Key) (uint64, error) {
	tip, err := l.journal.chainOf(root).within(l.docs.timeout).tip(ctx)
	if errors.Is(err, session.ErrCorrupt) {
		return 0, nil
	}
	return tip.Epoch, err
}

// enter notes a claim of the process. If it was taken from another one, or from documents that are
// lost, the log is fenced first: so the next claim begins above it.
func (l *ledger) enter(ctx context.Context, root session.Key, now claim) (session.Claim, error) {
	c, err := now.of()
	l.mu.Lock()
	was, known := l.mine[root]
	l.mu.Unlock()
	known = known && was.epoch() == now.epoch()
	if err == nil && (now.Taken || now.lifted()) && !known {
		err = l.journal.fence(ctx, root, c.Epoch)
	}
	if err != nil {
		return session.Claim{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine[root] = now
	return c, nil
}

// Release implements cluster.Ledger.
func (l *ledger) Release(ctx context.Context, p session.Process, c session.Claim) error {
	for c.Owner == p {
		now, subject, err := l.claimOn(ctx, c.Root)
		if err != nil {
			return err
		}
		is, _ := now.of()
		if now.isClaim() && is == c {
			now.Released = true
			_, err = l.docs.put(ctx, subject, now, now.seq, markTTL)
			if errors.Is(err, errMoved) {
				continue
			}
		}
		if err == nil {
			l.mu.Lock()
			if is, _ := l.mine[c.Root].of(); is == c {
				delete(l.mine, c.Root)
			}
			l.mu.Unlock()
		}
		return err
	}
	return nil
}

// Leave implements cluster.Ledger.
func (l *ledger) Leave(ctx context.Context, p session.Process, _ bool) error {
	for {
		now, subject, err := l.member(ctx, p.Name)
		if err != nil {
			return err
		}
		if now.Process == p && !now.Left {
			now.Left = true
			now.Term++
			_, err = l.docs.put(ctx, subject, now, now.seq, processTTL)
			if errors.Is(err, errMoved) {
				continue
			}
		}
		l.forget()
		return err
	}
}

// forget forgets the lease of the process and its claims.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined, l.doubt, l.taken = false, false, nil
	clear(l.mine)
}

// sweptAfter is after which time the claims of a process go that was not heard of.
const sweptAfter = MaxLease

// Sweep implements cluster.Ledger. It takes away the claims of processes that are gone for long.
func (l *ledger) Sweep(ctx context.Context) error {
	v, err := l.look(ctx)
	if err != nil {
		return err
	}
	done, err := l.claimed.refresh(ctx, reading{})
	if err != nil {
		return err
	}
	var gone []claim
	for _, c := range l.claims {
		m, ok := v.members[c.Owner.Name]
		if !v.has(c.Owner) && (!ok || m.tenant != c.Owner || v.now.Sub(m.beat) > sweptAfter) {
			gone = append(gone, c)
		}
	}
	done()
	for _, c := range gone {
		c.Released = true
		_, err := l.docs.put(ctx, l.docs.subject(claimKind, token(c.Root)), c, c.seq, markTTL)
		if err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
	return nil
}

// A dueTree is what leads to a log that may be due.
type dueTree struct {
	token string      // of the root
	root  session.Key // zero until it was looked at
	leads []dueLead
	// The log was looked at when there was nothing newer than these sequences.
	claimSeq, leadSeq uint64
	due               time.Time // what that look has found; zero: not due
}

type dueLead struct {
	lead
	seq uint64
}

// addLead notes what leads to a log.
func (l *ledger) addLead(m message) {
	d, ok := parseLead(m)
	if !ok {
		return
	}
	t := l.dues[d.Root]
	if t == nil {
		t = &dueTree{token: token(d.Root)}
		l.dues[d.Root] = t
	}
	t.leads = append(t.leads, dueLead{d, m.seq})
}

// maxLeads is with how many leads a log is looked at, so that those are forgotten which lead to it
// no more.
const maxLeads = 16

// Orphans implements cluster.Ledger. What it knows of them is in memory, so it returns all.
func (l *ledger) Orphans(
	ctx context.Context, _ int,
) (roots []session.Key, behind int, now time.Time, err error) {
	ended, err := l.leads.clock(ctx)
	if err != nil {
		return nil, 0, now, err
	}
	doneLeads, err := l.leads.refresh(ctx, ended)
	if err != nil {
		return nil, 0, now, err
	}
	defer doneLeads()
	v, err := l.look(ctx)
	if err != nil {
		return nil, 0, now, err
	}
	doneClaims, err := l.claimed.refresh(ctx, reading{})
	if err != nil {
		return nil, 0, now, err
	}
	defer doneClaims()
	if err = l.inspectAll(ctx, v); err != nil {
		return nil, 0, now, err
	}
	for text, t := range l.dues {
		if len(t.leads) == 0 {
			delete(l.dues, text)
		}
		free := !v.has(l.claims[t.token].Owner)
		if free && t.root.IsValid() && !t.due.IsZero() && !t.due.After(v.now) {
			roots = append(roots, t.root)
		}
	}
	return roots, 0, v.now, nil
}

// inspectAll looks at the logs that may be orphans, some at a time.
func (l *ledger) inspectAll(ctx context.Context, v view) error {
	const most = 16
	turns := make(chan struct{}, most)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for text, t := range l.dues {
		c := l.claims[t.token]
		isDue := slices.ContainsFunc(t.leads, func(d dueLead) bool { return !d.at().After(v.now) })
		if (!isDue || v.has(c.Owner)) && len(t.leads) <= maxLeads || failed.Load() != nil {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			err := l.inspect(ctx, text, c, t)
			// One that is damaged hides none.
			if err != nil && !errors.Is(err, session.ErrInvalidKey) &&
				!errors.Is(err, session.ErrCorrupt) {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// inspect looks at a log, unless nothing is new since it was last looked at, and forgets what leads
// to it no more.
func (l *ledger) inspect(ctx context.Context, text string, c claim, t *dueTree) error {
	newest := t.leads[len(t.leads)-1].seq
	if t.claimSeq == c.seq && t.leadSeq == newest {
		return nil
	}
	t.due = time.Time{}
	root, err := session.ParseRoot(text)
	if err != nil {
		return err
	}
	tip, err := l.journal.chainOf(root).within(l.docs.timeout).tip(ctx)
	if err != nil {
		return err
	}
	t.root = root
	t.leads = slices.DeleteFunc(t.leads, func(d dueLead) bool {
		old := d.isStale(tip)
		if old {
			_ = l.leads.remove(ctx, d.seq) // or the next look does
		}
		return old
	})
	t.due = tip.Due.at()
	if newest < tip.seq { // else a message may be under way
		t.claimSeq, t.leadSeq = c.seq, newest
	}
	return nil
}

// isStale reports whether what leads to a log leads to it no more.
func (d dueLead) isStale(tip link) bool {
	return d.seq < tip.seq && (tip.Due == nil || tip.Due.Seq != d.seq)
}
