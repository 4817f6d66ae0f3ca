package spawn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// ErrStoreExited is the error of a store that ended the goroutine which called it.
var ErrStoreExited = errStoreExited

// LiftLimits lets benchmarks measure the machinery instead of the limits of policy, which no
// configuration can lift this far.
func LiftLimits(s *Supervisor) {
	rules := *s.Rules()
	rules.Subagents.MaxChildren = 1 << 30
	rules.Subagents.MaxSpawnDepth = 5
	s.rules.Store(&rules)
}

// SetClock has the Supervisor go by another wall clock. It must be called before anything is asked
// of the Supervisor.
func (s *Supervisor) SetClock(now func() time.Time) { s.now = now }

// BoundWatchers has watchers take no more than so many events, bytes of events, and trees. It must
// be called before anything is asked of the Supervisor.
func (s *Supervisor) BoundWatchers(events, bytes, trees int) {
	s.watchBounds = watchBounds{events, bytes, trees}
}

// Held returns what the watchers of a tree and those of all trees have in their queues, and how
// many trees they know.
func (s *Supervisor) Held(root session.Key) (events, bytes, trees int) {
	sh := s.shellOf(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.eachWatcher(func(w *watcher) {
		w.mu.Lock()
		defer w.mu.Unlock()
		events, bytes, trees = events+len(w.queue)-w.head, bytes+w.bytes, trees+len(w.feeds)
	})
	return events, bytes, trees
}

// Watchers returns how many watchers there are.
func (s *Supervisor) Watchers() int {
	n := len(s.allWatchers())
	for _, sh := range s.allShells() {
		sh.mu.Lock()
		n += len(sh.watchers)
		sh.mu.Unlock()
	}
	return n
}

// HistoryOf returns the events that the entries of a journal tell, from its beginning on.
func (s *Supervisor) HistoryOf(
	root session.Key, entries iter.Seq2[session.Entry, error],
) (list []TreeEvent, err error) {
	r := replay{
		viewer: viewer{root: root, options: s.ownerConfig.Options}, query: &EventQuery{},
		from: Cursor{root: root, index: wholeBatch}, now: s.now,
		show: func(e *TreeEvent) bool { list = append(list, *e); return true },
	}
	_, err = r.run(entries)
	return list, err
}

// Behind reports whether c is behind a place of the same tree.
func (c Cursor) Behind(at Cursor) bool { return c.after(at) }

// Beginning returns the Cursor before everything that happens in a tree.
func Beginning(root session.Key) Cursor { return endOf(root, owner.Place{}) }

// SlotsUsed returns how many slots of the lane are taken, those of top-level sessions too.
func (s *Supervisor) SlotsUsed() int { return s.lane.Used() }

// Trees returns how many trees have an owner in this process.
func (s *Supervisor) Trees() int { return len(s.allShells()) }

// NewID returns an id as the Supervisor makes them.
func (s *Supervisor) NewID() string { return s.ids.newID() }

func (s *Supervisor) NewRunID() string { return s.ids.newRunID() }

// A Checkpoint is the state of a tree after an append. It is valid during the call that gets it.
type Checkpoint struct {
	Last session.Seq

	root session.Key
	tree *tree.Tree
	opt  *tree.Options
}

// CheckAppends has check called after every append of the Supervisor, before it acts on the facts.
// It must be called before anything is asked of the Supervisor.
//
// A check that ends its goroutine, as t.FailNow does, is not called again: the owner goes on with
// another goroutine, as after an append that failed so, and would meet it again without end.
func (s *Supervisor) CheckAppends(check func(c Checkpoint)) {
	var exited atomic.Bool
	s.ownerConfig.Check = func(root session.Key, t *tree.Tree, last session.Seq) {
		if exited.Load() {
			return
		}
		returned := false
		defer func() {
			if !returned {
				exited.Store(true)
			}
		}()
		check(Checkpoint{last, root, t, s.ownerConfig.Options})
		returned = true
	}
}

// Verify reads the journal up to the append and returns an error if that gives another tree than
// the one that lives in memory. Another owner may have appended since, or have replaced the log by
// a snapshot, in which case nothing of the append is left to read.
func (c Checkpoint) Verify(ctx context.Context, j session.Journal) error {
	upTo := &journalUpTo{Journal: j, last: c.Last}
	folded, last, err := owner.Load(ctx, upTo, c.root, c.opt)
	if err != nil || last.Seq == 0 && upTo.beyond {
		return err
	}
	live, err := json.Marshal(c.tree.Image())
	if err != nil {
		return err
	}
	read, err := json.Marshal(folded.Image())
	if err != nil {
		return err
	}
	if last.Seq != c.Last || !bytes.Equal(live, read) {
		return fmt.Errorf("spawn: the journal of %q does not fold to the tree in memory: at %d\n%s\nat %d\n%s",
			c.root, c.Last, live, last.Seq, read)
	}
	return c.verifyMembers(ctx, j)
}

// verifyMembers returns an error if the key of a run does not lead to its tree.
func (c Checkpoint) verifyMembers(ctx context.Context, j session.Journal) error {
	for _, key := range c.tree.Sessions() {
		found := false
		for head, err := range j.Roots(ctx, session.RootQuery{Member: key}) {
			if err != nil {
				return err
			}
			found = found || head.Root == c.root
		}
		if !found {
			return fmt.Errorf("spawn: the key of %q does not lead to %q", key, c.root)
		}
	}
	return nil
}

// journalUpTo yields the entries of a Journal up to one of them.
type journalUpTo struct {
	session.Journal

	last   session.Seq
	beyond bool // there are others
}

// Read implements session.Journal.
func (j *journalUpTo) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		for e, err := range j.Journal.Read(ctx, root, after) {
			if j.beyond = err == nil && e.Seq > j.last; j.beyond || !yield(e, err) {
				return
			}
		}
	}
}

// Live returns what [Supervisor.Runs] and [Supervisor.Outbox] would return of the tree in memory,
// and how its top-level session stands.
func (c Checkpoint) Live() (runs []RunInfo, outbox []Delivery, top Status) {
	c.tree.Outbox(func(e *tree.Entry) { outbox = append(outbox, deliveryOf(c.tree, e)) })
	return runsBelow(c.tree, c.tree.Root(), true, nil), outbox, Status(c.tree.Root().State)
}

// Rest unloads every tree that is idle, as the sweep does after ten idle minutes.
func (s *Supervisor) Rest() {
	for _, sh := range s.allShells() {
		sh.owner.Unload(time.Nanosecond, func() {})
		s.forget(sh)
	}
}

// Shells returns how many trees the Supervisor keeps something of.
func (s *Supervisor) Shells() int { return len(s.allShells()) }

// AnswerWithin waits for the answer to a message that has left the outbox unseen, as
// [Supervisor.SendOut] does then.
func AnswerWithin(
	ctx context.Context, s *Supervisor, from, to session.Key, m Incoming, left time.Duration,
) error {
	_, err := s.answerWithin(ctx, from, to, &m, left)
	return err
}

// KeptAnswers returns for how many messages of a tree answers are kept.
func KeptAnswers(s *Supervisor, root session.Key) int {
	sh := s.shellOf(root)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.kept)
}
