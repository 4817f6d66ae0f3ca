package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Load folds a journal. The last sequence is 0 if there is none.
func Load(ctx context.Context, j session.Journal, root session.Key, opt *tree.Options) (*tree.Tree, session.Seq, error) {
	t := tree.New(root, opt)
	var last session.Seq
	for e, err := range j.Read(ctx, root, 0) {
		if err != nil {
			return nil, 0, fmt.Errorf("reading the journal of %q: %w", root, err)
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
		found, unread := o.findBatch(ctx, b.ID)
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
	o.last, o.backoff, o.noAppendYet = seq, 0, false
	if o.cfg.Check != nil {
		o.cfg.Check(o.root, o.tree, seq)
	}
	return nil
}

// slabSize is for how many entries or batch ids memory is taken at a time.
const slabSize = 64

// entriesOf returns the facts as entries of a batch, which are the journal's from then on.
func (o *Owner) entriesOf(facts []tree.Fact) []session.Entry {
	if len(o.spareEntries) < len(facts) {
		o.spareEntries = make([]session.Entry, max(slabSize, len(facts)))
	}
	entries := o.spareEntries[:len(facts):len(facts)]
	o.spareEntries = o.spareEntries[len(facts):]
	for i := range facts {
		entries[i].Payload = &facts[i]
	}
	return entries
}

// batchID names a batch: no other of any owner has the same name. The names of several batches are pieces of one string.
func (o *Owner) batchID() session.BatchID {
	if len(o.batchIDs) == 0 {
		var b strings.Builder
		var number [16]byte
		b.Grow(slabSize * (len(o.cfg.Writer) + 2 + len(strconv.AppendUint(number[:0], o.batches+slabSize, 36))))
		for i := range uint64(slabSize) {
			b.WriteString(o.cfg.Writer)
			b.WriteByte('.')
			b.Write(strconv.AppendUint(number[:0], o.batches+i, 36))
			b.WriteByte(' ')
		}
		o.batchIDs = b.String()
	}
	id, rest, _ := strings.Cut(o.batchIDs, " ")
	o.batchIDs = rest
	return session.BatchID(id)
}

// findBatch returns the last sequence of a batch if the log ends with it, else 0.
func (o *Owner) findBatch(ctx context.Context, id session.BatchID) (last session.Seq, err error) {
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

// compact replaces the log by a snapshot when it has grown well beyond what a snapshot would hold. It returns false if the journal did
// not take it.
func (o *Owner) compact(ctx context.Context, now int64) bool {
	if o.snapshotTooLarge || !o.tree.Bulky() {
		return true
	}
	if _, err := o.tree.Decide(tree.Compact{}, now); err != nil {
		return true
	}
	facts, effects := o.tree.Take()
	return o.commit(ctx, facts, effects, nil)
}
