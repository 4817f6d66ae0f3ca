package dirstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A LostTree is a tree of which a damaged file no longer has everything.
type LostTree struct {
	Root session.Key
	Kept session.Seq // the last entry that is left, at the end of a batch; 0: none is left
	Lost session.Seq // the last entry that is known to be lost
}

// A salvage is what is intact of a journal.
type salvage struct {
	log   wal.Salvage
	trees map[session.Key]*salvagedTree // those of the log, and those of damaged idle logs
	lines *lineLog                      // what the log has of transcripts
}

// A salvagedTree is what is intact of one tree.
type salvagedTree struct {
	idleTree
	gap  bool        // a batch before the next one is missing
	lost session.Seq // the last entry that is known to be lost
}

// salvageLog reads what is intact in the log. The error is [session.ErrFormat] if a newer version
// has written a part of it.
func salvageLog(fsys disk.FS, dir string) (*salvage, error) {
	log, err := wal.SalvageLog(fsys, dir)
	if err != nil {
		return nil, logError(err)
	}
	x := &salvage{log: log, trees: make(map[session.Key]*salvagedTree), lines: newLineLog()}
	idle := newIdleLogs(fsys, dir)
	for _, r := range log.Records {
		if err := x.add(&idle, r); err != nil {
			return nil, err
		}
	}
	for _, p := range log.Damaged {
		x.addDamaged(p)
	}
	x.preferIdle(&idle)
	for root, t := range x.trees {
		if len(t.batches) > 0 || t.lost > 0 {
			continue
		}
		delete(x.trees, root)
	}
	return x, nil
}

// tree returns the salvagedTree of a root.
func (x *salvage) tree(root session.Key) *salvagedTree {
	t := x.trees[root]
	if t == nil {
		t = new(salvagedTree)
		x.trees[root] = t
	}
	return t
}

// add adds an intact frame of the log.
func (x *salvage) add(idle *idleLogs, r wal.Record) error {
	// A damage may have taken a frame between: what the log has of a transcript is then what
	// follows the gap. Lines that cannot be read are of no tree.
	if ok, err := x.lines.replay(wal.Span{}, r.Kind, r.Payload); ok {
		return logError(onlyFormat(err))
	}
	b, err := readBatch(r)
	if errors.Is(err, session.ErrFormat) {
		return err
	}
	if err != nil {
		if !b.root.IsZero() {
			x.tree(b.root).lose(b)
		}
		return nil
	}
	t := x.tree(b.root)
	if len(t.batches) == 0 && !t.gap && b.checkFirst() != nil {
		t.idleTree, _ = idle.read(b.root) // the frames that were copied from there are lost
	}
	t.addNext(r, b)
	return nil
}

// onlyFormat returns err if it says that a newer version has written something, else nil.
func onlyFormat(err error) error {
	if _, ok := errors.AsType[*wal.FormatError](err); ok {
		return err
	}
	return nil
}

// preferIdle replaces a tree by its idle log if that has more of it: the log has lost the end of
// the tree, or is an older one. An intact log is never behind an idle log.
func (x *salvage) preferIdle(idle *idleLogs) {
	for root, t := range x.trees {
		if at, err := idle.read(root); err == nil && at.last > t.last {
			t.idleTree = at
		}
	}
}

// markRepaired adds a mark that the journal was repaired. It takes the place of the marks before.
func (x *salvage) markRepaired(now time.Time) error {
	root := session.RepairsRoot()
	t := x.tree(root)
	payload, err := appendBatch(nil, root, max(t.last, t.lost), session.NewRepairMark(now).Batch(),
		wal.MaxPayload)
	if err != nil {
		return err
	}
	b, err := parseBatch(payload, session.ParseRoot)
	if err == nil {
		t.addNext(wal.Record{Kind: frameBatch, Payload: payload}, b)
	}
	return err
}

// readBatch parses a frame with a batch whose entries are JSON. Beside an error it returns as much
// of the batch as can be read.
func readBatch(r wal.Record) (b storedBatch, err error) {
	if r.Kind != frameBatch && r.Kind != frameFirst {
		return b, logError(&wal.FormatError{What: fmt.Sprintf("frame kind %d", r.Kind)})
	}
	if b, err = parseBatch(r.Payload, session.ParseRoot); err != nil {
		return b, logError(err)
	}
	return b, verifyBatch(r.Payload)
}

// addNext adds a batch to the end of t if it follows the one before. A snapshot follows any. Behind
// a gap all batches are lost up to a snapshot.
func (t *salvagedTree) addNext(r wal.Record, b storedBatch) {
	begins := r.Kind == frameFirst && b.checkFirst() == nil || b.reset && b.after >= t.last
	switch {
	case begins:
		lost := t.lost
		*t = salvagedTree{}
		if lost > b.after {
			t.lost = lost
		}
	case b.last() <= t.last:
		return // a copy of what is there
	case t.gap || b.after != t.last:
		t.lose(b)
		return
	}
	t.batches = append(t.batches, b)
	kind := frameBatch
	if len(t.batches) == 1 {
		kind = frameFirst
	}
	t.frames = append(t.frames, wal.Record{Kind: kind, Payload: r.Payload})
	t.last, t.due = b.last(), b.due
}

// lose notes that a batch is lost, and with it those that follow.
func (t *salvagedTree) lose(b storedBatch) {
	t.gap, t.lost = true, max(t.lost, b.last())
}

// addDamaged notes which tree a damaged part of the log was of, as far as that can be read.
func (x *salvage) addDamaged(p wal.Part) {
	if len(p.Payload) == 0 {
		return
	}
	b, err := parseBatch(p.Payload, session.ParseRoot)
	if err != nil || x.trees[b.root] == nil {
		return // nothing in it can be relied on
	}
	if t := x.trees[b.root]; b.last() > t.last {
		t.lost = max(t.lost, b.last())
	}
}

// lostTrees returns the trees of which something is lost, sorted by root.
func (x *salvage) lostTrees() (lost []LostTree) {
	for root, t := range x.trees {
		if t.lost > t.last {
			lost = append(lost, LostTree{Root: root, Kept: t.last, Lost: t.lost})
		}
	}
	slices.SortFunc(lost, func(a, b LostTree) int {
		return cmp.Compare(a.Root.String(), b.Root.String())
	})
	return lost
}

// salvageIdle reads what is intact in a damaged idle log. head is zero if it cannot be told whose
// log it is.
func salvageIdle(idle *idleLogs, name string) (head session.Head, t *salvagedTree, err error) {
	file, err := wal.SalvageFile(idle.fs, name)
	if err != nil {
		return head, nil, logError(err)
	}
	t = new(salvagedTree)
	for _, r := range file.Records {
		if r.Kind == frameIdleHead {
			if h, err := parseIdleHead(r.Payload); err == nil && idle.path(h.Root) == name {
				head = h
			}
			continue
		}
		b, err := readBatch(r)
		if errors.Is(err, session.ErrFormat) {
			return head, nil, err
		}
		if err != nil || idle.path(b.root) != name {
			t.gap = true
			continue
		}
		head.Root = b.root
		if len(t.batches) == 0 && b.checkFirst() != nil {
			t.lose(b)
			continue
		}
		t.addNext(r, b)
	}
	t.lost = max(t.lost, head.Last)
	return head, t, nil
}

// writeTo writes all trees to a new log.
func (x *salvage) writeTo(w *wal.Writer) error {
	for _, root := range slices.SortedFunc(maps.Keys(x.trees), func(a, b session.Key) int {
		return cmp.Compare(a.String(), b.String())
	}) {
		for _, r := range x.trees[root].frames {
			if _, err := w.Append(r.Kind, r.Payload); err != nil {
				return err
			}
		}
	}
	return nil
}

// ViewIntact is [View] for a directory whose log is damaged. The Store has each tree up to its last
// batch before the damage, as [Repair] would leave it. damage is the error that View returns for
// the directory, or nil if the log is intact. err is any other error.
func ViewIntact(dir string) (store *session.Store, damage, err error) {
	fsys, abs, err := resolveDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("dirstore: view directory: %w", err)
	}
	return viewIntactOn(fsys, abs)
}

// viewIntactOn is ViewIntact on any file system.
func viewIntactOn(fsys disk.FS, dir string) (store *session.Store, damage, err error) {
	store, err = viewOn(fsys, dir)
	if !errors.Is(err, session.ErrCorrupt) {
		return store, nil, err
	}
	damage = err
	logs := filepath.Join(dir, journalDir)
	watch := watchLog(fsys, logs)
	x, err := salvageLog(fsys, logs)
	if err != nil {
		return nil, damage, dirError("view", dir, err)
	}
	j := &intactJournal{trees: x.trees, idle: newIdleLogs(fsys, logs)}
	nothing := func() error { return nil }
	fsys = x.lines.over(fsys, filepath.Join(dir, sessionsDir), watch)
	t := newTranscripts(fsys, filepath.Join(dir, sessionsDir), true, nil, nothing)
	return &session.Store{Journal: j, Transcripts: t, Files: newFiles(t)}, damage, nil
}

// An intactJournal is the read-only [session.Journal] of a salvage.
type intactJournal struct {
	trees map[session.Key]*salvagedTree
	idle  idleLogs
}

// Append implements [session.Journal].
func (*intactJournal) Append(
	_ context.Context, root session.Key, _ session.Seq, _ session.Batch,
) (session.Seq, error) {
	return 0, fmt.Errorf("dirstore: append to %q: %w", root, session.ErrReadOnly)
}

// Read implements [session.Journal].
func (j *intactJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		if err := j.read(ctx, root, after, yield); err != nil {
			yield(session.Entry{}, fmt.Errorf("dirstore: read %q: %w", root, logError(err)))
		}
	}
}

func (j *intactJournal) read(
	ctx context.Context, root session.Key, after session.Seq,
	yield func(session.Entry, error) bool,
) error {
	var t idleTree
	if x := j.trees[root]; x != nil && len(x.batches) > 0 {
		t = x.idleTree
	} else {
		var err error
		if t, err = j.idle.during(ctx).read(root); err != nil {
			return err
		}
	}
	for i := range t.batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := yieldBatch(&t.batches[i], after, func(e session.Entry) bool {
			return yield(e, nil)
		})
		if !more {
			return err
		}
	}
	return nil
}

// Roots implements [session.Journal].
func (j *intactJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		for root, t := range j.trees {
			if len(t.batches) > 0 && dueBefore(t.due, q) && t.hasMember(q.Member) &&
				!yield(session.Head{Root: root, Last: t.last, Due: t.due}, ctx.Err()) {
				return
			}
		}
		if !q.DueBefore.IsZero() {
			return
		}
		if !q.Member.IsZero() {
			j.idleWithMember(ctx, q.Member, yield)
			return
		}
		for h, err := range j.idle.during(ctx).heads() {
			if t := j.trees[h.Root]; err == nil && t != nil && len(t.batches) > 0 {
				continue
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// hasMember reports whether a tree has a member. Every tree has the zero one.
func (t *idleTree) hasMember(member session.Key) bool {
	id := idOf(member)
	for i := range t.batches {
		if t.batches[i].members.has(id) {
			return true
		}
	}
	return member.IsZero()
}

// idleWithMember yields the heads of the idle trees that have a member, and the errors last.
func (j *intactJournal) idleWithMember(
	ctx context.Context, member session.Key, yield func(session.Head, error) bool,
) {
	idle := j.idle.during(ctx)
	roots, failed := idle.members.find(idOf(member))
	for _, root := range roots {
		h, ok, err := idle.lookUpHead(root)
		failed = errors.Join(failed, err)
		if t := j.trees[h.Root]; !ok || t != nil && len(t.batches) > 0 {
			continue
		}
		if !yield(h, ctx.Err()) {
			return
		}
	}
	if failed != nil {
		yield(session.Head{}, logError(failed))
	}
}

// dueBefore reports whether q selects a tree that is due at a time.
func dueBefore(due time.Time, q session.RootQuery) bool {
	return q.DueBefore.IsZero() || !due.IsZero() && due.Before(q.DueBefore)
}
