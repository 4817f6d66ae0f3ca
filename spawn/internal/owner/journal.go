package owner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Place is where a batch ends in the journal of a tree. The zero Place is before the first.
type Place struct {
	Seq   session.Seq
	Batch session.BatchID
}

// Load reads the journal of a tree and folds it. It returns the tree and where the last batch ends.
// It returns a *[JournalError] for an entry that cannot follow those before it.
func Load(
	ctx context.Context, j session.Journal, root session.Key, opt *tree.Options,
) (*tree.Tree, Place, error) {
	t := tree.New(root, opt)
	var last Place
	d := tree.Decoder{Apart: apart, Parts: min(runtime.GOMAXPROCS(0), maxParts)}
	for e, err := range j.Read(ctx, root, 0) {
		if err != nil {
			return nil, Place{}, fmt.Errorf("reading the journal of %q: %w", root, err)
		}
		f, err := d.Fact(e.Payload)
		if err == nil {
			err = t.Replay(f)
		}
		if err != nil {
			return nil, Place{}, &JournalError{Root: root, Seq: e.Seq, Err: err}
		}
		last = Place{e.Seq, e.Batch}
	}
	return t, last, nil
}

// maxParts is the greatest number of parts of an image that are decoded at the same time.
const maxParts = 4

// apart calls functions at the same time and waits for them. A panic of one is that of apart.
func apart(work []func()) {
	var wg sync.WaitGroup
	panics := make([]any, len(work))
	for i, f := range work {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			f()
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// repairMark returns the mark of the last repair of the journal. It reads the mark once: a journal
// that has an owner is not repaired. The error is [session.ErrUnfinishedCopy] for a journal that is
// not whole.
func (c *Config) repairMark(ctx context.Context) (session.RepairMark, error) {
	if known := c.lastRepair.Load(); known != nil {
		return *known, nil
	}
	if err := session.CheckCopy(ctx, c.Journal); err != nil {
		return session.RepairMark{}, err
	}
	mark, err := session.LastRepair(ctx, c.Journal)
	if err == nil {
		c.lastRepair.Store(&mark)
	}
	return mark, err
}

// batchOf returns the batch that records facts. Without facts it returns the zero Batch, which is
// not appended.
func (o *Owner) batchOf(facts []tree.Fact) (b session.Batch) {
	if len(facts) == 0 {
		return b
	}
	return session.Batch{
		ID:      o.batchID(),
		Entries: o.entriesOf(facts),
		Due:     o.tree.Due(),
		Reset:   facts[0].Kind == tree.Snapshot,
		Members: o.membersOf(facts),
	}
}

// membersOf returns the sessions that a batch brings into the log. Those are the runs that it
// admits or brings back. A batch that opens the tree names all of them, so that a log of an earlier
// version, which named none, is found from then on. So does a snapshot, which replaces the batches
// before.
func (o *Owner) membersOf(facts []tree.Fact) []session.Key {
	n := 0
	for i := range facts {
		switch facts[i].Kind {
		case tree.Opened, tree.Snapshot:
			return o.tree.Sessions()
		case tree.Admitted, tree.ReviveBegun:
			n++
		default: // it brings no session
		}
	}
	if n == 0 {
		return nil
	}
	if len(o.spareMembers) < n {
		o.spareMembers = make([]session.Key, max(firstSlab, n))
	}
	members := o.spareMembers[:0:n]
	o.spareMembers = o.spareMembers[n:]
	for i := range facts {
		if k := facts[i].Kind; k == tree.Admitted || k == tree.ReviveBegun {
			members = append(members, facts[i].Run)
		}
	}
	return members
}

// append appends a batch to the journal. It does nothing for a batch without entries.
//
// An append that fails may have happened all the same: an acknowledgement can be lost, and a
// conflict can be with an earlier attempt of the same batch. So append looks for the batch at the
// end of the log and succeeds if it is there. Otherwise absent says whether it is known not to be.
// While a stalled batch is tried again, a conflict counts only if the log can be read: otherwise
// the entry in the way may be the owner's own.
//
// A journal that is dead is not asked: it may not answer, and what it has of the batch may not be
// on the disk.
func (o *Owner) append(ctx context.Context, b session.Batch) (err error) {
	if len(b.Entries) == 0 {
		return nil
	}
	o.absent = false
	defer func() { recoverValue(recover(), &err) }()
	seq, err := o.cfg.Journal.Append(ctx, o.root, o.last, b)
	switch {
	case Dead(err): // a closed one has refused the batch, unless it has it from before
		o.absent = !errors.Is(err, session.ErrSync) && o.stalled == nil
	case err != nil:
		found, absent, unread := o.findBatch(ctx, b.ID)
		switch {
		case unread != nil && errors.Is(err, session.ErrConflict) && o.stalled != nil:
			err = unread
		case found > 0:
			seq, err = found, nil
		default:
			// Nothing in the log does not mean that an append which ctx has cut off is over.
			o.absent = absent && ctx.Err() == nil
		}
	}
	if err != nil {
		return err
	}
	o.recorded(Place{seq, b.ID})
	if o.cfg.Check != nil {
		o.cfg.Check(o.root, o.tree, seq)
	}
	return nil
}

// slabSize is how many entries, and how many names of batches, the owner allocates at a time. With
// the facts that the tree allocates likewise, this saves 4 of 21 allocations for each child of
// BenchmarkFlat in package spawn. An owner begins with firstSlab, because most trees have few
// batches, and doubles that.
const (
	firstSlab = 8
	slabSize  = 64
)

// entriesOf returns the facts as entries of a batch. The journal may keep the entries, so their
// memory is not used again; several batches share one allocation.
func (o *Owner) entriesOf(facts []tree.Fact) []session.Entry {
	if len(o.spareEntries) < len(facts) {
		o.slab = min(max(2*o.slab, firstSlab), slabSize)
		o.spareEntries = make([]session.Entry, max(o.slab, len(facts)))
	}
	entries := o.spareEntries[:len(facts):len(facts)]
	o.spareEntries = o.spareEntries[len(facts):]
	for i := range facts {
		entries[i].Payload = &facts[i]
	}
	return entries
}

// batchID returns a name for a batch that no other batch of any owner has: the name of the writer
// and a number, which all owners of the writer count. The names of several batches are pieces of
// one string, which is one allocation.
func (o *Owner) batchID() session.BatchID {
	if len(o.batchIDs) == 0 {
		var b strings.Builder
		var number [16]byte
		n := uint64(max(o.slab, firstSlab))
		last := o.cfg.batchNames.Add(n)
		widest := len(strconv.AppendUint(number[:0], last, 36))
		b.Grow(int(n) * (len(o.cfg.Writer) + 2 + widest))
		for i := range n {
			b.WriteString(o.cfg.Writer)
			b.WriteByte('.')
			b.Write(strconv.AppendUint(number[:0], last-i, 36))
			b.WriteByte(' ')
		}
		o.batchIDs = b.String()
	}
	id, rest, _ := strings.Cut(o.batchIDs, " ")
	o.batchIDs = rest
	return session.BatchID(id)
}

// lookForBatch returns nil if the log ends with a batch whose append ended its goroutine, and else
// the error of that. Then absent says whether the batch is known not to be in the log.
func (o *Owner) lookForBatch(
	ctx context.Context, id session.BatchID, failed error,
) (err error) {
	defer func() { recoverValue(recover(), &err) }()
	found, absent, unread := o.findBatch(ctx, id)
	if unread != nil || found == 0 {
		o.absent = unread == nil && absent && ctx.Err() == nil
		return failed
	}
	o.recorded(Place{found, id})
	return nil
}

// recorded notes that the journal has the batch that ends at a place.
func (o *Owner) recorded(at Place) {
	o.previous, o.last, o.lastBatch = o.last, at.Seq, at.Batch
	o.backoff, o.noAppendYet = 0, false
}

// findBatch looks for a batch behind the last entry that the owner knows. It returns the sequence
// number of the last entry of the batch if the log ends with that batch, else 0. It returns absent
// if the batch is not in the log: the log ends where it did, or another batch stands in its place.
// A log that was reset meanwhile does not tell.
func (o *Owner) findBatch(
	ctx context.Context, id session.BatchID,
) (last session.Seq, absent bool, err error) {
	for e, err := range o.cfg.Journal.Read(ctx, o.root, o.last) {
		switch {
		case err != nil:
			return 0, false, err
		case e.Batch != id:
			return 0, last == 0 && e.Seq == o.last+1, nil
		}
		last = e.Seq
	}
	return last, last == 0, nil
}

// compact replaces the log by a snapshot when the log has grown well beyond what a snapshot would
// hold. It returns false if the snapshot had to be appended and was not: the owner is stalled, or
// the tree is discarded.
func (o *Owner) compact(ctx context.Context, now int64) bool {
	if o.snapshotTooLarge || !o.tree.Bulky() {
		return true
	}
	o.handOver()
	if _, err := o.tree.Decide(tree.Compact{}, now); err != nil {
		return true
	}
	facts, effects := o.tree.Take()
	return o.commit(ctx, facts, effects, nil)
}
