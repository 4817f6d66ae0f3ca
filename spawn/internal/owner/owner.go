package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ErrLost is what a command is answered with that may not have happened, because the append failed or somebody else took the
// tree over. Whoever sent it may send it again under the same key.
var ErrLost = errors.New("the tree was lost")

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
	// Check, if set, is called after every append with the durable tree: a hook for tests.
	Check func(root session.Key, t *tree.Tree, last session.Seq)

	sends sync.Pool // calls that nobody waits for
	calls sync.Pool // that somebody waited for, with their channels; one whose caller went away is not used again
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
	tree    *tree.Tree
	gen     uint64 // incarnation of the tree in memory; what belongs to an older one is stale
	last    session.Seq
	batches uint64
	ids     string          // of the batches to come
	entries []session.Entry // memory for them
	spare   []*call
	wakeAt  int64
	waiting atomic.Bool // stalled is set
	backoff time.Duration
	fresh   bool // nothing has been appended since the tree was read
	stalled *stall
	// unsnapped says that a snapshot is more than the journal takes in one batch.
	unsnapped bool
	yielded   bool // somebody else took the tree; only a caller may take it back

	timerMu sync.Mutex // Halt may come from outside
	timer   *time.Timer

	work func()    // drain, made once
	used time.Time // when somebody last wanted something of the tree
}

// call is a command on its way.
type call struct {
	cmd     tree.Command  // nil: only a read
	gen     uint64        // 0: whatever incarnation there is
	timer   bool          // nobody asked for it
	patient bool          // whoever sent it waits anyway
	rest    time.Duration // let the tree go if nothing has happened for so long
	state   uint32        //nolint:modernize // see wait; calls are copied
	decided bool          // what it changed is in the tree in memory, which knows what to give back
	read    func(*tree.Tree, tree.Reply)
	slot    *tree.Run // the lane's, for this run, goes with the call
	reply   tree.Reply
	err     error
	done    chan struct{} // nil: nobody waits
}

// New returns an owner of a tree that it has not opened yet.
func New(cfg *Config, root session.Key, exec Executor) *Owner {
	o := &Owner{cfg: cfg, root: root, exec: exec, gen: 1}
	o.work = o.drain
	return o
}

// Root returns the key of the top-level session.
func (o *Owner) Root() session.Key { return o.root }

// Do sends a command, or only reads, and waits until its facts are durable and its effects under way. read is called in
// between with the tree, and must not keep it. If ctx ends first the command may still happen.
func (o *Owner) Do(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return o.wait(ctx, call{cmd: cmd, read: read})
}

// Await is Do for somebody who waits for something else anyway: while the journal fails it waits for that too.
func (o *Owner) Await(ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return o.wait(ctx, call{cmd: cmd, read: read, patient: true})
}

// DoTurn is Do for a command of a turn of one incarnation.
func (o *Owner) DoTurn(ctx context.Context, gen uint64, cmd tree.Command, read func(*tree.Tree, tree.Reply)) error {
	return o.wait(ctx, call{cmd: cmd, gen: gen, read: read})
}

// The states of a call that somebody waits for. Whoever moves it from pending first has it: the owner, to read on the
// caller's behalf, or the caller, to go away.
const (
	pending uint32 = iota
	reading
	abandoned
)

func (o *Owner) wait(ctx context.Context, what call) error {
	if !o.root.IsValid() || o.root.IsSubagent() {
		return &tree.InputError{Field: "root", Reason: fmt.Sprintf("%q is no top-level session", o.root)}
	}
	c, ok := o.cfg.calls.Get().(*call)
	if !ok {
		c = &call{done: make(chan struct{}, 1)}
	}
	what.done = c.done
	*c = what
	if !o.enqueue(c) {
		return fmt.Errorf("%w: %q", ErrShutdown, o.root)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.leave() {
			return context.Cause(ctx)
		}
	case <-o.cfg.Closed:
		if c.leave() {
			return fmt.Errorf("%w: %q", ErrShutdown, o.root)
		}
	}
	err := c.err
	*c = call{done: c.done}
	o.cfg.calls.Put(c)
	return err
}

// leave has the caller go away without an answer, or returns false, with the answer, if there is one already.
func (c *call) leave() bool {
	select {
	case <-c.done:
		return false
	default:
	}
	if atomic.CompareAndSwapUint32(&c.state, pending, abandoned) {
		return true
	}
	<-c.done // it is being read at this moment
	return false
}

// Send sends a command of one incarnation and does not wait. If that has passed, the command is dropped.
func (o *Owner) Send(gen uint64, cmd tree.Command) {
	c := o.send(gen)
	c.cmd = cmd
	o.enqueue(c)
}

// send returns a call that nobody waits for.
func (o *Owner) send(gen uint64) *call {
	c, ok := o.cfg.sends.Get().(*call)
	if !ok {
		c = new(call)
	}
	*c = call{gen: gen}
	return c
}

func (o *Owner) enqueue(c *call) bool {
	o.mu.Lock()
	o.queue = append(o.queue, c)
	start := !o.draining
	if start && !o.cfg.Go(o.work) {
		o.queue = o.queue[:len(o.queue)-1]
		o.mu.Unlock()
		return false
	}
	o.draining = true
	o.mu.Unlock()
	return true
}

// drain works until the queue is empty. An idle tree has no goroutine.
func (o *Owner) drain() {
	for batch := o.next(); len(batch) > 0; batch = o.next() {
		o.step(batch)
		o.waiting.Store(o.stalled != nil) // not before what was held has been decided
		clear(batch)
		o.spare = batch
	}
}

// linger is how often a note that something has arrived lets others go first.
const linger = 3

// next returns what has come meanwhile. That a delivery has arrived is not urgent, and whoever it was for is likely about to ask for
// something else: noted together, the two are one append.
func (o *Owner) next() []*call {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := 0; i < linger && len(o.queue) == 1 && o.queue[0].arrived(); i++ {
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
	}
	batch := o.queue
	o.draining = len(batch) > 0
	if o.draining {
		o.queue = o.spare[:0]
	}
	return batch
}

// arrived reports whether a call notes that a delivery has arrived, and nothing else.
func (c *call) arrived() bool {
	s, ok := c.cmd.(*tree.Settle)
	return ok && s.Error == ""
}

// step is one round: decide and apply, append once, act and reply.
func (o *Owner) step(batch []*call) {
	ctx := o.cfg.Context()
	batch = o.current(batch)
	if o.stalled != nil {
		batch = o.resume(ctx, batch)
	}
	if len(batch) == 0 {
		return
	}
	if len(batch) == 1 && batch[0].rest > 0 {
		o.rest(batch[0].rest)
		return
	}
	o.used = time.Now()
	now := o.used.UnixNano()
	if err := o.open(ctx, batch, now); err != nil {
		o.refuse(batch, err)
		return
	}
	err := o.decideAll(batch, now)
	facts, effects := o.tree.Take()
	if err != nil {
		o.drop(err, effects, batch)
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
		o.unsnapped = true
		return true
	case o.fresh || final(err):
		o.drop(err, effects, batch)
		return false
	default:
		o.stall(err, b, facts, effects, batch)
		return false
	}
	o.act(facts, effects)
	o.answer(batch)
	return true
}

// drop throws the tree away with what was decided last.
func (o *Owner) drop(err error, effects []tree.Effect, batch []*call) {
	o.freeAll(effects)
	o.lose(err)
	o.refuse(batch, err)
}

// answer calls back whoever waits for what is durable now.
func (o *Owner) answer(batch []*call) {
	for _, c := range batch {
		if c.err == nil && c.read != nil && (c.done == nil || atomic.CompareAndSwapUint32(&c.state, pending, reading)) {
			c.read(o.tree, c.reply)
		}
		o.finish(c)
	}
}

// current refuses what was meant for an incarnation that has passed. It works in place.
func (o *Owner) current(batch []*call) []*call {
	rest := batch[:0]
	for _, c := range batch {
		switch {
		case c.gen != 0 && c.gen != o.gen:
			o.giveBack(c)
			c.err = fmt.Errorf("spawn: %q: %w", o.root, tree.ErrStale)
			o.finish(c)
		case c.timer && o.yielded:
		case c.rest > 0 && len(batch) > 1: // there is work
		default:
			rest = append(rest, c)
		}
	}
	return rest
}

func (o *Owner) finish(c *call) {
	if c.done != nil {
		c.done <- struct{}{}
		return
	}
	*c = call{}
	o.cfg.sends.Put(c)
}

func (o *Owner) refuse(batch []*call, err error) {
	for _, c := range batch {
		o.giveBack(c)
		c.err = fmt.Errorf("spawn: %q: %w: %w", o.root, ErrLost, err)
		o.finish(c)
	}
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
			o.unreadable(err)
		}
	}()
	t, last, err := Load(ctx, o.cfg.Journal, o.root, o.cfg.Options)
	if err != nil {
		return err
	}
	o.tree, o.last, o.fresh = t, last, true
	if last == 0 && !wanted(batch) {
		return nil
	}
	o.yielded = false
	_, err = t.Decide(&tree.Open{Writer: o.cfg.Writer, SessionID: o.cfg.NewID(), Rand: o.cfg.Rand()}, now)
	return err
}

// unreadable says that the tree could not be opened. It is tried again, unless only a person can mend it.
func (o *Owner) unreadable(err error) {
	switch {
	case dead(err):
		o.cfg.Fatal(err)
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFormat):
		o.exec.Stalled(err)
	default:
		o.retry()
	}
}

// wanted reports whether a batch holds a command that somebody wants of the tree, not only the time.
func wanted(batch []*call) bool {
	for _, c := range batch {
		if c.cmd != nil && !c.timer || c.slot != nil {
			return true
		}
	}
	return false
}

// Load folds a journal. The last sequence is 0 if there is none.
func Load(ctx context.Context, j session.Journal, root session.Key, opt *tree.Options) (*tree.Tree, session.Seq, error) {
	t := tree.New(root, opt)
	var last session.Seq
	for e, err := range j.Read(ctx, root, 0) {
		if err != nil {
			return nil, 0, fmt.Errorf("spawn: reading the journal of %q: %w", root, err)
		}
		f, err := tree.FactOf(e.Payload)
		if err == nil {
			err = t.Replay(f)
		}
		if err != nil {
			return nil, 0, &JournalError{Root: root, Seq: e.Seq, Err: err}
		}
		last = e.Seq
	}
	return t, last, nil
}

// A PanicError is a panic that was contained.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error, such as a runtime.Error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
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
				o.giveBack(c)
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
		if e.Kind != tree.AskSlot {
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
	c := o.send(gen)
	c.slot = r
	if !o.enqueue(c) {
		o.giveBack(c)
	}
}

// giveBack frees the slot that came with a call that nobody will decide.
func (o *Owner) giveBack(c *call) {
	if c.slot != nil && !c.slot.IsRoot() && !c.decided {
		o.cfg.Lane.Free()
	}
}

// batchOf makes a batch of facts; one without entries is none.
func (o *Owner) batchOf(facts []tree.Fact) (b session.Batch) {
	if len(facts) == 0 {
		return b
	}
	o.batches++
	return session.Batch{
		ID:      o.batchID(),
		Entries: o.entriesOf(facts),
		Due:     o.tree.Due(),
		Reset:   facts[0].Kind == tree.Snapshot,
	}
}

// append writes a batch. An unknown outcome is settled by looking for the batch in the log; so is a conflict, because an earlier
// attempt may have been more successful than it seemed.
func (o *Owner) append(ctx context.Context, b session.Batch) (err error) {
	if len(b.Entries) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	seq, err := o.cfg.Journal.Append(ctx, o.root, o.last, b)
	if err != nil {
		found, unread := o.landed(ctx, b.ID)
		switch {
		case unread != nil && errors.Is(err, session.ErrConflict) && o.stalled != nil:
			err = unread // it may be our own entry that is in the way
		case found > 0:
			seq, err = found, nil
		}
	}
	if err != nil {
		return err
	}
	o.last, o.backoff, o.fresh = seq, 0, false
	if o.cfg.Check != nil {
		o.cfg.Check(o.root, o.tree, seq)
	}
	return nil
}

// slab is for how many entries or batch ids memory is taken at a time.
const slab = 64

// entriesOf returns the facts as entries of a batch, which are the journal's from then on.
func (o *Owner) entriesOf(facts []tree.Fact) []session.Entry {
	if len(o.entries) < len(facts) {
		o.entries = make([]session.Entry, max(slab, len(facts)))
	}
	entries := o.entries[:len(facts):len(facts)]
	o.entries = o.entries[len(facts):]
	for i := range facts {
		entries[i].Payload = &facts[i]
	}
	return entries
}

// batchID names a batch: no other of any owner has the same name. The names of several batches are pieces of one string.
func (o *Owner) batchID() session.BatchID {
	if len(o.ids) == 0 {
		var b strings.Builder
		var number [16]byte
		b.Grow(slab * (len(o.cfg.Writer) + 2 + len(strconv.AppendUint(number[:0], o.batches+slab, 36))))
		for i := range uint64(slab) {
			b.WriteString(o.cfg.Writer)
			b.WriteByte('.')
			b.Write(strconv.AppendUint(number[:0], o.batches+i, 36))
			b.WriteByte(' ')
		}
		o.ids = b.String()
	}
	id, rest, _ := strings.Cut(o.ids, " ")
	o.ids = rest
	return session.BatchID(id)
}

// landed returns the last sequence of a batch if the log ends with it, else 0.
func (o *Owner) landed(ctx context.Context, id session.BatchID) (last session.Seq, err error) {
	for e, err := range o.cfg.Journal.Read(ctx, o.root, o.last) {
		if err != nil {
			return 0, err
		}
		if e.Batch != id {
			return 0, nil
		}
		last = e.Seq
	}
	return last, nil
}

// act performs the effects of durable facts.
func (o *Owner) act(facts []tree.Fact, effects []tree.Effect) {
	for _, e := range effects {
		switch e.Kind {
		case tree.StartTurn:
			if e.Run.Open != nil && e.Run.Open.N == e.Ord {
				o.exec.Start(o.gen, o.tree, e.Run)
			}
		case tree.CancelTurn:
			o.exec.Cancel(e.Run, e.Ord)
		case tree.FreeSlot:
			o.free(e)
		case tree.Deliver:
			if entry := o.tree.Entry(e.Ord); entry != nil {
				o.exec.Deliver(o.gen, o.tree, entry)
			}
		case tree.Archive:
			o.exec.Archive(o.gen, o.tree, e.Run)
		case tree.AskSlot: // before the append already
		}
	}
	if len(facts) > 0 {
		o.exec.Publish(o.tree, facts)
	}
}

func (o *Owner) free(e tree.Effect) {
	if e.Run.IsRoot() || e.Ord > 0 && o.exec.Free(e.Run, e.Ord) {
		return
	}
	o.cfg.Lane.Free()
}

// freeAll gives back every slot that the tree in memory holds, and those that it was about to give back.
func (o *Owner) freeAll(effects []tree.Effect) {
	for _, e := range effects {
		if e.Kind == tree.FreeSlot {
			o.free(e)
		}
	}
}

// lose throws the tree in memory away: it may be ahead of the journal. Its turns are cancelled. Unless somebody else owns it
// now, it is read again. Whoever was quicker while it was being opened may be a former owner at its last breath, so that is no
// reason to leave it.
func (o *Owner) lose(err error) {
	o.yielded = errors.Is(err, session.ErrConflict) && !o.fresh
	o.exec.Lost(err, o.yielded) // first of all: nobody else gets a slot before its turn knows
	o.tree.Walk(func(r *tree.Run) {
		if r.Slot() && !r.IsRoot() && (r.Open == nil || !o.exec.Free(r, r.Open.N)) {
			o.cfg.Lane.Free()
		}
	})
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0 // of another tree
	if dead(err) {
		o.cfg.Fatal(err)
	}
	if o.yielded {
		o.Halt()
	} else {
		o.retry()
	}
}

// Pauses before a tree that was lost is read again, or an append that failed is tried again.
const (
	FirstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// retry has the tree looked at again after a pause, or returns false if nobody wants that.
func (o *Owner) retry() bool {
	if !o.cfg.Active() && (o.stalled == nil || !o.cfg.Awake()) {
		return false
	}
	o.backoff = min(max(2*o.backoff, FirstBackoff), lastBackoff)
	o.wakeAt = 0
	o.setTimer(o.backoff)
	return true
}

// schedule keeps the one timer of the tree.
func (o *Owner) schedule() {
	if o.tree == nil || !o.cfg.Active() {
		return
	}
	at := o.tree.NextWake()
	if at == o.wakeAt {
		return
	}
	o.wakeAt = at
	if at == 0 {
		o.Halt()
		return
	}
	o.setTimer(time.Until(time.Unix(0, at)))
}

func (o *Owner) setTimer(d time.Duration) {
	d = max(d, 0)
	o.timerMu.Lock()
	defer o.timerMu.Unlock()
	if o.timer == nil {
		o.timer = time.AfterFunc(d, o.Tick)
		return
	}
	o.timer.Reset(d)
}

// Tick lets the tree see what time it is.
func (o *Owner) Tick() {
	if o.cfg.Active() || o.waiting.Load() {
		o.enqueue(&call{timer: true, cmd: tree.Tick{Rand: o.cfg.Rand()}, read: func(*tree.Tree, tree.Reply) { o.wakeAt = 0 }})
	}
}

// Rest lets a tree go from memory in which nothing is under way and of which nobody has wanted anything for so long. The next
// command, or the time at which it is due, opens it again.
func (o *Owner) Rest(idle time.Duration) {
	o.enqueue(&call{rest: idle})
}

func (o *Owner) rest(idle time.Duration) {
	if o.tree == nil || !o.tree.Idle() || o.tree.Archiving() || time.Since(o.used) < idle {
		return
	}
	o.tree, o.last = nil, 0
	o.gen++
	o.wakeAt = 0
	o.Halt()
}

// Halt stops the timer. The caller has seen to it that nothing is enqueued any more.
func (o *Owner) Halt() {
	o.timerMu.Lock()
	defer o.timerMu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

// compact replaces the log by a snapshot when it has grown well beyond what a snapshot would hold. It returns false if the journal did
// not take it.
func (o *Owner) compact(ctx context.Context, now int64) bool {
	if o.unsnapped || !o.tree.Bulky() {
		return true
	}
	if _, err := o.tree.Decide(tree.Compact{}, now); err != nil {
		return true
	}
	facts, effects := o.tree.Take()
	return o.commit(ctx, facts, effects, nil)
}
