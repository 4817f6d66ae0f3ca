package owner

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A turn begins after the append of its start has returned. An append that hangs, or that fails
// although its batch is in the log, leaves a start on record of a turn that has not begun. The
// owner alone knows that, and says it to the log: when it reads the tree again, or with its last
// word. A log that takes neither leaves the next owner to take the turn for one that has begun:
// what may have had an effect is not done again.
//
// So it is with the end of a turn that a shutdown has ended before it did anything, and with the
// note that a shutdown cancels turns, if the append of that hangs or fails: the Executor knows what
// they come to, and has the last word note it.

// An unactedTurn is a turn whose start is in a batch that the owner has not acted on: its append is
// under way, or has failed.
type unactedTurn struct {
	batch session.BatchID
	turn  tree.TurnRef
}

// addUnacted notes the turns that a batch starts, before its append.
func (o *Owner) addUnacted(batch session.BatchID, effects []tree.Effect) {
	for _, e := range effects {
		if e.Kind != tree.EffectStartTurn || e.Run.Open == nil {
			continue
		}
		o.mu.Lock()
		o.unacted = append(o.unacted, unactedTurn{
			batch, tree.TurnRef{Run: e.Run.Key(), N: e.Run.Open.N},
		})
		o.mu.Unlock()
	}
}

// dropUnacted forgets the turns that keep does not select. A nil keep selects none.
func (o *Owner) dropUnacted(keep func(unactedTurn) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unacted = slices.DeleteFunc(o.unacted, func(u unactedTurn) bool {
		return keep == nil || !keep(u)
	})
}

// keepUnacted returns the turns that the last batch of the log has started and the owner has not
// acted on. It forgets the others: their batches are not in the log, or another owner has ended
// their turns.
func (o *Owner) keepUnacted(last session.BatchID) (turns []tree.TurnRef) {
	o.dropUnacted(func(u unactedTurn) bool { return u.batch == last })
	o.mu.Lock()
	defer o.mu.Unlock()
	return turnsOf(o.unacted, last)
}

// turnsOf returns the turns of a batch.
func turnsOf(list []unactedTurn, batch session.BatchID) (turns []tree.TurnRef) {
	for _, u := range list {
		if u.batch == batch {
			turns = append(turns, u.turn)
		}
	}
	return turns
}

// Unacted reports whether there may be starts of turns on record that the owner has not acted on,
// so that [Owner.LastWord] has something to do. It may be called concurrently.
func (o *Owner) Unacted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.unacted) > 0
}

// Behind reports whether the journal lacks what the owner has decided, or is to decide: an append
// is under way, or has failed. It may be called concurrently.
func (o *Owner) Behind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.draining || o.waiting.Load()
}

// LastWord has the journal note that turns have not begun whose start it has, but whose append has
// not returned or has failed, and what the Executor says of turns that were started: which of them
// were cut, and which of them have done nothing. The Executor must not start a turn any more.
// LastWord reads the tree and appends beside an append that may hang, under a ctx of its own. The
// owner decides nothing more. Turns that the log has the end of, or that another owner has ended,
// are left alone. An error means that the log may say that turns have begun which have not.
// LastWord may be called concurrently.
func (o *Owner) LastWord(ctx context.Context, said tree.NotBegun) (err error) {
	o.mu.Lock()
	unacted := slices.Clone(o.unacted)
	silent := len(unacted)+len(said.Turns)+len(said.Cut) == 0
	if !silent {
		o.spoken.Store(true)
	}
	o.mu.Unlock()
	if silent {
		return nil
	}
	defer func() { recoverValue(recover(), &err) }()
	t, last, err := Load(ctx, o.cfg.Journal, o.root, o.cfg.Options)
	if err != nil {
		return err
	}
	said.Turns = slices.Concat(said.Turns, turnsOf(unacted, last.Batch))
	if _, err := t.Decide(said, o.cfg.now()); err != nil {
		return err
	}
	facts, _ := t.Take()
	if len(facts) == 0 {
		return nil
	}
	entries := make([]session.Entry, len(facts))
	for i := range facts {
		entries[i].Payload = &facts[i]
	}
	id := o.cfg.Writer + "." + strconv.FormatUint(o.cfg.batchNames.Add(1), 36)
	_, err = o.cfg.Journal.Append(ctx, o.root, last.Seq, session.Batch{
		ID: session.BatchID(id), Entries: entries, Due: t.Due(),
	})
	if err != nil {
		return fmt.Errorf("noting what has not begun in %q: %w", o.root, err)
	}
	return nil
}
