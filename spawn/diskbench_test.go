package spawn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// countedJournal counts what is appended.
type countedJournal struct {
	session.Journal
	appends atomic.Int64
}

func (j *countedJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.appends.Add(1)
	return j.Journal.Append(ctx, root, after, b)
}

// requesters are top-level sessions of which each spawns one child after the other.
type requesters struct {
	sup   *spawn.Supervisor
	roots []session.Key
	done  map[session.Key]chan struct{} // told of each delivery
}

func newRequesters(b *testing.B, store *session.Store, n int) *requesters {
	r := &requesters{done: make(map[session.Key]chan struct{})}
	for i := range n {
		root := session.Must(session.NamedKey("main", fmt.Sprint("bench", i)))
		r.roots = append(r.roots, root)
		r.done[root] = make(chan struct{}, 1)
	}
	r.sup = supervise(b, spawn.Config{
		Store:     store,
		Runner:    instantRunner,
		CallerRun: true,
		Rules:     policy.Rules{Subagents: policy.Subagents{MaxConcurrent: max(n, 8)}},
		Deliver: func(_ context.Context, out spawn.Delivery) error {
			r.done[out.To] <- struct{}{}
			return nil
		},
	})
	return r
}

// spawn has each requester spawn that many children, one after the other. It returns how long that
// took until the last was delivered.
func (r *requesters) spawn(b *testing.B, children int) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for _, root := range r.roots {
		wg.Go(func() {
			for range children {
				if _, err := r.sup.Spawn(
					b.Context(), root, root, spawn.Request{Task: "count the files", Announce: true},
				); err != nil {
					b.Error(err)
					return
				}
				<-r.done[root]
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// settle waits until the journal has noted the last delivery.
func (r *requesters) settle(b *testing.B) {
	for _, root := range r.roots {
		for left := 1; left > 0; {
			outbox, err := r.sup.Outbox(b.Context(), root)
			if err != nil {
				b.Fatal(err)
			}
			left = len(outbox)
		}
	}
}

// BenchmarkDeliverOnDisk is BenchmarkDeliver in a directory. Its requesters have a tree each, and
// wait for one child before they spawn the next. It takes turns with a bare group commit: as many
// writers make as many records of the same size durable. Beside the time of a child it reports the
// time of the group commit as a part of its own.
func BenchmarkDeliverOnDisk(b *testing.B) {
	for _, n := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("requesters=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			store, err := dirstore.Open(dir)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			journal := &countedJournal{Journal: store.Journal}
			r := newRequesters(
				b, &session.Store{Journal: journal, Transcripts: store.Transcripts}, n,
			)
			r.spawn(b, 1)
			record := make([]byte, readLogs(b, dir)/journal.appends.Load())
			f, err := disk.OS().OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_RDWR|os.O_CREATE)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = f.Close() })
			raw := disktest.NewGroupCommit(f)

			const each = 10
			var children int
			var ours, theirs time.Duration
			b.ReportAllocs()
			for b.Loop() {
				before := journal.appends.Load()
				ours += r.spawn(b, each)
				children += each * n
				b.StopTimer()
				r.settle(b)
				theirs += commitRecords(b, raw, record, int(journal.appends.Load()-before), n)
				b.StartTimer()
			}
			b.ReportMetric(float64(ours.Nanoseconds())/float64(children), "ns/child")
			b.ReportMetric(float64(children)/ours.Seconds(), "children/s")
			b.ReportMetric(float64(journal.appends.Load())/float64(children+n), "appends/child")
			b.ReportMetric(float64(len(record)), "B/append")
			b.ReportMetric(100*theirs.Seconds()/ours.Seconds(), "%group-commit")
		})
	}
}

// commitRecords has that many writers make n records durable, and returns how long that took.
func commitRecords(
	b *testing.B, g *disktest.GroupCommit, record []byte, n, writers int,
) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := g.Write(record); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkOpenOnDisk opens a directory in which that many runs have ended and were archived, in
// one tree or in many, and lists one of the trees. It takes turns with the floor: it opens a
// directory that is empty, and reads the files that the full one has to read. Beside the time it
// reports how many times the floor an opening takes.
func BenchmarkOpenOnDisk(b *testing.B) {
	for _, c := range []struct{ runs, trees int }{
		{0, 1}, {100_000, 1}, {100_000, 1_000}, {100_000, 10_000},
	} {
		b.Run(fmt.Sprintf("ended=%d/trees=%d", c.runs, c.trees), func(b *testing.B) {
			dir, empty := b.TempDir(), b.TempDir()
			roots := endRuns(b, dir, c.runs, c.trees, time.Nanosecond)
			endRuns(b, empty, 0, 0, time.Nanosecond)
			awaitCompaction(b, dir)
			var open, list, floor time.Duration
			var read int64
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				store, err := dirstore.Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				open += time.Since(start)
				list += listTree(b, store, roots[0])
				b.StopTimer()
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				start = time.Now()
				none, err := dirstore.Open(empty)
				if err != nil {
					b.Fatal(err)
				}
				read = readLogs(b, dir)
				floor += time.Since(start)
				if err := none.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(open.Microseconds())/float64(b.N), "us/open")
			b.ReportMetric(float64(list.Microseconds())/float64(b.N), "us/list")
			b.ReportMetric(float64(read), "B/log")
			b.ReportMetric(open.Seconds()/floor.Seconds(), "x-floor")
		})
	}
}

// endRuns fills a directory with that many runs that have ended, which are archived after a time.
// It returns their top-level sessions.
func endRuns(
	b *testing.B, dir string, runs, trees int, archiveAfter time.Duration,
) []session.Key {
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	roots := make([]session.Key, max(trees, 1))
	for i := range roots {
		roots[i] = session.Must(session.NamedKey("main", fmt.Sprint("bench", i)))
	}
	var delivered sync.WaitGroup
	delivered.Add(runs)
	sup, err := spawn.Open(b.Context(), spawn.Config{
		Store:     store,
		Runner:    instantRunner,
		CallerRun: true,
		Rules: policy.Rules{
			Subagents: policy.Subagents{MaxConcurrent: 64, ArchiveAfter: archiveAfter},
		},
		Deliver: func(context.Context, spawn.Delivery) error { delivered.Done(); return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	spawn.LiftLimits(sup)
	done := make(chan error, 1)
	go func() { done <- sup.Run(context.WithoutCancel(b.Context())) }()
	var next atomic.Int64
	var spawners sync.WaitGroup
	for range 64 {
		spawners.Go(func() {
			for i := next.Add(1) - 1; i < int64(runs); i = next.Add(1) - 1 {
				root := roots[i%int64(len(roots))]
				if _, err := sup.Spawn(
					b.Context(), root, root, spawn.Request{Task: "count the files", Announce: true},
				); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	spawners.Wait()
	delivered.Wait()
	soon := runs > 0 && archiveAfter < time.Second
	for _, root := range roots[:min(trees, len(roots))] { // until all are archived
		for list := make([]spawn.RunInfo, 1); len(list) > 0 && soon; {
			if list, err = sup.Runs(b.Context(), root, root, true); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := sup.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return roots
}

// awaitCompaction returns when the log has lost what was archived. The log is compacted in the
// background after an append, and not to the end if the directory is closed meanwhile.
func awaitCompaction(b *testing.B, dir string) {
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	other := session.Must(session.NamedKey("main", "other"))
	var last session.Seq
	for start := time.Now(); readLogs(b, dir) > 2<<20; {
		if time.Since(start) > time.Minute {
			b.Fatal("the log was not compacted")
		}
		batch := session.Batch{
			ID:      "poke",
			Entries: []session.Entry{{Payload: session.Raw(`"poke"`)}},
		}
		if last, err = store.Journal.Append(b.Context(), other, last, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// listTree opens one tree and returns how long that took.
func listTree(b *testing.B, store *session.Store, root session.Key) time.Duration {
	start := time.Now()
	sup, err := spawn.Open(b.Context(), spawn.Config{Store: store, Runner: instantRunner})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := sup.Runs(b.Context(), root, root, true); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	if err := sup.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
	return took
}

// readLogs reads the write-ahead log of a directory and returns its size.
func readLogs(b *testing.B, dir string) (size int64) {
	logs, err := filepath.Glob(filepath.Join(dir, "journal", "*.wal"))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		size += int64(len(text))
	}
	return size
}
