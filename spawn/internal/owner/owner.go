package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ErrUnconfirmed is the answer to a command that may have happened or not, because an append failed
// or another owner took the tree over. The caller may send it again under the same key.
var ErrUnconfirmed = errors.New(
	"spawn: it is not known whether this was recorded; send it again under the same key")

// ErrShutdown is what everything is refused with after a shutdown.
var ErrShutdown = errors.New("spawn: shut down")

// An Executor performs the effects of one tree. Its methods are called by the owner, one at a time, and must not block. They
// may read the tree, and only during the call. The incarnation gen is what the owner wants to hear of later.
type Executor interface {
	// Start starts the open turn of a run.
	Start(gen uint64, t *tree.Tree, r *tree.Run)
	// Cancel cancels a turn.
	Cancel(r *tree.Run, n uint32)
	// Free gives the slot of a turn back. It returns false for a turn that was never started.
	Free(r *tree.Run, n uint32) bool
	// Deliver hands an entry of the outbox over.
	Deliver(gen uint64, t *tree.Tree, e *tree.Entry)
	// Archive puts the transcript of a run away.
	Archive(gen uint64, t *tree.Tree, r *tree.Run)
	// Publish shows facts that are durable.
	Publish(t *tree.Tree, facts []tree.Fact)
	// Lost cancels every turn and drops every delivery: the tree was lost, to somebody else if conflict is set.
	Lost(err error, conflict bool)
	// Stalled says that the journal takes nothing for now, or, with nil, that it does again.
	Stalled(err error)
}

// Config is what the owners of a supervisor share.
type Config struct {
	Journal session.Journal
	Options *tree.Options
	Lane    *Lane
	Writer  string                 // names this process among the owners of a tree
	Rand    func() uint64          // for nonces; must not be guessable
	NewID   func() string          // UUIDs
	Go      func(func()) bool      // starts a goroutine that somebody waits for; false: it is too late
	Active  func() bool            // whether turns, deliveries and timers are wanted
	Awake   func() bool            // whether they are, or what is under way is still to come to its end
	Fatal   func(error)            // told of a journal that will never take anything again
	Closed  <-chan struct{}        // closed when nothing is answered any more
	Context func() context.Context // of the journal: it must outlive every command
	// Check, if the tests of this package and of spawn set it, is called after every append with the
	// durable tree.
	Check func(root session.Key, t *tree.Tree, last session.Seq)

	sendPool sync.Pool // callPool that nobody waits for
	callPool sync.Pool // that somebody waited for, with their channels; one whose caller went away is not used again
}

// Owner owns one tree.
type Owner struct {
	cfg  *Config
	root session.Key
	exec Executor

	mu       sync.Mutex
	queue    []*call
	draining bool

	// What follows is touched by the draining goroutine alone.
	tree         *tree.Tree
	gen          uint64 // incarnation of the tree in memory; what belongs to an older one is stale
	last         session.Seq
	batches      uint64
	batchIDs     string          // of the batches to come
	spareEntries []session.Entry // memory for them
	spareQueue   []*call
	wakeAt       int64
	waiting      atomic.Bool // stalled is set
	backoff      time.Duration
	noAppendYet  bool // nothing has been appended since the tree was read
	stalled      *stall
	// snapshotTooLarge says that a snapshot is more than the journal takes in one batch.
	snapshotTooLarge bool
	lostToOther      bool // somebody else took the tree; only a caller may take it back

	timerMu sync.Mutex // StopTimer may come from outside
	timer   *time.Timer

	drainFunc func()    // drain, made once
	lastUsed  time.Time // when somebody last wanted something of the tree
}

// New returns an owner of a tree that it has not opened yet.
func New(cfg *Config, root session.Key, exec Executor) *Owner {
	o := &Owner{cfg: cfg, root: root, exec: exec, gen: 1}
	o.drainFunc = o.drain
	return o
}

// Root returns the key of the top-level session.
func (o *Owner) Root() session.Key { return o.root }

// drain works until the queue is empty. An idle tree has no goroutine.
func (o *Owner) drain() {
	for batch := o.nextBatch(); len(batch) > 0; batch = o.nextBatch() {
		o.step(batch)
		o.waiting.Store(o.stalled != nil) // not before what was held has been decided
		clear(batch)
		o.spareQueue = batch
	}
}

// step is one round: decide and apply, append once, act and reply.
func (o *Owner) step(batch []*call) {
	ctx := o.cfg.Context()
	batch = o.refuseStale(batch)
	if o.stalled != nil {
		batch = o.resume(ctx, batch)
	}
	if len(batch) == 0 {
		return
	}
	if len(batch) == 1 && batch[0].unloadAfter > 0 {
		o.unload(batch[0].unloadAfter)
		return
	}
	o.lastUsed = time.Now()
	now := o.lastUsed.UnixNano()
	if err := o.open(ctx, batch, now); err != nil {
		o.refuse(batch, err)
		return
	}
	err := o.decideAll(batch, now)
	facts, effects := o.tree.Take()
	if err != nil {
		o.failBatch(err, effects, batch)
		return
	}
	if !o.commit(ctx, facts, effects, batch) {
		return
	}
	if o.tree.Epoch() == 0 { // nobody has ever written to it
		o.tree = nil
		return
	}
	if o.compact(ctx, now) {
		o.schedule()
	}
}

// commit appends what a batch came to, then acts and answers. It returns false if the journal did not take it.
func (o *Owner) commit(ctx context.Context, facts []tree.Fact, effects []tree.Effect, batch []*call) bool {
	b := o.batchOf(facts)
	err := o.append(ctx, b)
	switch {
	case err == nil:
	case b.Reset && errors.Is(err, session.ErrInvalidBatch): // the log is as good without it
		o.snapshotTooLarge = true
		return true
	case o.noAppendYet || permanent(err):
		o.failBatch(err, effects, batch)
		return false
	default:
		o.stall(err, b, facts, effects, batch)
		return false
	}
	o.act(facts, effects)
	o.answer(batch)
	return true
}

// failBatch throws the tree away with what was decided last.
func (o *Owner) failBatch(err error, effects []tree.Effect, batch []*call) {
	o.freeSlots(effects)
	o.discardTree(err)
	o.refuse(batch, err)
}

// refuseStale refuses what was meant for an incarnation that has passed. It works in place.
func (o *Owner) refuseStale(batch []*call) []*call {
	rest := batch[:0]
	for _, c := range batch {
		switch {
		case c.gen != 0 && c.gen != o.gen:
			o.releaseSlot(c)
			c.err = fmt.Errorf("%w: %q", tree.ErrStale, o.root)
			o.finish(c)
		case c.timer && o.lostToOther:
		case c.unloadAfter > 0 && len(batch) > 1: // there is work
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

// open reads the journal and takes the tree over, if it is not in memory. A tree that nobody has written to is not made by
// reading it.
func (o *Owner) open(ctx context.Context, batch []*call, now int64) (err error) {
	if o.tree != nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		if err != nil {
			o.tree = nil
			o.openFailed(err)
		}
	}()
	t, last, err := Load(ctx, o.cfg.Journal, o.root, o.cfg.Options)
	if err != nil {
		return err
	}
	o.tree, o.last, o.noAppendYet = t, last, true
	if last == 0 && !hasCallerCommand(batch) {
		return nil
	}
	o.lostToOther = false
	_, err = t.Decide(&tree.Open{Writer: o.cfg.Writer, SessionID: o.cfg.NewID(), Rand: o.cfg.Rand()}, now)
	return err
}

// openFailed says that the tree could not be opened. It is tried again, unless only a person can mend it.
func (o *Owner) openFailed(err error) {
	switch {
	case journalDead(err):
		o.cfg.Fatal(err)
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFormat):
		o.exec.Stalled(err)
	default:
		o.retry()
	}
}

// hasCallerCommand reports whether a batch holds a command that somebody wants of the tree, not only the time.
func hasCallerCommand(batch []*call) bool {
	for _, c := range batch {
		if c.cmd != nil && !c.timer || c.slot != nil {
			return true
		}
	}
	return false
}

// decideAll decides a batch. Slots that are free at once are taken in the same batch, so that admission and start are one
// append. A panic is a defect of ours; the tree is thrown away.
func (o *Owner) decideAll(batch []*call, now int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	for _, c := range batch {
		switch {
		case c.slot != nil:
			if c.err = o.tree.Grant(c.slot.Key(), now); c.err != nil { // the run has left the tree meanwhile
				o.releaseSlot(c)
			}
			c.decided = true
		case c.cmd != nil:
			if _, take := c.cmd.(tree.Take); take && c.done != nil && atomic.LoadUint32(&c.state) == abandoned {
				continue // nobody would read what it consumes
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

// granted is called by the lane when it has a slot for a run.
func (o *Owner) granted(gen uint64, r *tree.Run) {
	c := o.newCall(gen)
	c.slot = r
	if !o.enqueue(c) {
		o.releaseSlot(c)
	}
}

// act performs the effects of durable facts.
func (o *Owner) act(facts []tree.Fact, effects []tree.Effect) {
	for _, e := range effects {
		switch e.Kind {
		case tree.EffectStartTurn:
			if e.Run.Open != nil && e.Run.Open.N == e.Ord {
				o.exec.Start(o.gen, o.tree, e.Run)
			}
		case tree.EffectCancelTurn:
			o.exec.Cancel(e.Run, e.Ord)
		case tree.EffectFreeSlot:
			o.freeSlot(e)
		case tree.EffectDeliver:
			if entry := o.tree.Entry(e.Ord); entry != nil {
				o.exec.Deliver(o.gen, o.tree, entry)
			}
		case tree.EffectArchive:
			o.exec.Archive(o.gen, o.tree, e.Run)
		case tree.EffectAskSlot: // before the append already
		}
	}
	if len(facts) > 0 {
		o.exec.Publish(o.tree, facts)
	}
}

func (o *Owner) freeSlot(e tree.Effect) {
	if e.Run.IsRoot() || e.Ord > 0 && o.exec.Free(e.Run, e.Ord) {
		return
	}
	o.cfg.Lane.Free()
}

// freeSlots gives back every slot that the tree in memory holds, and those that it was about to give back.
func (o *Owner) freeSlots(effects []tree.Effect) {
	for _, e := range effects {
		if e.Kind == tree.EffectFreeSlot {
			o.freeSlot(e)
		}
	}
}

// discardTree throws the tree in memory away: it may be ahead of the journal. Its turns are cancelled. Unless somebody else owns it
// now, it is read again. Whoever was quicker while it was being opened may be a former owner at its last breath, so that is no
// reason to leave it.
func (o *Owner) discardTree(err error) {
	o.lostToOther = errors.Is(err, session.ErrConflict) && !o.noAppendYet
	o.exec.Lost(err, o.lostToOther) // first of all: nobody else gets a slot before its turn knows
	o.tree.Walk(func(r *tree.Run) {
		if r.Slot() && !r.IsRoot() && (r.Open == nil || !o.exec.Free(r, r.Open.N)) {
			o.cfg.Lane.Free()
		}
	})
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0 // of another tree
	if journalDead(err) {
		o.cfg.Fatal(err)
	}
	if o.lostToOther {
		o.StopTimer()
	} else {
		o.retry()
	}
}
