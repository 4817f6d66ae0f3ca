package dirstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// batchOf returns a batch with one entry for each text.
func batchOf(due time.Time, reset bool, texts ...string) session.Batch {
	b := session.Batch{ID: session.BatchID("id " + texts[0]), Due: due, Reset: reset}
	b.Members = []session.Key{memberKey(texts[0])}
	for _, text := range texts {
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(fmt.Sprintf("%q", text))})
	}
	return b
}

// memberKey returns the key of the sub-agent that batchOf names for a text.
func memberKey(text string) session.Key {
	sum := sha256.Sum256([]byte(text))
	return session.Must(session.Parse(fmt.Sprintf("agent:main:subagent:%x-%x-4000-8000-%x",
		sum[:4], sum[4:6], sum[6:12])))
}

// A journalModel is what a journal must have.
type journalModel map[session.Key]*modelLog

type modelLog struct {
	first session.Seq // the sequence before the first text
	texts []string
	due   time.Time

	members []session.Key
}

func (l *modelLog) last() session.Seq { return l.first + session.Seq(len(l.texts)) }

func (l *modelLog) after(b session.Batch) *modelLog {
	next := &modelLog{
		first: l.first, texts: slices.Clone(l.texts), due: b.Due,
		members: slices.Clone(l.members),
	}
	if b.Reset {
		next.first, next.texts, next.members = l.last(), nil, nil
	}
	next.members = append(next.members, b.Members...)
	for _, e := range b.Entries {
		text := string(e.Payload.(session.Raw))
		next.texts = append(next.texts, text[1:len(text)-1])
	}
	return next
}

func (m journalModel) log(root session.Key) *modelLog {
	if m[root] == nil {
		return &modelLog{}
	}
	return m[root]
}

// readLog reads a tree.
func readLog(ctx context.Context, j session.Journal, root session.Key) (*modelLog, error) {
	l := &modelLog{}
	for e, err := range j.Read(ctx, root, 0) {
		if err != nil {
			return nil, err
		}
		if l.texts == nil {
			l.first = e.Seq - 1
		}
		if e.Seq != l.last()+1 {
			return nil, fmt.Errorf("entry %d follows %d", e.Seq, l.last())
		}
		text := string(e.Payload.(session.Raw))
		l.texts = append(l.texts, text[1:len(text)-1])
	}
	return l, nil
}

// verify fails unless a journal has exactly the trees of the model.
func (m journalModel) verify(t *testing.T, s *session.Store, when string) {
	t.Helper()
	heads := make(map[session.Key]session.Head)
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{}) {
		require.NoError(t, err, when)
		require.NotContains(t, heads, h.Root, when)
		heads[h.Root] = h
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(m)), slices.Collect(maps.Keys(heads)), when)
	for root, l := range m {
		require.Equal(t, l.last(), heads[root].Last, "%s: %s", when, root)
		require.True(t, l.due.Equal(heads[root].Due), "%s: %s", when, root)
		got, err := readLog(t.Context(), s.Journal, root)
		require.NoError(t, err, when)
		require.Equal(t, l.texts, got.texts, "%s: %s", when, root)
		require.Equal(t, l.first, got.first, "%s: %s", when, root)
		for _, member := range l.members {
			wantMember(t, s, member, heads[root], when)
		}
	}
	kept, counted := dirstore.Live(s)
	require.Equal(t, counted, kept, when)
}

// wantMember fails unless a member leads to a log.
func wantMember(
	t *testing.T, s *session.Store, member session.Key, want session.Head, when string,
) {
	t.Helper()
	found := 0
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{Member: member}) {
		require.NoError(t, err, when)
		if h.Root == want.Root {
			require.Equal(t, want, h, when)
			found++
		}
	}
	require.Equal(t, 1, found, "%s: %s of %s", when, member, want.Root)
}

// A compaction moves trees that are never due out of the log. They can still be found and read, and
// an append copies them back.
func TestCompactionMovesIdleTreesOutOfTheLog(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	m := make(journalModel)
	appendTo := func(i int, b session.Batch) {
		t.Helper()
		_, err := s.Journal.Append(t.Context(), treeKey(i), m.log(treeKey(i)).last(), b)
		require.NoError(t, err)
		m[treeKey(i)] = m.log(treeKey(i)).after(b)
	}
	for i := range 20 {
		appendTo(i, batchOf(testTime, false, fmt.Sprint("first of ", i), "second"))
		due := time.Time{}
		if i%4 == 0 {
			due = testTime.Add(time.Hour)
		}
		appendTo(i, batchOf(due, false, fmt.Sprint("third of ", i)))
	}
	_, err := s.Journal.Append(t.Context(), session.BindingsRoot(), 0,
		batchOf(time.Time{}, false, "bound"))
	require.NoError(t, err)
	m[session.BindingsRoot()] = m.log(session.BindingsRoot()).after(batchOf(time.Time{}, false, "bound"))
	m.verify(t, s, "before")
	_, trees := dirstore.LogSize(s)
	assert.Equal(t, 21, trees)
	for round := range 3 {
		require.NoError(t, dirstore.Compact(s))
		size, trees := dirstore.LogSize(s)
		assert.Equal(t, 6, trees, "those that are due, and the reserved root")
		assert.Less(t, size, int64(1500))
		m.verify(t, s, "compacted")
		_, err := s.Journal.Append(t.Context(), treeKey(1), m.log(treeKey(1)).last()-1,
			batchOf(testTime, false, "stale"))
		require.ErrorIs(t, err, session.ErrConflict)
		_, err = s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(testTime, false, "stale"))
		require.ErrorIs(t, err, session.ErrConflict)
		m.verify(t, s, "after conflicts")

		appendTo(1, batchOf(time.Time{}, false, fmt.Sprint("round ", round)))
		appendTo(2, batchOf(time.Time{}, true, fmt.Sprint("snapshot ", round)))
		appendTo(3, batchOf(testTime, false, fmt.Sprint("round ", round)))
		appendTo(3, batchOf(time.Time{}, false, fmt.Sprint("again ", round)))
		m.verify(t, s, "thawed")
		m.verify(t, openOn(t, afterCrash(d)), "thawed, after a crash")
	}
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	s = openOn(t, d)
	m.verify(t, s, "opened again")
	var due []session.Key
	q := session.RootQuery{DueBefore: testTime.Add(2 * time.Hour)}
	for h, err := range s.Journal.Roots(t.Context(), q) {
		require.NoError(t, err)
		due = append(due, h.Root)
	}
	assert.ElementsMatch(t,
		[]session.Key{treeKey(0), treeKey(4), treeKey(8), treeKey(12), treeKey(16)}, due)
	require.NoError(t, s.Close())
}

// Open refuses a directory with idle logs and without a write-ahead log.
func TestMissingLogIsRefused(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	_, err := s.Journal.Append(t.Context(), treeKey(1), 0, batchOf(time.Time{}, false, "x"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	require.NoError(t, d.Remove("/journal/00000002.wal"))
	for range 2 {
		_, err = dirstore.OpenOn(d, "/")
		var corrupt *session.CorruptError
		require.ErrorAs(t, err, &corrupt)
		assert.Contains(t, corrupt.File, "idle")
		require.ErrorIs(t, err, session.ErrCorrupt)
	}
}

// The journal compacts the log by itself when more than half of it is not needed.
func TestLogIsCompactedAsItGrows(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	dirstore.SetSlack(s, 10_000)
	m := make(journalModel)
	for i := range 400 {
		root := treeKey(i % 3)
		b := batchOf(testTime, i%10 > 6, fmt.Sprint(i, strings.Repeat("x", 500)))
		_, err := s.Journal.Append(t.Context(), root, m.log(root).last(), b)
		require.NoError(t, err)
		dirstore.WaitForCompaction(s) // appends to a disk in memory would be past it
		m[root] = m.log(root).after(b)
	}
	m.verify(t, s, "after")
	require.NoError(t, s.Close())
	s = openDir(t, dir)
	m.verify(t, s, "opened again")
	size, _ := dirstore.LogSize(s)
	assert.Less(t, size, int64(60_000), "of 200,000 bytes that were appended")
	require.NoError(t, s.Close())
}

// Appends to many trees run beside one compaction after the other. No batch is lost or read twice.
func TestCompactionBesideAppendsLosesNothing(t *testing.T) {
	for name, hook := range map[string]func(disktest.Op) error{"quick": nil, "on a slow disk": yieldOften} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			d.Hook(hook)
			compactBesideAppends(t, d)
		})
	}
}

// yieldOften is a hook that lets other goroutines run before each operation.
func yieldOften(disktest.Op) error {
	for range rand.IntN(30) {
		runtime.Gosched()
	}
	return nil
}

func compactBesideAppends(t *testing.T, d *disktest.Disk) {
	t.Helper()
	s := openOn(t, d)
	const writers, each = 8, 40
	models := make([]journalModel, writers)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		models[w] = make(journalModel)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(w)))
			for i := range each {
				root := treeKey(w*10 + rng.IntN(4))
				var due time.Time
				if rng.IntN(2) == 0 {
					due = testTime.Add(time.Duration(rng.IntN(100)) * time.Minute)
				}
				b := batchOf(due, rng.IntN(4) == 0, fmt.Sprint(w, "/", i), "more")
				l := models[w].log(root)
				_, err := s.Journal.Append(t.Context(), root, l.last(), b)
				if !assert.NoError(t, err) {
					return
				}
				models[w][root] = l.after(b)
				got, err := readLog(t.Context(), s.Journal, root)
				if !assert.NoError(t, err) || !assert.Equal(t, models[w][root].texts, got.texts) {
					return
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	rounds := 0
	for running := true; running; rounds++ {
		select {
		case <-done:
			running = false
		default:
			require.NoError(t, dirstore.Compact(s))
		}
	}
	assert.Greater(t, rounds, 2)
	m := make(journalModel)
	for _, part := range models {
		maps.Copy(m, part)
	}
	m.verify(t, s, "at the end")
	m.verify(t, openOn(t, afterCrash(d)), "after a crash")
	require.NoError(t, s.Close())
	m.verify(t, openOn(t, d), "opened again")
}

// A journalRun is a program that uses a journal in every way, and records what was acknowledged.
type journalRun struct {
	m     journalModel
	root  session.Key   // the tree of batch
	batch session.Batch // the append under way; there is none if it has no entries
}

func newJournalRun() *journalRun { return &journalRun{m: make(journalModel)} }

func (r *journalRun) append(
	ctx context.Context, s *session.Store, root session.Key, b session.Batch,
) error {
	r.root, r.batch = root, b
	_, err := s.Journal.Append(ctx, root, r.m.log(root).last(), b)
	if err == nil {
		r.m[root] = r.m.log(root).after(b)
		r.batch = session.Batch{}
	}
	return err
}

func (r *journalRun) run(t *testing.T, d *disktest.Disk) error {
	ctx := t.Context()
	for life := range 3 {
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			return err
		}
		for i := range 8 {
			due := testTime
			if i%2 == 1 {
				due = time.Time{}
			}
			b := batchOf(due, i == 6, fmt.Sprintf("%d-%d", life, i), strings.Repeat("long ", 30*i))
			if err := r.append(ctx, s, treeKey(i%4), b); err != nil {
				return err
			}
			if i == 5 {
				if err := dirstore.Compact(s); err != nil {
					return err
				}
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// verify fails unless a disk has all acknowledged batches, and perhaps the one under way.
func (r *journalRun) verify(t *testing.T, d *disktest.Disk, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err, when)
	m := maps.Clone(r.m)
	if len(r.batch.Entries) > 0 {
		got, err := readLog(t.Context(), s.Journal, r.root)
		require.NoError(t, err, when)
		if next := m.log(r.root).after(r.batch); next.last() == got.last() {
			m[r.root] = next
		}
	}
	m.verify(t, s, when)
	b := batchOf(testTime, false, "on")
	for root := range m {
		_, err := s.Journal.Append(t.Context(), root, m.log(root).last(), b)
		require.NoError(t, err, when)
		m[root] = m.log(root).after(b)
	}
	m.verify(t, openOn(t, afterCrash(d)), when+", and again")
}

// What a journal has acknowledged survives a loss of power before any operation.
func TestJournalPowerLossKeepsAcknowledgedBatches(t *testing.T) {
	d := disktest.New()
	r := newJournalRun()
	losses := verifyLosses(t, d, 8,
		func(after *disktest.Disk, when string) { r.verify(t, after, when) })
	require.NoError(t, r.run(t, d))
	assert.Greater(t, *losses, 500)
}

// What a journal has acknowledged survives a failure of any operation.
func TestJournalFaultKeepsAcknowledgedBatches(t *testing.T) {
	verifyFaults(t, func() faultRun { return newJournalRun() })
}

// Appends fail while the disk is full, and leave nothing. They succeed when there is room.
func TestJournalGoesOnWhenDiskHasRoomAgain(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := newJournalRun()
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "before")))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpWrite || op.Kind == disktest.OpCreate {
			return &disktest.ShortError{Written: 10, Err: errDiskFull}
		}
		return nil
	})
	for range 3 {
		for i := range 2 {
			err := r.append(t.Context(), s, treeKey(1+i), batchOf(testTime, false, "lost"))
			require.ErrorIs(t, err, errDiskFull)
			assert.ErrorContains(t, err, treeKey(1+i).String())
		}
		require.ErrorIs(t, dirstore.Compact(s), errDiskFull)
	}
	r.m.verify(t, s, "while it is full")
	d.Hook(nil)
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "after")))
	require.NoError(t, dirstore.Compact(s))
	r.m.verify(t, s, "afterwards")
	require.NoError(t, s.Close())
	r.m.verify(t, openOn(t, d), "opened again")
}

// After a failed sync, every append returns ErrSync until the directory is opened again. Reads go
// on.
func TestFailedSyncEndsAppendsUntilOpen(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := newJournalRun()
	require.NoError(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "before")))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, r.append(t.Context(), s, treeKey(1), batchOf(testTime, false, "unknown")),
		session.ErrSync)
	d.Hook(nil)
	_, err := s.Journal.Append(t.Context(), treeKey(2), 0, batchOf(testTime, false, "refused"))
	require.ErrorIs(t, err, session.ErrSync)
	r.m.verify(t, s, "what is not durable is not read")
	require.NoError(t, s.Close())
	r.verify(t, d, "opened again")
}

// Open, View and Verify refuse a rotten log, with file and offset, and leave it as it is.
func TestRottenLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	for i := range 3 {
		_, err := s.Journal.Append(t.Context(), treeKey(i), 0, batchOf(testTime, false, "x"))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	name := filepath.Join(dir, "journal", "00000001.wal")
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, at := range []int{5, 80, 130, 200} {
		b := slices.Clone(whole)
		b[at] ^= 4
		require.NoError(t, os.WriteFile(name, b, 0o600))
		for _, open := range []func(string) (*session.Store, error){dirstore.Open, dirstore.View} {
			_, err = open(dir)
			var corrupt *session.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.ErrorIs(t, err, session.ErrCorrupt)
			assert.Equal(t, name, corrupt.File)
			assert.LessOrEqual(t, corrupt.Offset, int64(at))
			assert.Greater(t, corrupt.Offset+120, int64(at))
		}
		var bad error
		for _, err := range dirstore.Verify(t.Context(), dir) {
			bad = errors.Join(bad, err)
		}
		require.ErrorIs(t, bad, session.ErrCorrupt)
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, b, after)
	}
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	s, err = dirstore.Open(dir)
	require.NoError(t, err, "a refusal gives the lock back")
	require.NoError(t, s.Close())
}

// R16: the first batch of a tree is missing, and what follows was written as if it began the tree.
// Open, View and Verify refuse a log like that. Read and Append refuse an idle log.
func TestTreeWithoutItsFirstEntryIsRefused(t *testing.T) {
	const frameFirst, frameHead = wal.FirstKind + 1, wal.FirstKind + 2
	root := treeKey(1)
	second := dirstore.EncodeBatch(root, 3, batchOf(testTime, false, "second"))
	snapshot := dirstore.EncodeBatch(root, 3, batchOf(testTime, true, "snapshot"))
	write := func(d *disktest.Disk, name string, records ...wal.Record) {
		require.NoError(t, wal.WriteFile(d, name, func(w *wal.Writer) error {
			for _, r := range records {
				if _, err := w.Append(r.Kind, r.Payload); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	d := disktest.New()
	s := openOn(t, d)
	require.NoError(t, s.Close())
	write(d, "/journal/00000001.wal", wal.Record{Kind: frameFirst, Payload: snapshot})
	s = openOn(t, d)
	got, err := readLog(t.Context(), s.Journal, root)
	require.NoError(t, err)
	assert.Equal(t, []string{"snapshot"}, got.texts)
	require.NoError(t, s.Close())
	require.NoError(t, d.Remove("/journal/closed.wal"))
	write(d, "/journal/00000001.wal", wal.Record{Kind: frameFirst, Payload: second})
	_, err = dirstore.OpenOn(d, "/")
	require.ErrorIs(t, err, session.ErrCorrupt)
	assert.ErrorContains(t, err, "begins with entry 4")
	_, err = dirstore.ViewOn(d, "/")
	require.ErrorIs(t, err, session.ErrCorrupt)

	d = disktest.New()
	s = openOn(t, d)
	_, err = s.Journal.Append(t.Context(), root, 0, batchOf(time.Time{}, false, "x", "y", "z"))
	require.NoError(t, err)
	require.NoError(t, dirstore.Compact(s))
	var idle string
	for name := range diskFiles(t, d, "/journal/idle") {
		idle = name
	}
	head := append([]byte{4}, root.String()...)
	write(d, idle,
		wal.Record{Kind: frameHead, Payload: head}, wal.Record{Kind: frameFirst, Payload: second})
	_, err = readLog(t.Context(), s.Journal, root)
	require.ErrorIs(t, err, session.ErrCorrupt)
	_, err = s.Journal.Append(t.Context(), root, 4, batchOf(testTime, false, "third"))
	require.ErrorIs(t, err, session.ErrCorrupt)
	require.NoError(t, s.Close())
}
