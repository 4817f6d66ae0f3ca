package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
)

// sweepEvery is how often Run asks the journal for trees that are due and that no call has touched
// in this process.
const sweepEvery = time.Minute

// unloadAfter is how long nothing must have happened in a tree before it is unloaded from memory.
const unloadAfter = 10 * time.Minute

// Run starts what is due and runs all trees until ctx ends or [Supervisor.Shutdown] is called.
//
// Run returns nil after a Shutdown, also if the Shutdown came first, and [ErrRunning] if the
// Supervisor runs already. When ctx ends, Run cancels the turns and waits for the grace period; it
// then returns a *[StillRunningError] that names the turns whose Runner has not returned. A turn
// that was cancelled so is interrupted: the next owner of the tree knows it as such.
//
// While the journal fails, turns go on. Their results are held, and recorded once the journal takes
// entries again. A caller that asks for something meanwhile gets [ErrUnconfirmed] with the reason.
// A journal that takes nothing any more, because it is closed or must be opened again
// ([session.ErrSync]), ends Run with that error.
func (s *Supervisor) Run(ctx context.Context) error {
	if !s.state.CompareAndSwap(stateIdle, stateRunning) {
		if s.active() {
			return ErrRunning
		}
		<-s.closed
		return nil
	}
	s.workers.setKeeping(true)
	s.lane.Open()
	s.logSweep(ctx)
	for _, sh := range s.allShells() {
		sh.owner.Tick()
		sh.startSenders()
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	health := ""
	for {
		select {
		case <-ticker.C:
			health = s.logHealth(ctx, health)
			s.logSweep(ctx)
		case <-ctx.Done():
			return s.Shutdown(ctx)
		case err := <-s.journalDead:
			now, cancel := context.WithCancel(ctx)
			cancel()
			err = fmt.Errorf("spawn: the journal takes nothing any more: %w", err)
			return errors.Join(err, s.Shutdown(now))
		case <-s.closed:
			return nil
		}
	}
}

// logSweep sweeps and logs the error. The next sweep tries again.
func (s *Supervisor) logSweep(ctx context.Context) {
	if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("offshoot: looking for due trees failed", "error", err.Error())
	}
}

// sweep opens the trees that are due before the next sweep, and unloads idle trees.
func (s *Supervisor) sweep(ctx context.Context) error {
	for _, sh := range s.allShells() {
		sh.owner.Unload(unloadAfter)
		s.forget(sh)
	}
	due := session.RootQuery{DueBefore: time.Now().Add(sweepEvery)}
	for head, err := range s.cfg.Store.Journal.Roots(ctx, due) {
		if err != nil {
			return err
		}
		if isTree(head.Root) {
			s.shellOf(head.Root).owner.Tick()
		}
	}
	return nil
}

// logHealth logs what the store reports as wrong with itself, unless that is the text known, and
// returns it: "" for a healthy store.
func (s *Supervisor) logHealth(ctx context.Context, known string) string {
	err := s.cfg.Store.Health(ctx)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if known != err.Error() {
		s.log.Error("offshoot: the store is not healthy", "error", err.Error())
	}
	return err.Error()
}

// Shutdown ends the work of the Supervisor. Until ctx ends it lets the turns that are under way
// finish and waits until their results are recorded. Then it cancels what is left and waits for
// the grace period. If a Runner or Deliver has not returned by then, Shutdown returns a
// *[StillRunningError].
//
// No further turn starts, with one exception: a turn that was decided on and has been waiting for a
// journal that fails. A turn that Shutdown cancels is interrupted: the next owner of the tree knows
// it as such. Only the first call does the work. The others wait for it and return nil.
func (s *Supervisor) Shutdown(ctx context.Context) error {
	if was := s.state.Swap(stateStopping); was >= stateStopping {
		<-s.closed
		return nil
	}
	s.lane.Close()
	for _, sh := range s.allShells() {
		// What waits for the journal may have no timer, if the Supervisor never ran.
		sh.owner.Tick()
	}
	s.waitUntilQuiet(ctx)
	s.workers.close()
	s.cancel(ErrShutdown)
	for _, sh := range s.allShells() {
		sh.cancelTurns(ErrShutdown)
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	left := s.workers.wait(grace)
	s.workers.stop(left == nil)
	for _, sh := range s.allShells() {
		sh.owner.StopTimer()
	}
	close(s.closed)
	if left == nil {
		return nil
	}
	still := &StillRunningError{}
	for _, sh := range s.allShells() {
		sh.addStillRunning(still)
	}
	return still
}

// waitUntilQuiet waits until no task is under way, except calls of Deliver whose time is up, and
// nothing waits for a journal that fails, or until ctx ends.
func (s *Supervisor) waitUntilQuiet(ctx context.Context) {
	retry := time.NewTicker(owner.FirstBackoff)
	defer retry.Stop()
	waiting := func(sh *treeShell) bool { return sh.owner.Waiting() }
	for s.workers.waitQuiet(ctx) == nil && slices.ContainsFunc(s.allShells(), waiting) {
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
}
