package spawn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tenure"
)

// A cluster is the part of a Supervisor in what several processes share by the Owners of its Store:
// which trees it has, and whether it may act for them now. A Supervisor whose Store has no Owners
// has a nil cluster, and every tree. It is safe for concurrent use.
//
// Run joins, and the end of a shutdown leaves, after the last append: from then on others take the
// trees over. A Supervisor that does not run claims a tree for a command, and gives it up after it.
type cluster struct {
	sup    *Supervisor
	owners session.Owners

	mu        sync.Mutex
	joined    bool      // until the end of a shutdown
	releaseAt time.Time // when a process that ends gives trees up again, after a failure
	// saidKept is set when the log says that trees were not handed over.
	saidKept bool
	ended    bool // a shutdown has begun: nothing joins, or takes trees, any more
	tenure   tenure.Tenure
	paused   bool          // the log says that the process does not act
	why      string        // the lease was not renewed the last time; "": that is not known
	changed  chan struct{} // closed, and replaced by another one, when the process may act again
	holds    map[session.Key]*hold
	// asking are the trees whose claim is under way, each with the highest claim that others have
	// taken meanwhile: what is told of it may come before the claim itself.
	asking map[session.Key]uint64

	renew  chan struct{} // has a value when the time of the next look may be another one
	orphan context.CancelFunc
	leave  context.CancelFunc
	gone   chan struct{} // closed when all goroutines of the cluster have ended
}

// A hold is one claim of this process on a tree. A nil one is that of a Supervisor that has every
// tree.
type hold struct {
	cluster *cluster
	claim   session.Claim
	lost    chan struct{} // closed when the claim is over
}

var (
	// errTaken is why a tree is lost that another process has claimed.
	errTaken = fmt.Errorf("%w: it was taken while this process could not be heard",
		session.ErrOwned)
	// errAllOut is why all trees are lost.
	errAllOut = errors.New("spawn: the process could not be heard for too long")
)

// newCluster returns the cluster of a Supervisor, or nil.
func newCluster(s *Supervisor) *cluster {
	if s.cfg.Store.Owners == nil {
		return nil
	}
	return &cluster{
		sup: s, owners: s.cfg.Store.Owners, changed: make(chan struct{}),
		holds: make(map[session.Key]*hold), asking: make(map[session.Key]uint64),
		renew: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// shareLane has the slots of turns be those of all processes.
func (c *cluster) shareLane() {
	if c != nil {
		c.sup.lane.Share(session.NewID(), c.owners.Lane)
	}
}

// join has the process take part until the end of a shutdown.
func (c *cluster) join() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.joined = true
	var serving, taking context.Context
	serving, c.leave = context.WithCancel(c.sup.detachedCtx)
	taking, c.orphan = context.WithCancel(serving)
	var all sync.WaitGroup
	all.Go(func() { c.serve(serving) })
	all.Go(func() { c.look(serving) })
	all.Go(func() { c.takeOrphans(taking) })
	go func() { // ends with them: end waits for it
		all.Wait()
		close(c.gone)
	}()
}

// stopTaking ends the search for trees without a process. Run does not join after it, and each tree
// is given up as soon as nothing of it is under way.
func (c *cluster) stopTaking() {
	if c == nil {
		return
	}
	c.mu.Lock()
	stop := c.orphan
	c.ended = true
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// handOver gives up each tree of which nothing is under way any more, until ctx ends. Others answer
// in these trees while the shutdown waits for what is under way in the rest.
func (c *cluster) handOver(ctx context.Context) {
	if c == nil {
		return
	}
	again := time.NewTicker(handOverEvery)
	defer again.Stop()
	opening := make(chan struct{}, maxOpening)
	for {
		for _, sh := range c.sup.allShells() {
			if c.has(sh.owner.Root()) && !sh.underWay() && c.releases() == nil &&
				!oneOf(ctx, opening, sh.owner.PeekThen) {
				return
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// handOverEvery is how often a shutdown looks for trees of which nothing is under way any more.
const handOverEvery = 50 * time.Millisecond

// end leaves, which gives every claim up. It reports whether the Owners have returned in time.
func (c *cluster) end(within time.Duration) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	joined, leave := c.joined, c.leave
	c.mu.Unlock()
	if !joined {
		return true
	}
	leave()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.gone:
		return true
	case <-late.C:
		go c.sayKept(errLateOwners) // it ends when the Logger returns
		return false
	}
}

// serve takes part. If the Owners end that, every tree is lost, and the Supervisor ends.
func (c *cluster) serve(ctx context.Context) {
	err := contained(func() error {
		return c.owners.Serve(ctx, session.Member{
			Handle: c.handle, Lease: c.renewed, Failed: c.notRenewed, Trouble: c.trouble,
		})
	})
	if ctx.Err() != nil {
		if err != nil {
			c.sayKept(err)
		}
		return
	}
	if err == nil {
		err = errors.New("spawn: the Owners of the store have ended Serve")
	} else if !owner.Dead(err) {
		err = fmt.Errorf("spawn: the Owners of the store have ended Serve: %w", err)
	}
	c.mu.Lock()
	lost := c.takeAll()
	c.mu.Unlock()
	c.loseAll(lost, err, true)
	c.sup.fatal(err)
}

// sayKept logs that a process ends with trees which it could not give up, because of err.
func (c *cluster) sayKept(err error) {
	c.mu.Lock()
	trees, said := len(c.holds), c.saidKept
	c.saidKept = true
	c.mu.Unlock()
	if trees > 0 && !said {
		c.sup.log.Warn("offshoot: trees were not handed over: they wait for the end of the lease",
			"trees", trees, "error", err.Error())
	}
}

// errLateOwners is why trees are not handed over by Owners that hang.
var errLateOwners = errors.New("spawn: the Owners of the store have not returned in time")

// renewed takes what the Owners say of the lease.
func (c *cluster) renewed(l session.Lease) {
	c.mu.Lock()
	c.why = ""
	change := c.tenure.Renewed(l, time.Now())
	say := c.note()
	var out, taken []*hold
	if change.AllOut {
		out = c.takeAll()
	}
	for _, claim := range l.Taken {
		if seen, asks := c.asking[claim.Root]; asks {
			c.asking[claim.Root] = max(seen, claim.Epoch)
		}
		if h := c.holds[claim.Root]; h != nil && h.claim.Epoch <= claim.Epoch {
			taken = append(taken, c.take(h))
		}
	}
	c.wake()
	c.mu.Unlock()
	say()
	c.loseAll(out, errAllOut, false)
	c.lose(taken, errTaken, true)
	select {
	case c.renew <- struct{}{}:
	default:
	}
}

// notRenewed takes why the lease was not renewed, for the log.
func (c *cluster) notRenewed(err error) {
	why := err.Error()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
}

// trouble logs work that the engine fails at.
func (c *cluster) trouble(work string, err error) {
	if err == nil {
		c.sup.log.Info("offshoot: the engine does its work for this process again", "work", work)
		return
	}
	c.sup.log.Error("offshoot: the engine fails at its work for this process", "work", work,
		"error", c.sup.errorText(err))
}

// look ends the claims of a process that cannot be heard for too long, until ctx ends.
func (c *cluster) look(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.renew:
		case <-ctx.Done():
			return
		}
		var out []*hold
		c.mu.Lock()
		if c.tenure.Look(time.Now()).AllOut {
			out = c.takeAll()
		}
		next := c.tenure.Next()
		say := c.note()
		c.mu.Unlock()
		say()
		c.loseAll(out, errAllOut, false)
		if !next.IsZero() {
			timer.Reset(max(time.Until(next), 0))
		}
	}
}

// note takes note of whether the process may act, and returns what logs that if it is news. The
// caller holds the lock, and calls the function without it.
func (c *cluster) note() (say func()) {
	state := c.tenure.State()
	paused := state == tenure.Paused || state == tenure.Absent && c.paused
	if paused == c.paused {
		return func() {}
	}
	c.paused = paused
	text := "offshoot: the process acts for its trees again"
	if paused {
		text = "offshoot: the process does not act for its trees: its lease was not renewed in time"
	}
	attrs := []any{"tenure", state.String()}
	if paused && c.why != "" {
		attrs = append(attrs, "error", c.why)
	}
	return func() { c.sup.logBeside(slog.LevelWarn, text, attrs...) }
}

// takeOrphans claims trees that are due and that no process has, until ctx ends.
func (c *cluster) takeOrphans(ctx context.Context) {
	opening := make(chan struct{}, maxOpening)
	for ctx.Err() == nil {
		err := contained(func() error {
			for root, err := range c.owners.Orphans(ctx) {
				if err != nil {
					return err
				}
				if !isTree(root) {
					continue
				}
				if err := c.wait(ctx, nil); err != nil {
					return err
				}
				if !oneOf(ctx, opening, c.sup.shellOf(root).owner.TakeOver) {
					return ctx.Err()
				}
			}
			return nil
		})
		if ctx.Err() == nil {
			c.sup.log.Error("offshoot: looking for trees without a process failed",
				"error", fmt.Sprint(err))
			again := time.NewTimer(sweepEvery)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			again.Stop()
		}
	}
}

// wait waits until the process may act, by its own clock. The error is lostError once lost is
// closed, or the cause of ctx.
func (c *cluster) wait(ctx context.Context, lost <-chan struct{}) error {
	for {
		c.mu.Lock()
		may, changed := c.tenure.MayAct(time.Now()), c.changed
		c.mu.Unlock()
		select {
		case <-lost:
			return lostError{}
		default:
		}
		if may {
			return nil
		}
		select {
		case <-changed:
		case <-lost:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wake wakes those who wait until the process may act. The caller holds the lock.
func (c *cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// take ends a hold. The caller holds the lock, and calls lose without it.
func (c *cluster) take(h *hold) *hold {
	close(h.lost)
	delete(c.holds, h.claim.Root)
	return h
}

// takeAll ends all holds. The caller holds the lock, and calls lose without it.
func (c *cluster) takeAll() (all []*hold) {
	for _, h := range c.holds {
		all = append(all, c.take(h))
	}
	return all
}

// lose ends what is under way for trees whose holds have ended, and has their owners drop them.
func (c *cluster) lose(list []*hold, err error, taken bool) {
	for _, h := range list {
		c.sup.mu.Lock()
		sh := c.sup.shells[h.claim.Root]
		c.sup.mu.Unlock()
		if sh != nil {
			sh.cut(h)
			sh.owner.Lose(h.claim.Epoch, err, taken)
		}
	}
}

// loseAll is lose for all trees of the process, which one line of the log tells, and not one for
// each.
func (c *cluster) loseAll(list []*hold, err error, taken bool) {
	if len(list) == 0 {
		return
	}
	c.sup.logBeside(slog.LevelError, "offshoot: the process has lost all its trees",
		"trees", len(list), "process", list[0].claim.Owner.Name, "error", err.Error())
	c.lose(list, &allLostError{err}, taken)
}

// An allLostError is why a process has lost all its trees.
type allLostError struct{ error }

func (e *allLostError) Unwrap() error { return e.error }

// Claim implements owner.Claims.
func (c *cluster) Claim(ctx context.Context, root session.Key) (epoch uint64, err error) {
	c.mu.Lock()
	c.asking[root] = 0
	c.mu.Unlock()
	var claim session.Claim
	err = contained(func() (err error) {
		claim, err = c.owners.Claim(ctx, root)
		return err
	})
	c.mu.Lock()
	taken := c.asking[root]
	delete(c.asking, root)
	old := c.holds[root]
	switch {
	case err == nil && claim.Epoch <= taken:
		err = errTaken
	case err == nil && old != nil && old.claim == claim:
		old = nil
	case err == nil:
		c.holds[root] = &hold{c, claim, make(chan struct{})}
	case !errors.Is(err, session.ErrOwned):
		old = nil // it is not known that it is over
	}
	if old != nil {
		close(old.lost)
		if c.holds[root] == old {
			delete(c.holds, root)
		}
	}
	c.mu.Unlock()
	return claim.Epoch, err
}

// Release implements owner.Claims.
func (c *cluster) Release(ctx context.Context, root session.Key) error {
	c.mu.Lock()
	h := c.holds[root]
	c.mu.Unlock()
	if h == nil {
		return nil
	}
	if c.Leaves() { // what is left at the end of a shutdown is given up together
		if err := c.releases(); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, releaseWithin)
		defer cancel()
		defer context.AfterFunc(c.sup.workCtx, cancel)() //nolint:contextcheck // soon ends with both
		ctx = soon
	}
	if err := contained(func() error { return c.owners.Release(ctx, h.claim) }); err != nil {
		c.mu.Lock()
		c.releaseAt = time.Now().Add(releaseAgain)
		c.mu.Unlock()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds[root] == h {
		c.take(h)
	}
	return nil
}

// releaseWithin is how long a process that ends waits until an engine has given one tree up.
const releaseWithin = 2 * time.Second

// releaseAgain is how long a process that ends waits after an engine has failed to give a tree up.
// A shutdown of which nothing else is under way ends meanwhile.
const releaseAgain = 5 * time.Second

var errReleaseLater = errors.New("spawn: the engine has just failed to give a tree up")

// releases returns nil if a process that ends may ask the engine to give a tree up now.
func (c *cluster) releases() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.releaseAt) {
		return errReleaseLater
	}
	return nil
}

// Leaves implements owner.Claims.
func (c *cluster) Leaves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined && c.ended
}

// Keeps implements owner.Claims.
func (c *cluster) Keeps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined
}

// InUse implements owner.Claims.
func (c *cluster) InUse(root session.Key) bool {
	sh := c.sup.shellOf(root)
	if c.Leaves() {
		return sh.underWay()
	}
	return sh.inUse()
}

// holdOf returns the hold of this process on a tree: one that is lost if it has none, and nil if it
// has every tree.
func (c *cluster) holdOf(root session.Key) *hold {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.holds[root]; h != nil {
		return h
	}
	none := &hold{cluster: c, lost: make(chan struct{})}
	close(none.lost)
	return none
}

// has reports whether this process has claimed a tree.
func (c *cluster) has(root session.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds[root] != nil
}

// isLost reports whether the tree is not that of this process any more.
func (h *hold) isLost() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.lost:
		return true
	default:
		return false
	}
}

// wait waits until the process may act for the tree. The error is lostError if the tree is not that
// of this process any more, or the cause of ctx.
func (h *hold) wait(ctx context.Context) error {
	if h == nil {
		return nil
	}
	return h.cluster.wait(ctx, h.lost)
}

// A briefClaim is the owner.Claims of what has one tree for one command.
type briefClaim struct {
	owners session.Owners
	claim  session.Claim
}

// Claim implements owner.Claims.
func (b *briefClaim) Claim(ctx context.Context, root session.Key) (uint64, error) {
	err := contained(func() (err error) {
		b.claim, err = b.owners.Claim(ctx, root)
		return err
	})
	return b.claim.Epoch, err
}

// Release implements owner.Claims.
func (b *briefClaim) Release(ctx context.Context, _ session.Key) error {
	return contained(func() error { return b.owners.Release(ctx, b.claim) })
}

// Keeps implements owner.Claims.
func (*briefClaim) Keeps() bool { return false }

// Leaves implements owner.Claims.
func (*briefClaim) Leaves() bool { return false }

// InUse implements owner.Claims.
func (*briefClaim) InUse(session.Key) bool { return false }
