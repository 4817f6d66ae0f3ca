package dirstore_test

import (
	"context"
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
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func tree(i int) session.Key { return session.Must(session.NamedKey("main", fmt.Sprint("tree", i))) }

// batchOf returns a batch that says which entries it has.
func batchOf(due time.Time, reset bool, texts ...string) session.Batch {
	b := session.Batch{ID: session.BatchID("id " + texts[0]), Due: due, Reset: reset}
	for _, text := range texts {
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(fmt.Sprintf("%q", text))})
	}
	return b
}

// A journalModel is what a journal must say.
type journalModel map[session.Key]*modelLog

type modelLog struct {
	first session.Seq // the sequence before texts
	texts []string
	due   time.Time
}

func (l *modelLog) last() session.Seq { return l.first + session.Seq(len(l.texts)) }

func (l *modelLog) then(b session.Batch) *modelLog {
	next := &modelLog{first: l.first, texts: slices.Clone(l.texts), due: b.Due}
	if b.Reset {
		next.first, next.texts = l.last(), nil
	}
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

// readLog returns what a journal says of a tree.
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

// verify fails unless a journal says what the model does.
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
	}
	kept, counted := dirstore.Live(s)
	require.Equal(t, counted, kept, when)
}

func openOn(t *testing.T, d *disktest.Disk) *session.Store {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err)
	return s
}

// Trees that are never due leave the log when it is compacted, are found all the same, and come
// back when somebody appends.
func TestIdleTreesLeaveTheLog(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	m := make(journalModel)
	appendTo := func(i int, b session.Batch) {
		t.Helper()
		_, err := s.Journal.Append(t.Context(), tree(i), m.log(tree(i)).last(), b)
		require.NoError(t, err)
		m[tree(i)] = m.log(tree(i)).then(b)
	}
	for i := range 20 {
		appendTo(i, batchOf(noon, false, fmt.Sprint("first of ", i), "second"))
		due := time.Time{}
		if i%4 == 0 {
			due = noon.Add(time.Hour)
		}
		appendTo(i, batchOf(due, false, fmt.Sprint("third of ", i)))
	}
	_, err := s.Journal.Append(t.Context(), session.BindingsRoot(), 0, batchOf(time.Time{}, false, "bound"))
	require.NoError(t, err)
	m[session.BindingsRoot()] = m.log(session.BindingsRoot()).then(batchOf(time.Time{}, false, "bound"))
	m.verify(t, s, "before")
	_, trees := dirstore.LogSize(s)
	assert.Equal(t, 21, trees)
	for round := range 3 {
		require.NoError(t, dirstore.Compact(s))
		size, trees := dirstore.LogSize(s)
		assert.Equal(t, 6, trees, "those that are due, and the reserved root")
		assert.Less(t, size, int64(1500))
		m.verify(t, s, "compacted")
		_, err := s.Journal.Append(t.Context(), tree(1), m.log(tree(1)).last()-1, batchOf(noon, false, "stale"))
		require.ErrorIs(t, err, session.ErrConflict)
		_, err = s.Journal.Append(t.Context(), tree(1), 0, batchOf(noon, false, "stale"))
		require.ErrorIs(t, err, session.ErrConflict)
		m.verify(t, s, "after conflicts")

		appendTo(1, batchOf(time.Time{}, false, fmt.Sprint("round ", round)))
		appendTo(2, batchOf(time.Time{}, true, fmt.Sprint("snapshot ", round)))
		appendTo(3, batchOf(noon, false, fmt.Sprint("round ", round)))
		appendTo(3, batchOf(time.Time{}, false, fmt.Sprint("again ", round)))
		m.verify(t, s, "thawed")
		m.verify(t, openOn(t, d.Crash(func(int) bool { return false })), "thawed, after a crash")
	}
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	s = openOn(t, d)
	m.verify(t, s, "opened again")
	var due []session.Key
	for h, err := range s.Journal.Roots(t.Context(), session.RootQuery{DueBefore: noon.Add(2 * time.Hour)}) {
		require.NoError(t, err)
		due = append(due, h.Root)
	}
	assert.ElementsMatch(t, []session.Key{tree(0), tree(4), tree(8), tree(12), tree(16)}, due)
	require.NoError(t, s.Close())
}

// A store of which somebody has removed the log is refused.
func TestLogIsMissing(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	_, err := s.Journal.Append(t.Context(), tree(1), 0, batchOf(time.Time{}, false, "x"))
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

// The log is compacted when more than half of it is of no use, without anybody asking.
func TestCompactsItself(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	dirstore.SetSlack(s, 10_000)
	m := make(journalModel)
	for i := range 400 {
		root := tree(i % 3)
		b := batchOf(noon, i%10 > 6, fmt.Sprint(i, strings.Repeat("x", 500)))
		_, err := s.Journal.Append(t.Context(), root, m.log(root).last(), b)
		require.NoError(t, err)
		m[root] = m.log(root).then(b)
	}
	m.verify(t, s, "after")
	require.NoError(t, s.Close())
	s, err = dirstore.Open(dir)
	require.NoError(t, err)
	m.verify(t, s, "opened again")
	size, _ := dirstore.LogSize(s)
	assert.Less(t, size, int64(60_000), "of 200,000 bytes that were appended")
	require.NoError(t, s.Close())
}

// Many trees are appended to while the log is compacted all the time, and nothing is lost or said
// twice.
func TestCompactBesideAppends(t *testing.T) {
	for name, hook := range map[string]func(disktest.Op) error{"quick": nil, "on a slow disk": dawdles} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			d.Hook(hook)
			compactBesideAppends(t, d)
		})
	}
}

// dawdles lets others run before whatever a disk does.
func dawdles(disktest.Op) error {
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
				root := tree(w*10 + rng.IntN(4))
				var due time.Time
				if rng.IntN(2) == 0 {
					due = noon.Add(time.Duration(rng.IntN(100)) * time.Minute)
				}
				b := batchOf(due, rng.IntN(4) == 0, fmt.Sprint(w, "/", i), "more")
				l := models[w].log(root)
				if _, err := s.Journal.Append(t.Context(), root, l.last(), b); !assert.NoError(t, err) {
					return
				}
				models[w][root] = l.then(b)
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
	m.verify(t, openOn(t, d.Crash(func(int) bool { return false })), "after a crash")
	require.NoError(t, s.Close())
	m.verify(t, openOn(t, d), "opened again")
}

// A journalRun is a program that uses a journal in every way, and knows what it was told.
type journalRun struct {
	m     journalModel
	root  session.Key   // of what is under way
	batch session.Batch // no entries: nothing is
}

func (r *journalRun) append(ctx context.Context, s *session.Store, root session.Key, b session.Batch) error {
	r.root, r.batch = root, b
	_, err := s.Journal.Append(ctx, root, r.m.log(root).last(), b)
	if err == nil {
		r.m[root] = r.m.log(root).then(b)
		r.batch = session.Batch{}
	}
	return err
}

func (r *journalRun) run(ctx context.Context, d *disktest.Disk) error {
	for life := range 3 {
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			return err
		}
		for i := range 8 {
			due := noon
			if i%2 == 1 {
				due = time.Time{}
			}
			b := batchOf(due, i == 6, fmt.Sprintf("%d-%d", life, i), strings.Repeat("long ", 30*i))
			if err := r.append(ctx, s, tree(i%4), b); err != nil {
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

// verify fails unless a disk holds what was acknowledged and perhaps what was under way.
func (r *journalRun) verify(t *testing.T, d *disktest.Disk, when string) {
	t.Helper()
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err, when)
	m := maps.Clone(r.m)
	if len(r.batch.Entries) > 0 {
		got, err := readLog(t.Context(), s.Journal, r.root)
		require.NoError(t, err, when)
		if next := m.log(r.root).then(r.batch); next.last() == got.last() {
			m[r.root] = next
		}
	}
	m.verify(t, s, when)
	b := batchOf(noon, false, "on")
	for root := range m {
		_, err := s.Journal.Append(t.Context(), root, m.log(root).last(), b)
		require.NoError(t, err, when)
		m[root] = m.log(root).then(b)
	}
	m.verify(t, openOn(t, d.Crash(func(int) bool { return false })), when+", and again")
}

// apart calls f in a goroutine of its own, which a failing test may end: that of a hook is the
// journal's.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// The power is lost before every operation, in many ways.
func TestJournalPowerLoss(t *testing.T) {
	d := disktest.New()
	r := &journalRun{m: make(journalModel)}
	rng := rand.New(rand.NewPCG(1, 2))
	losses := 0
	d.Hook(func(op disktest.Op) error {
		if op.Changes() {
			for keep := range d.Losses(rng, 8) {
				losses++
				apart(func() { r.verify(t, d.Crash(keep), fmt.Sprintf("loss %d, before %s %s", losses, op.Kind, op.Name)) })
				if t.Failed() {
					return errors.New("enough")
				}
			}
		}
		return nil
	})
	require.NoError(t, r.run(t.Context(), d))
	assert.Greater(t, losses, 500)
}

// Every operation fails once; what was acknowledged stays, with and without a loss of power.
func TestJournalFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, fault := range []error{syscall.EIO, fmt.Errorf("%w: %w", disktest.ErrAfter, syscall.EIO), &disktest.ShortError{Written: 99, Err: syscall.ENOSPC}} {
		for at := 1; ; at++ {
			d := disktest.New()
			r := &journalRun{m: make(journalModel)}
			ops := 0
			var what string
			d.Hook(func(op disktest.Op) error {
				if ops++; ops != at {
					return nil
				}
				what = fmt.Sprintf("fault %v at operation %d, %s %s", fault, at, op.Kind, op.Name)
				return fault
			})
			err := r.run(t.Context(), d)
			d.Hook(nil)
			if ops < at {
				require.NoError(t, err)
				break
			}
			for keep := range d.Losses(rng, 3) {
				r.verify(t, d.Crash(keep), what)
			}
			r.verify(t, d, what)
		}
	}
}

// A disk that is full for a while makes appends fail; nothing is half there, and appends go on when
// there is room.
func TestDiskFull(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := &journalRun{m: make(journalModel)}
	require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(noon, false, "before")))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpWrite || op.Kind == disktest.OpCreate {
			return &disktest.ShortError{Written: 10, Err: syscall.ENOSPC}
		}
		return nil
	})
	for range 3 {
		for i := range 2 {
			err := r.append(t.Context(), s, tree(1+i), batchOf(noon, false, "lost"))
			require.ErrorIs(t, err, syscall.ENOSPC)
			assert.ErrorContains(t, err, tree(1+i).String())
		}
		require.ErrorIs(t, dirstore.Compact(s), syscall.ENOSPC)
	}
	r.m.verify(t, s, "while it is full")
	d.Hook(nil)
	require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(noon, false, "after")))
	require.NoError(t, dirstore.Compact(s))
	r.m.verify(t, s, "afterwards")
	require.NoError(t, s.Close())
	r.m.verify(t, openOn(t, d), "opened again")
}

// After a failed sync the journal says so until it is opened again, and goes on being read.
func TestSyncFails(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	r := &journalRun{m: make(journalModel)}
	require.NoError(t, r.append(t.Context(), s, tree(1), batchOf(noon, false, "before")))
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, r.append(t.Context(), s, tree(1), batchOf(noon, false, "unknown")), session.ErrSync)
	d.Hook(nil)
	_, err := s.Journal.Append(t.Context(), tree(2), 0, batchOf(noon, false, "refused"))
	require.ErrorIs(t, err, session.ErrSync)
	r.m.verify(t, s, "what is not durable is not read")
	require.NoError(t, s.Close())
	r.verify(t, d, "opened again")
}

// What is rot is refused, with file and offset, and left as it is; what is newer than this version
// too.
func TestCorruptLog(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	for i := range 3 {
		_, err := s.Journal.Append(t.Context(), tree(i), 0, batchOf(noon, false, "x"))
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
