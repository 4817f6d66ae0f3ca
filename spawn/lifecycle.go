package spawn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// sweepEvery is how often Run asks the journal for trees that are due and that no call has touched
// in this process.
const sweepEvery = time.Minute

// unloadAfter is how long nothing must have happened in a tree before it is unloaded from memory.
const unloadAfter = 10 * time.Minute

// A sweep asks at most maxOpening trees at a time, so that a restart with many trees that are due
// does not start a goroutine for each of them. A tree that takes longer than openWithin no longer
// counts, so that one that hangs does not hold the others up.
const (
	maxOpening = 64
	openWithin = time.Second
)

// Run starts what is due and runs all trees until ctx ends or [Supervisor.Shutdown] is called.
//
// When ctx ends, Run cancels the turns and waits for them, at most for the grace period. It returns
// nil if all have returned, and else a *[StillRunningError] that names what has not. A turn that
// was cancelled so is interrupted: the next owner of the tree knows it as such, unless it had not
// begun or its Runner returned [ErrUntouched]: then the run is queued again. The end of ctx also
// ends the soft phase of a Shutdown that is going on.
//
// After a Shutdown Run returns nil, also if the Shutdown came first. If something still runs, a
// call of Shutdown returns the StillRunningError. Run returns it if every such call has left before
// the end. A second Run beside the first one returns [ErrRunning].
//
// While the journal fails, turns go on. Their results are held, and recorded once the journal takes
// entries again. A caller that asks for something meanwhile gets [ErrNotRecorded], [ErrUnconfirmed]
// or [ErrUnreadable] with the reason. A journal that takes nothing any more, because it is closed
// or must be opened again ([session.ErrSync]), ends Run with that error.
//
// With a store that has Owners, Run also ends, and every tree is lost, if the process cannot take
// part any more. [session.ErrReplaced] says that another process has joined under its name. The
// program ends then, because a store that it opens under that name takes the place of the other one
// in turn. [session.ErrServing] says that another Run, or a Serve of the program's own, takes part
// with the same store: the program opens a store for each Supervisor, with a name of its own.
func (s *Supervisor) Run(ctx context.Context) error {
	if s.closed == nil {
		return errNotOpened
	}
	if !s.state.CompareAndSwap(stateIdle, stateRunning) {
		if s.active() {
			return ErrRunning
		}
		_ = s.waitShutDown(ctx)
		return s.untold
	}
	s.workers.setKeeping(true)
	s.cluster.shareLane()
	s.lane.Open()
	s.cluster.join() //nolint:contextcheck // it outlives the call
	for _, sh := range s.allShells() {
		sh.startSenders()
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	look := &lookout{sup: s}
	looking, purging := newErrand(s, look.look), newErrand(s, s.purgeNow)
	looking.start(ctx)
	for n := 0; ; {
		select {
		case <-ticker.C:
			looking.start(ctx)
			if n%purgeEvery == 0 {
				purging.start(ctx)
			}
			n++
		case <-ctx.Done():
			s.beginShutdown() //nolint:contextcheck // it outlives the call
			return s.waitShutDown(ctx)
		case err := <-s.journalDead:
			s.beginShutdown() //nolint:contextcheck // it outlives the call
			s.endSoft()
			if owner.Dead(err) && !errors.Is(err, session.ErrReplaced) {
				err = fmt.Errorf("spawn: the journal takes nothing any more: %w", err)
			}
			return errors.Join(err, s.waitShutDown(ctx))
		case <-s.closed:
			return s.untold
		}
	}
}

// errNotOpened is the error of the zero Supervisor.
var errNotOpened = errors.New("spawn: the Supervisor does not come from Open")

// waitShutDown waits for the end of a shutdown, whose soft phase ends with ctx, and returns its
// error.
func (s *Supervisor) waitShutDown(ctx context.Context) error {
	select {
	case <-s.closed:
	case <-ctx.Done():
		s.endSoft()
		<-s.closed // after the grace period at the latest
	}
	return s.stopError
}

// An errand is what a Supervisor does once in a while, in a task of its own, because a store may
// hang, panic, or end its goroutine.
type errand struct {
	sup  *Supervisor
	idle chan struct{} // has one value while the errand is not under way
	do   func(ctx context.Context)
}

func newErrand(s *Supervisor, do func(ctx context.Context)) *errand {
	e := &errand{sup: s, idle: make(chan struct{}, 1), do: do}
	e.idle <- struct{}{}
	return e
}

// start starts the errand, unless it is under way or the Supervisor is shutting down. It ends with
// ctx, and with the soft phase of a shutdown.
func (e *errand) start(ctx context.Context) {
	if !e.sup.active() {
		return
	}
	select {
	case <-e.idle:
	default:
		return // the one before hangs, or has much to do
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(e.sup.workCtx, cancel) //nolint:contextcheck // ctx ends with both
	done := func() {
		unlink()
		cancel()
		e.idle <- struct{}{}
	}
	run := e.sup.workers.marked(ctx, session.Key{}, func(ctx context.Context) {
		defer done()
		e.do(ctx)
	})
	if !e.sup.workers.start(run) {
		done()
	}
}

// purgeNow purges archives, and logs why it could not.
func (s *Supervisor) purgeNow(ctx context.Context) {
	if _, err := s.Purge(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("offshoot: purging archives failed", "error", err.Error())
	}
}

// lookout looks, once in a while, at what no command tells a Supervisor: trees that are due, and
// the health of the store.
type lookout struct {
	sup    *Supervisor
	health string // what the store has reported as wrong with itself
	second bool   // whether this is not the first look
}

// look reports the health of the store and sweeps. The first look ticks the trees that were touched
// before, which have no timers, instead of asking for the health.
func (l *lookout) look(ctx context.Context) {
	opening := make(chan struct{}, maxOpening)
	if l.second {
		l.health = l.sup.logHealth(ctx, l.health)
	} else {
		for _, sh := range l.sup.allShells() {
			oneOf(ctx, opening, sh.owner.TickThen)
		}
	}
	var err error
	if !l.second {
		if err = session.CheckCopy(ctx, l.sup.reads); !errors.Is(err, session.ErrUnfinishedCopy) {
			err = nil // what else is wrong is met again
		}
	}
	l.second = true
	if err == nil {
		err = l.sup.sweep(ctx, opening)
	}
	if err != nil && ctx.Err() == nil {
		l.sup.log.Error("offshoot: looking for due trees failed", "error", err.Error())
		if owner.Dead(err) {
			l.sup.fatal(err)
		}
	}
}

// sweep opens the trees that are due before the next sweep, and unloads idle trees.
//
// A tree that is due at a time in the future waits for the archive of a run. If that is later than
// any archive can be, the clock was ahead when the time was set, and the tree is opened, which sets
// the time right. So the first sweep, and one after the clock was set back, looks at every tree
// that waits for a time.
func (s *Supervisor) sweep(ctx context.Context, opening chan struct{}) error {
	for _, sh := range s.allShells() {
		s.forget(sh)
		unload := func(after func()) { sh.owner.Unload(unloadAfter, after) }
		if !oneOf(ctx, opening, unload) {
			return nil
		}
	}
	if s.cluster != nil {
		return nil // what no process has is found by its Owners
	}
	now := s.now().Round(0) // the wall clock alone
	soon := now.Add(sweepEvery)
	latest := soon.Add(max(0, s.rules.Load().ArchiveAfter()))
	query := session.RootQuery{DueBefore: soon}
	if s.lastSweep.IsZero() || now.Before(s.lastSweep) {
		query.DueBefore = endOfTime
	}
	s.lastSweep = now
	for head, err := range s.journal.Roots(ctx, query) {
		if err != nil {
			return err
		}
		if !isTree(head.Root) || !head.Due.Before(soon) && !head.Due.After(latest) {
			continue
		}
		if !oneOf(ctx, opening, s.shellOf(head.Root).owner.TickThen) {
			return nil
		}
	}
	return nil
}

// endOfTime is after the Due of every tree that waits for a time.
var endOfTime = time.Unix(0, math.MaxInt64)

// oneOf asks something of an owner, with ask, once fewer than maxOpening others work on it. It
// returns false when ctx has ended.
func oneOf(ctx context.Context, opening chan struct{}, ask func(after func())) bool {
	late := time.NewTimer(openWithin)
	defer late.Stop()
	select {
	case opening <- struct{}{}:
		ask(func() { <-opening })
	case <-late.C:
		ask(func() {})
	case <-ctx.Done():
		return false
	}
	return true
}

// logHealth logs what the store reports as wrong with itself, unless that is the text known, and
// returns it: "" for a healthy store.
func (s *Supervisor) logHealth(ctx context.Context, known string) string {
	err := s.health(ctx)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if known != err.Error() {
		s.log.Error("offshoot: the store is not healthy", "error", err.Error())
	}
	return err.Error()
}

// health asks the store, and returns its panic as an error.
func (s *Supervisor) health(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = owner.NewPanic(p)
		}
	}()
	return contain.Read(s.cfg.Store.Health(ctx))
}

// Shutdown ends the work of the Supervisor, in two phases. In the soft phase the turns that are
// under way finish, and their results are recorded and delivered. Timeouts, stops and cancelled
// turns count as always. The soft phase lasts until nothing is under way but calls of Deliver that
// have not returned in their time, or until the ctx of any caller of Shutdown or that of
// [Supervisor.Run] ends. Then the hard phase cancels what is left and waits for the grace period,
// in which a journal that fails is tried again. If a Runner, Deliver or the store has not returned
// by then, the error is a *[StillRunningError].
//
// No further turn starts, with one exception: a turn that was decided on and has been waiting for a
// journal that fails. A turn that Shutdown cancels is interrupted: the next owner of the tree knows
// it as such, which does not count as one of the three attempts that a message has. A run whose
// turn had not begun, or is [ErrUntouched], is queued again instead: the next owner starts it.
//
// In the soft phase Deliver is called for what the turns come to. The shutdown waits for the calls,
// and not for the next try of a delivery that has failed. In the hard phase no call begins. What
// has not arrived stays in the outbox. The next Supervisor of the store delivers it, with
// [Delivery].MayRepeat false if Deliver was never called for it and every call has returned. A
// store in memory loses it with the process.
//
// The first call returns at the end of the hard phase. Every other call returns then too, with the
// same error, or when its own ctx ends, with an error that is [ErrShuttingDown] and the error of
// ctx. Run returns nil then, or the StillRunningError if no call of Shutdown is left to return it.
//
// Shutdown may be called from a Runner, a tool, Deliver, or any other function of the caller. Under
// the ctx of a turn or a delivery, or one derived from it, the call does not wait for that turn or
// delivery. It returns nil when all else has ended, and the turn or delivery goes on to its own
// end, which is recorded. If the ctx of the turn or delivery ends first, because its time is up, it
// was cancelled or it is over, the call returns ErrShuttingDown and the soft phase goes on. A limit
// that the caller has set on a derived ctx ends the soft phase, like any other ctx.
//
// Under another ctx the call waits for the function that it is called from: then only the end of a
// ctx helps, or of Deliver its DeliverTimeout, and the function is what the StillRunningError
// names. Do not call Shutdown with a ctx that never ends from such a function.
//
// The ctx of the calls of [session.Journal] that record what happens ends right before the end of
// the hard phase: an append that hangs takes the grace period, the error says that the store has
// not returned, and the outcome of the append stays unknown. The next owner of the tree finds out.
// If the append has the start of a turn, which so has not begun, Shutdown looks for it in the
// journal, beside the append, and notes that. So it notes which turns it has cancelled, and which
// of them had done nothing, if the append of that hangs. A journal that does not take the note in
// that time leaves a turn on record as begun, and a run as interrupted.
func (s *Supervisor) Shutdown(ctx context.Context) error {
	if s.closed == nil {
		return errNotOpened
	}
	s.enterShutdown()
	first := s.beginShutdown() //nolint:contextcheck // it outlives the call
	if m := markOf(ctx); m != nil {
		return s.shutDownAround(ctx, m)
	}
	if first {
		return s.waitShutDown(ctx)
	}
	select {
	case <-s.closed:
		return s.stopError
	default:
	}
	select {
	case <-s.closed:
		return s.stopError
	case <-ctx.Done():
		s.endSoft()
		return s.leaveShutdown(shuttingDown(ctx))
	}
}

// GraceEnd returns when the grace period of the hard phase of a shutdown ends, or the zero Time if
// that phase has not begun. A program that ends work of its own after [Supervisor.Shutdown] so
// gives all of it one grace period together. It may be called concurrently.
func (s *Supervisor) GraceEnd() time.Time {
	if end := s.graceEnd.Load(); end != nil {
		return *end
	}
	return time.Time{}
}

// WorkContext returns a context with the values of that of [Open], which ends when the hard phase
// of a shutdown begins. A program that does work of its own beside that of the Supervisor so ends
// it together with that.
func (s *Supervisor) WorkContext() context.Context { return s.workCtx }

// shuttingDown returns the error of a Shutdown that leaves because its ctx has ended.
func shuttingDown(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrShuttingDown, ctx.Err())
}

// enterShutdown counts a call of Shutdown among those that the end is told to.
func (s *Supervisor) enterShutdown() {
	s.mu.Lock()
	s.callers++
	s.mu.Unlock()
}

// leaveShutdown lets a call of Shutdown return err before the end. If the end is decided already,
// it returns what the shutdown has come to: Run counts on this call to return that.
func (s *Supervisor) leaveShutdown(err error) error {
	s.mu.Lock()
	told := s.told
	s.callers--
	s.mu.Unlock()
	if told {
		<-s.closed
		return s.stopError
	}
	return err
}

// tell decides who returns what the shutdown has come to: the calls of Shutdown that are there, or
// Run if there is none.
func (s *Supervisor) tell() {
	s.mu.Lock()
	if s.told = true; s.callers == 0 {
		s.untold = s.stopError
	}
	s.mu.Unlock()
	s.close()
}

// shutDownAround is Shutdown for a call that comes from a task: it waits for all others.
func (s *Supervisor) shutDownAround(ctx context.Context, m *mark) error {
	s.workers.beginWaiting(m)
	soon, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closedCtx, cancel)() //nolint:contextcheck // soon ends with both
	err := s.waitUntilQuiet(soon, s.workers.waitOthers)
	select {
	case <-s.closed:
		return s.stopError
	default:
	}
	if err == nil { // the others that wait do not wait for this task from here on either
		return s.leaveShutdown(nil)
	}
	s.workers.endWaiting(m)
	if m.endsBefore(ctx) {
		s.endSoft()
	}
	return s.leaveShutdown(shuttingDown(soon))
}

// beginShutdown begins the shutdown, unless another call has. It reports whether it did.
func (s *Supervisor) beginShutdown() bool {
	for !s.state.CompareAndSwap(stateRunning, stateDraining) {
		if s.state.Load() >= stateDraining {
			return false
		}
		if s.state.CompareAndSwap(stateIdle, stateStopping) {
			break
		}
	}
	go s.shutDown() // Run waits for it, and the call of Shutdown that began it
	return true
}

// shutDown does the work of Shutdown. It has a goroutine of its own, because each call of Shutdown
// may leave before the end, and may come from a task that the shutdown waits for.
func (s *Supervisor) shutDown() {
	s.cluster.stopTaking()
	s.lane.Close()
	for _, sh := range s.allShells() {
		// What waits for the journal may have no timer, if the Supervisor never ran.
		sh.owner.Tick()
	}
	s.waitSoftPhase()
	graceEnd := time.Now().Add(s.cfg.Grace)
	s.graceEnd.Store(&graceEnd)
	s.state.Store(stateStopping)
	s.workers.close()
	s.cancel(ErrShutdown)
	for _, sh := range s.allShells() {
		sh.shutDownTurns()
	}
	leave := min(leaveWithin, s.cfg.Grace/2)
	end := graceEnd.Add(-leave)
	quiet := s.waitGrace(s.cfg.Grace - leave)
	if quiet {
		for _, sh := range s.allShells() {
			sh.leave()
		}
		quiet = s.waitGrace(max(time.Until(end), leaveWithin))
	}
	still := s.stillRunning()
	storeHangs := !quiet && len(still.Sessions)+len(still.Deliveries)+len(still.Functions) == 0
	if storeHangs {
		s.endJournal(ErrShutdown)
	}
	if s.sayLastWords(leave) || !quiet {
		quiet = s.waitGrace(leave)
	}
	if storeHangs || !quiet { // what a store did that was cut is unknown
		s.stopError = s.stillRunning()
	}
	s.endJournal(ErrShutdown)
	s.workers.stop(quiet)
	for _, sh := range s.allShells() {
		sh.owner.StopTimer()
	}
	if !s.cluster.end(s.cfg.Grace) && s.stopError == nil {
		s.stopError = s.stillRunning()
	}
	s.tell()
}

// waitSoftPhase waits for the end of the soft phase, in which trees are handed over to other
// processes one by one.
func (s *Supervisor) waitSoftPhase() {
	soft, cancel := context.WithCancel(s.softCtx)
	var handing sync.WaitGroup
	handing.Go(func() { s.cluster.handOver(soft) })
	_ = s.waitUntilQuiet(soft, s.workers.waitSoft) // or until the soft phase ends
	cancel()
	handing.Wait()
}

// leaveWithin is what a shutdown keeps of the grace period for a journal that hangs: it ends the
// ctx of the journal so long before the end. A shutdown whose grace period is over also gives the
// journal that long to record what was not sent.
const leaveWithin = 100 * time.Millisecond

// sayLastWords has the owners that wait for their journal note which turns have not begun, and
// which were cut, see [owner.Owner.LastWord]. It does not wait for them, and reports whether there
// are any. They have the time within.
func (s *Supervisor) sayLastWords(within time.Duration) (began bool) {
	for _, sh := range s.allShells() {
		var said tree.NotBegun
		if sh.owner.Behind() {
			said = sh.turnsLeft()
		}
		if len(said.Turns)+len(said.Cut) == 0 && !sh.owner.Unacted() {
			continue
		}
		began = s.workers.startLast(taskFunc(func() {
			ctx, cancel := context.WithTimeout(s.detachedCtx, within)
			defer cancel()
			_ = sh.owner.LastWord(ctx, said) // what is not on record counts as after a crash
		})) || began
	}
	return began
}

// stillRunning names what has not returned.
func (s *Supervisor) stillRunning() *StillRunningError {
	still := &StillRunningError{Functions: s.asked.list()}
	for _, sh := range s.allShells() {
		sh.addStillRunning(still)
	}
	still.Sessions, still.Deliveries = distinct(still.Sessions), distinct(still.Deliveries)
	return still
}

// waitGrace waits until no task is under way and no batch waits for a journal that fails, at most
// for a time, and reports whether no task is under way. A journal that still fails then is not
// tried again.
func (s *Supervisor) waitGrace(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(s.detachedCtx, d)
	defer cancel()
	if s.waitUntilQuiet(ctx, s.workers.wait) == nil {
		return true
	}
	waiting := false
	for _, sh := range s.allShells() {
		if sh.owner.Waiting() {
			sh.owner.StopTimer()
			waiting = true
		}
	}
	if !waiting {
		return false
	}
	soon, end := context.WithTimeout(s.detachedCtx, tryWithin)
	defer end()
	return s.workers.wait(soon) == nil
}

// tryWithin is how long a try of a journal that fails, which is under way at the end of the grace
// period, may take without counting as one that hangs.
const tryWithin = 20 * time.Millisecond

// waitUntilQuiet waits, with wait, until no task is under way and nothing waits for a journal that
// fails. If ctx ends first, it returns the cause.
func (s *Supervisor) waitUntilQuiet(
	ctx context.Context, wait func(context.Context) error,
) error {
	retry := time.NewTicker(owner.FirstBackoff)
	defer retry.Stop()
	waiting := func(sh *treeShell) bool { return sh.owner.Waiting() }
	for {
		if err := wait(ctx); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.allShells(), waiting) {
			return nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
