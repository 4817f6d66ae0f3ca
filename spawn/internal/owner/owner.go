package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ErrUnconfirmed is the error of a command that may have happened or not, because an append failed
// or another owner took the tree over. Package spawn adds how the caller may repeat the command.
var ErrUnconfirmed = errors.New("spawn: it is not known whether this was recorded")

// ErrNotRecorded is the error of a command that is not in the journal and will not be, because the
// journal failed or another owner took the tree over. The caller may send the command again.
var ErrNotRecorded = errors.New("spawn: this was not recorded and may be sent again")

// ErrUnreadable is the error of a call that only reads, while the journal fails.
var ErrUnreadable = errors.New("spawn: the tree cannot be read now")

// ErrShutdown is the error of every command after a shutdown.
var ErrShutdown = errors.New("spawn: shut down")

// ErrRetired is the error of a call of an owner that has retired. Nothing has happened. Another
// owner of the tree is to be asked.
var ErrRetired = errors.New("spawn: the owner of the tree has retired")

// An Executor performs the effects of one tree. The owner calls its methods one at a time, and they
// must not block. They may read the tree, and only during the call. An Executor passes gen, the
// incarnation of the tree, back with whatever it reports later.
type Executor interface {
	// Start starts the open turn of a run. The goroutine that calls it may do the turn itself once
	// it has drained the queue.
	Start(on Goroutine, gen uint64, t *tree.Tree, r *tree.Run)
	// Cancel cancels turn n of a run.
	Cancel(r *tree.Run, n uint32)
	// Free gives the slot of turn n of a run back. It returns false for a turn that was never
	// started, whose slot the owner then gives back itself.
	Free(r *tree.Run, n uint32) bool
	// Deliver hands an entry of the outbox over to its receiver. With more another one for the same
	// destination follows at once, which the receiver may be given in the same call. The goroutine
	// that calls Deliver may call the receiver itself once it has drained the queue.
	Deliver(on Goroutine, gen uint64, t *tree.Tree, e *tree.Entry, more bool)
	// Recall drops the entries for a destination that were handed over. The Executor must have
	// called the receiver for none of them since it sent a tree.Settle with an error.
	Recall(to tree.Destination)
	// Archive archives the transcript of a run, or that of the top-level session before a reset:
	// the first of its RunState.Former.
	Archive(gen uint64, t *tree.Tree, r *tree.Run)
	// Restore takes the archive of a run into use again, and then sends a tree.RestoreDone.
	Restore(gen uint64, r *tree.Run)
	// Drop removes the files of a deposit, and then sends a tree.DropDone.
	Drop(gen uint64, d tree.DroppedDeposit)
	// Tidy removes what the program has made for an ended run outside of the store.
	Tidy(r *tree.Run)
	// Unbind unbinds a conversation from a run for a reason, and then sends a tree.UnbindDone.
	Unbind(gen uint64, r *tree.Run, route session.Route, reason string)
	// Answer tells the caller whose wish has an ID what it has come to; nil: it has happened.
	Answer(id string, err error)
	// Round shows the tree at the beginning of a round, before anything is decided: it is what the
	// journal has up to the place at, which is the zero Place for a tree that is not on record.
	Round(t *tree.Tree, at Place)
	// Publish shows durable facts to those who watch: the batch that follows the entry after, ends
	// at the place at, and is the last that the tree has folded.
	Publish(on Goroutine, t *tree.Tree, after session.Seq, at Place, facts []tree.Fact)
	// Lost cancels every turn and drops every delivery, because the tree was discarded with err.
	// With taken another owner is known to have the tree now. Among several processes a conflict
	// alone does not say that.
	Lost(err error, taken bool)
	// Stalled reports that the journal fails with err for now, or with nil that it works again.
	Stalled(err error)
	// Owned reports that another process has the tree, as err says. No turn and no delivery of this
	// process is under way, but calls may wait for the tree.
	Owned(err error)
	// Rested reports that the owner has nothing to do and no tree in memory. It may be called while
	// the owner works again. Rested may call Retire.
	Rested()
}

// A Goroutine drains the queue of an owner. When it has, it may do what the owner has started last.
type Goroutine interface {
	// HandOver has other goroutines do what this one was to do next: the owner needs it for longer.
	HandOver()
}

// A Starter starts a goroutine as Config.Go does.
type Starter interface {
	Start(drain func(Goroutine)) bool
}

// Config is what the owners of one supervisor share. Check, Claims and Now may be nil, and a nil
// Closed is never closed; every other exported field must be set.
type Config struct {
	Journal session.Journal
	Options *tree.Options
	Lane    *Lane
	Writer  string        // the name of this process among the owners of a tree
	Rand    func() uint64 // for nonces; must not be guessable
	NewID   func() string // returns a new UUID
	// Go starts a goroutine that Shutdown waits for, which calls drain with itself, or with nil if
	// it does nothing afterwards. False: it is too late.
	Go     func(drain func(Goroutine)) bool
	Active func() bool     // whether turns, deliveries and timers are wanted
	Awake  func() bool     // Active, or a shutdown still waits for what is under way
	Fatal  func(error)     // called with the error of a journal that will never append again
	Closed <-chan struct{} // closed when no caller is answered any more
	// Now is the wall clock that decisions go by. It may be set back and forward. Nil: time.Now.
	Now func() time.Time
	// Context returns the context of the journal's calls, which must outlive every command.
	Context func() context.Context
	// Claims say which trees this process has. Nil: it has all of them.
	Claims Claims
	// Check is for the tests of this package and of spawn. The owner calls it after every append
	// with the durable tree.
	Check func(root session.Key, t *tree.Tree, last session.Seq)

	lastRepair atomic.Pointer[session.RepairMark] // see repairMark; nil: not read yet

	batchNames atomic.Uint64 // how many names of batches the owners have made, see batchID

	// The pools save 5 of 22 allocations for each child of BenchmarkFlat in package spawn.
	//
	// sendPool keeps calls that no caller waits for.
	sendPool sync.Pool
	// callPool keeps calls that a caller waited for, with their channels. A call whose caller left
	// does not return to the pool, because the owner may still send to its channel.
	callPool sync.Pool
}

// Start implements Starter.
func (c *Config) Start(drain func(Goroutine)) bool { return c.Go(drain) }

// now returns the time of a decision, in Unix nanoseconds.
func (c *Config) now() int64 {
	if c.Now != nil {
		return c.Now().UnixNano()
	}
	return time.Now().UnixNano()
}

// Owner owns one tree: it alone decides about the tree and appends to its journal. Another process
// may take the tree over, which the owner learns from a conflict of its next append. Make one with
// [New]. Its exported methods may be called concurrently.
type Owner struct {
	cfg  *Config
	root session.Key
	exec Executor

	mu       sync.Mutex
	queue    []*call
	draining bool          // a goroutine drains the queue
	retired  bool          // no call is taken any more
	unacted  []unactedTurn // see there

	spoken atomic.Bool // LastWord speaks for the owner, which decides nothing any more

	// Only the goroutine that drains the queue touches what follows.

	on Goroutine // itself; may be nil

	tree *tree.Tree  // nil: not in memory
	gen  uint64      // incarnation of the tree in memory; calls of an older one are stale
	last session.Seq // of the journal

	lastBatch session.BatchID // the batch that ends at last
	previous  session.Seq     // what last was before that batch

	batchIDs     string          // names of batches to come, see batchID
	spareEntries []session.Entry // allocated and not used, see entriesOf
	spareMembers []session.Key   // likewise, see membersOf
	slab         int             // how many entries were allocated last
	spareText    int             // bytes of texts that spareEntries and the tree keep
	spareQueue   []*call         // the memory of the batch before, which the queue reuses

	claim uint64 // the number of the claim on the tree; 0: none, see Claims

	wakeAt  int64         // Unix nanoseconds that the timer is set to by schedule; 0: not set
	backoff time.Duration // before the last retry; 0 after a successful append
	stalled *stall        // nil: the journal works

	noAppendYet      bool // nothing has been appended since the tree was read
	absent           bool // what was decided last is not in the journal, see append
	quiet            bool // nothing was under way before what was decided last
	stallReported    bool // Stalled was told an error, and not yet that it is over
	snapshotTooLarge bool // a snapshot is more than the journal takes in one batch
	lostToOther      bool // another owner took the tree; only a caller's command takes it back
	keepsRuns        bool // the tree had runs when it was dropped, or cannot be read and may have
	retrying         bool // the timer is set to try again what failed

	// unclear goes on with an append that ended its goroutine, after a look at the log. It is nil
	// if there is none.
	unclear func(look bool)

	lastUsed time.Time // when the last batch was decided
	// drainFunc is the method drain; made once, because a method value is an allocation.
	drainFunc func(Goroutine)

	parked []*call // of callers that wait until the tree can be opened, see park

	waiting   atomic.Bool // stalled is not nil; for readers in other goroutines
	hasParked atomic.Bool // parked is not empty; for readers in other goroutines

	timerMu sync.Mutex // StopTimer may be called from any goroutine
	timer   *time.Timer
}

// New returns an owner of the tree of a top-level session. The owner reads the tree with its first
// command.
func New(cfg *Config, root session.Key, exec Executor) *Owner {
	o := &Owner{cfg: cfg, root: root, exec: exec, gen: 1}
	o.drainFunc = o.drain
	return o
}

// Root returns the key of the top-level session.
func (o *Owner) Root() session.Key { return o.root }

// drain runs rounds until the queue is empty, and then its goroutine ends.
//
// A journal may end the goroutine, with runtime.Goexit. The functions that call the journal have
// deferred calls then, which treat that as a failure or set unclear, and another goroutine goes on.
func (o *Owner) drain(on Goroutine) {
	o.on = on
	exited := true
	defer func() {
		if exited {
			o.goOn()
		}
	}()
	if goOn := o.unclear; goOn != nil {
		o.unclear = func(bool) { goOn(false) } // if this goroutine ends, too
		goOn(true)
		o.unclear = nil
	}
	rested := false
	for batch := o.nextBatch(); len(batch) > 0; batch = o.nextBatch() {
		o.handOver()
		o.step(batch)
		if o.claim != 0 {
			o.giveUp(o.cfg.Context())
		}
		o.waiting.Store(o.stalled != nil) // only now: the step decides what was held, too
		clear(batch)
		o.spareQueue = batch
		rested = o.tree == nil
	}
	exited = false
	if rested {
		o.exec.Rested()
	}
}

// handOver has other goroutines do what the owner has started, since it goes on with what may take
// its time.
func (o *Owner) handOver() {
	if o.on != nil {
		o.on.HandOver()
	}
}

// goOn goes on with the queue after a round whose goroutine ends: in another goroutine, or, if none
// can be started any more, in this deferred call.
func (o *Owner) goOn() {
	o.waiting.Store(o.stalled != nil)
	o.spareQueue = nil // the queue uses its memory
	if !o.cfg.Go(o.drainFunc) {
		o.drain(nil)
	}
}

// step is one round: it opens the tree if need be, decides and applies a batch, appends once, acts
// and answers, and compacts the journal if that is due.
func (o *Owner) step(batch []*call) {
	ctx := o.cfg.Context()
	if o.spoken.Load() {
		o.refuse(batch, ErrShutdown, true)
		return
	}
	batch = o.refuseStale(o.dropLost(batch))
	if o.stalled != nil {
		batch = o.resume(ctx, batch)
	}
	if len(batch) == 0 {
		return
	}
	if len(batch) == 1 && batch[0].unloadAfter > 0 {
		o.unload(batch[0].unloadAfter)
		o.finish(batch[0])
		return
	}
	batch = o.firstOf(o.unpark(batch))
	if o.tree != nil {
		o.exec.Round(o.tree, Place{o.last, o.lastBatch})
	}
	if !onlyPeeks(batch) {
		o.lastUsed = time.Now() // by the monotonic clock, unlike now
	}
	now := o.cfg.now()
	batch = o.claimFor(ctx, batch)
	if len(batch) == 0 || !o.open(ctx, batch, now) {
		return
	}
	o.tree.Heed()
	o.quiet, o.absent = o.tree.Quiet(), true
	err := o.decideAll(batch, now)
	facts, effects := o.tree.Take()
	if err != nil {
		o.failBatch(err, effects, batch)
		return
	}
	if !o.commit(ctx, facts, effects, batch) {
		return
	}
	if o.tree.Epoch() == 0 || o.isReading() {
		// The tree is not on record, or no claim on it, and the batch only read.
		o.tree, o.last, o.keepsRuns = nil, 0, false
		return
	}
	if o.compact(ctx, now) {
		o.schedule()
	}
}

// onlyPeeks reports whether a batch has no call but those of Peek.
func onlyPeeks(batch []*call) bool {
	return !slices.ContainsFunc(batch, func(c *call) bool { return !c.peek })
}

// commit appends the facts of a batch, then performs its effects and answers its calls. It returns
// false if the journal did not take the facts: the owner is stalled, or the tree is discarded.
func (o *Owner) commit(
	ctx context.Context, facts []tree.Fact, effects []tree.Effect, batch []*call,
) (ok bool) {
	b := o.batchOf(facts)
	returned := false
	defer func() {
		if !returned { // the journal ended the goroutine
			o.unclear = func(look bool) {
				err := errExited
				if look {
					err = o.lookForBatch(ctx, b.ID, err)
				}
				if o.appended(err, b, facts, effects, batch) {
					o.schedule()
				}
			}
		}
	}()
	o.addUnacted(b.ID, effects)
	err := o.append(ctx, b)
	returned = true
	return o.appended(err, b, facts, effects, batch)
}

// appended goes on with a batch whose append has come to err.
func (o *Owner) appended(
	err error, b session.Batch, facts []tree.Fact, effects []tree.Effect, batch []*call,
) bool {
	switch {
	case err == nil:
	case b.Reset && errors.Is(err, session.ErrInvalidBatch):
		// The batch was a snapshot. The log is complete without it.
		o.snapshotTooLarge = true
		return true
	case o.noAppendYet || permanent(err):
		o.failBatch(err, effects, batch)
		return false
	default:
		o.stall(err, b, facts, effects, batch)
		return false
	}
	o.reportStall(nil)
	o.dropUnacted(nil)
	o.act(facts, effects)
	o.answer(batch)
	o.release(facts, effects)
	return true
}

// maxSpareText is how many bytes of texts the facts may have that the memory for the next batches
// keeps with them.
const maxSpareText = 16 << 10

// release drops what refers to a batch that is over. The facts are pieces of memory that later
// batches use as well, so that all of it goes if they have long texts: the tree may rest now.
func (o *Owner) release(facts []tree.Fact, effects []tree.Effect) {
	clear(effects)
	for i := range facts {
		o.spareText += facts[i].TextBytes()
	}
	if o.spareText > maxSpareText {
		o.dropSpare()
	}
}

// dropSpare drops the memory that is kept for the next batches.
func (o *Owner) dropSpare() {
	o.spareEntries, o.spareMembers, o.batchIDs, o.slab, o.spareText = nil, nil, "", 0, 0
	o.mu.Lock()
	if len(o.unacted) == 0 {
		o.unacted = nil
	}
	o.mu.Unlock()
	if o.tree != nil {
		o.tree.DropSpare()
	}
}

// reportStall tells the Executor that the journal fails with err, or with nil that it works again,
// unless it knows.
func (o *Owner) reportStall(err error) {
	if fails := err != nil; fails != o.stallReported {
		o.stallReported = fails
		o.exec.Stalled(err)
	}
}

// failBatch frees the slots that a failed batch gave back, discards the tree, and refuses the calls
// of the batch, except those that wait until the tree can be opened again.
func (o *Owner) failBatch(err error, effects []tree.Effect, batch []*call) {
	o.freeSlots(effects)
	batch = o.park(batch, err)
	o.discardTree(err)
	o.refuse(batch, err, o.absent)
}

// refuseStale returns the calls of a batch that the owner is to handle, in the memory of the batch.
// It refuses calls for an incarnation that has passed, ignores the timer of a tree that another
// owner has and no caller waits for, ignores a request to unload beside other calls, and leaves
// only a tree in memory.
func (o *Owner) refuseStale(batch []*call) []*call {
	rest := batch[:0]
	retrying := o.retrying
	for _, c := range batch {
		o.retrying = o.retrying && !c.timer
		switch {
		case c.gen != 0 && c.gen != o.gen:
			o.releaseSlot(c)
			c.err = fmt.Errorf("%w: %q", tree.ErrStale, o.root)
			o.finish(c)
		case c.timer && o.lostToOther && len(o.parked) == 0, c.unloadAfter > 0 && len(batch) > 1,
			(c.leave || c.peek) && o.tree == nil,
			c.timer && (!c.orphan && !retrying || o.leaves()) && o.isIdle():
			o.finish(c)
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

// isIdle reports whether the owner of a process among several has no tree and no caller that waits:
// it claims one that no process has, and no other.
func (o *Owner) isIdle() bool {
	return o.cfg.Claims != nil && o.tree == nil && o.stalled == nil && len(o.parked) == 0
}

// leaves reports whether the process ends, so that it claims no tree of itself.
func (o *Owner) leaves() bool { return o.cfg.Claims != nil && o.cfg.Claims.Leaves() }

// open reads the tree from the journal and takes it over, if it is not in memory. If that fails,
// open returns false and refuses the batch, except the calls that wait until it succeeds.
func (o *Owner) open(ctx context.Context, batch []*call, now int64) (ok bool) {
	if o.tree != nil {
		return true
	}
	err := errExited // unless takeOver returns
	defer func() {
		if recoverValue(recover(), &err); err != nil {
			o.tree, o.noAppendYet, o.keepsRuns = nil, true, true
			batch = o.park(batch, err)
			o.openFailed(err)
			o.refuse(batch, err, true)
		}
		ok = err == nil
	}()
	err = o.takeOver(ctx, batch, now)
	return ok
}

// takeOver reads the tree and decides to open it. A tree that is not on record is taken over only
// for a command of a caller: reading does not create it.
func (o *Owner) takeOver(ctx context.Context, batch []*call, now int64) error {
	t, last, err := Load(ctx, o.cfg.Journal, o.root, o.cfg.Options)
	if err != nil {
		return err
	}
	o.tree, o.last, o.lastBatch, o.noAppendYet = t, last.Seq, last.Batch, true
	o.exec.Round(t, last)
	if o.isReading() || o.last == 0 && !hasCallerCommand(batch) {
		return nil
	}
	mark, err := o.cfg.repairMark(ctx)
	if err != nil {
		return err
	}
	o.lostToOther, o.retrying = false, false
	cmd := &tree.Open{
		Writer: o.cfg.Writer, SessionID: o.cfg.NewID(), Rand: o.cfg.Rand(),
		Repair: mark.ID, RepairEpoch: uint64(max(mark.Time.UnixMilli(), 0)),
		NotBegun: o.keepUnacted(last.Batch),
	}
	_, err = t.Decide(cmd, now)
	return err
}

// openFailed reports why a tree could not be opened. The owner tries again later, unless the
// journal is dead or a person must repair the tree.
func (o *Owner) openFailed(err error) {
	switch {
	case Dead(err):
		o.cfg.Fatal(err)
	case !Recovers(err):
		o.exec.Stalled(err)
	default:
		o.reportStall(err)
		o.retry()
	}
}

// hasCallerCommand reports whether a batch holds a command or a slot that the timer did not send.
func hasCallerCommand(batch []*call) bool {
	for _, c := range batch {
		if c.cmd != nil && !c.timer || c.slot != nil {
			return true
		}
	}
	return false
}

// decideAll decides the calls of a batch. It takes slots that are free at once in the same batch,
// so that admission and start of a run are one append. A panic is a defect of the tree: decideAll
// returns it as an error, and the tree must be discarded.
func (o *Owner) decideAll(batch []*call, now int64) (err error) {
	defer func() { recoverValue(recover(), &err) }()
	for _, c := range batch {
		switch {
		case c.slot != nil:
			// Grant fails for a run that has left the tree meanwhile.
			if c.err = o.tree.Grant(c.slot.Key(), now); c.err != nil {
				o.releaseSlot(c)
			}
			c.decided = true
		case c.cmd != nil:
			if _, take := c.cmd.(tree.Take); take && c.hasLeft() {
				continue // it would consume inputs that no turn reads
			}
			c.decided = true
			c.reply, c.err = o.tree.Decide(c.cmd, now)
		}
	}
	for i := 0; i < len(o.tree.Effects()); i++ {
		e := o.tree.Effects()[i]
		if e.Kind != tree.EffectAskSlot {
			continue
		}
		if o.cfg.Lane.ask(o, e.Run) {
			if err := o.tree.Grant(e.Run.Key(), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasLeft reports whether the caller of a call has left without an answer.
func (c *call) hasLeft() bool {
	return c.done != nil && atomic.LoadUint32(&c.state) == abandoned
}

// granted is called by the lane when a run that the incarnation gen asked for has its slot. If the
// call cannot be queued any more, the slot goes back.
func (o *Owner) granted(gen uint64, r *tree.Run) {
	c := o.newCall(gen)
	c.slot = r
	if o.enqueue(c) != nil {
		o.releaseSlot(c)
	}
}

// act performs the effects of durable facts and publishes the facts.
func (o *Owner) act(facts []tree.Fact, effects []tree.Effect) {
	for i, e := range effects {
		switch e.Kind {
		case tree.EffectStartTurn:
			if e.Run.Open != nil && e.Run.Open.N == e.Ord {
				o.exec.Start(o.on, o.gen, o.tree, e.Run)
			}
		case tree.EffectCancelTurn:
			o.exec.Cancel(e.Run, e.Ord)
		case tree.EffectFreeSlot:
			o.freeSlot(e)
		case tree.EffectDeliver:
			if entry := o.tree.Entry(e.Ord); entry != nil {
				more := o.sendsMore(entry, effects[i+1:])
				o.exec.Deliver(o.on, o.gen, o.tree, entry, more)
			}
		case tree.EffectRecall:
			o.exec.Recall(*e.To)
		case tree.EffectArchive:
			o.exec.Archive(o.gen, o.tree, e.Run)
		case tree.EffectTidy:
			o.exec.Tidy(e.Run)
		case tree.EffectRestore:
			o.exec.Restore(o.gen, e.Run)
		case tree.EffectDrop:
			o.exec.Drop(o.gen, *e.Deposit)
		case tree.EffectUnbind:
			o.exec.Unbind(o.gen, e.Run, e.To.Route, e.ID)
		case tree.EffectAnswer:
			o.exec.Answer(e.ID, e.Err)
		case tree.EffectAskSlot: // decideAll has asked before the append
		}
	}
	if len(facts) > 0 {
		o.exec.Publish(o.on, o.tree, o.previous, Place{o.last, o.lastBatch}, facts)
	}
}

// sendsMore reports whether the next effect delivers to the destination of an entry, too.
func (o *Owner) sendsMore(e *tree.Entry, effects []tree.Effect) bool {
	if len(effects) == 0 || effects[0].Kind != tree.EffectDeliver {
		return false
	}
	next := o.tree.Entry(effects[0].Ord)
	return next != nil && next.Destination() == e.Destination()
}

// freeSlot gives the slot of an effect back, by way of the Executor if it knows the turn.
func (o *Owner) freeSlot(e tree.Effect) {
	if e.Ord == 0 || !o.exec.Free(e.Run, e.Ord) {
		o.cfg.Lane.Free(e.Run)
	}
}

// freeSlots gives the slots back that effects free which will not be performed.
func (o *Owner) freeSlots(effects []tree.Effect) {
	for _, e := range effects {
		if e.Kind == tree.EffectFreeSlot {
			o.freeSlot(e)
		}
	}
}

// discardTree discards the tree in memory after err, because it may be ahead of the journal. Its
// turns are cancelled and its slots are freed. Unless another owner has the tree now, it is read
// again after a pause. A tree that has only been read has nothing under way that could be lost.
//
// A conflict of the first append after reading does not count as another owner: it may be the last
// append of a former owner, which is not a reason to leave the tree to it. Among several processes
// no conflict is: the next claim tells which of them has the tree.
func (o *Owner) discardTree(err error) {
	o.lostToOther = errors.Is(err, session.ErrConflict) && !o.noAppendYet && o.cfg.Claims == nil
	if o.noAppendYet && o.absent && !errors.Is(err, session.ErrConflict) {
		o.reportStall(err)
	} else {
		// First, so that a turn knows before its slot is granted anew.
		o.exec.Lost(err, o.lostToOther)
	}
	o.dropTree()
	if Dead(err) {
		o.cfg.Fatal(err)
	}
	if o.lostToOther {
		o.retrying = false
		o.StopTimer()
	} else {
		o.retry()
	}
}

// dropTree frees the slots of the tree and drops it. Its incarnation ends.
func (o *Owner) dropTree() {
	o.tree.Walk(func(r *tree.Run) {
		if r.Slot() && (r.Open == nil || !o.exec.Free(r, r.Open.N)) {
			o.cfg.Lane.Free(r)
		}
	})
	o.keepsRuns = o.tree.Runs() > 0
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0 // it was of the dropped tree
}
