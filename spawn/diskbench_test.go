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
	"github.com/offshoot-sdk/offshoot/spawn"
)

// countedJournal counts what is appended.
type countedJournal struct {
	session.Journal
	appends atomic.Int64
}

func (j *countedJournal) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
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
		root := session.Named("main", fmt.Sprint("bench", i))
		r.roots = append(r.roots, root)
		r.done[root] = make(chan struct{}, 1)
	}
	r.sup = supervise(b, spawn.Config{
		Store: store, Runner: instant, CallerRun: true,
		Rules:   policy.Rules{Subagents: policy.Subagents{MaxConcurrent: max(n, 8)}},
		Deliver: func(_ context.Context, out spawn.Outgoing) error { r.done[out.To] <- struct{}{}; return nil },
	})
	return r
}

// spawn has each requester spawn so many children, one after the other, and returns how long that took until the last was delivered.
func (r *requesters) spawn(b *testing.B, children int) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for _, root := range r.roots {
		wg.Go(func() {
			for range children {
				if _, err := r.sup.Spawn(b.Context(), root, root, spawn.Request{Task: "count the files", Announce: true}); err != nil {
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

// BenchmarkDeliverOnDisk is BenchmarkDeliver in a directory, by requesters that have a tree each and wait for one child before they
// spawn the next. It takes turns with a bare group commit that as many writers have make as many records of the same size durable; what
// is reported beside the time of a child is the rate of that as a part of the other's.
func BenchmarkDeliverOnDisk(b *testing.B) {
	for _, n := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("requesters=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			store, err := session.OpenDir(dir)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = store.Close() })
			journal := &countedJournal{Journal: store.Journal}
			r := newRequesters(b, &session.Store{Journal: journal, Transcripts: store.Transcripts}, n)
			r.spawn(b, 1)
			record := make([]byte, logSize(b, dir)/journal.appends.Load())
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
				time.Sleep(2 * time.Millisecond) // what was delivered last is being noted
				theirs += commit(b, raw, record, int(journal.appends.Load()-before), n)
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

// commit has so many writers make n records durable, and returns how long that took.
func commit(b *testing.B, g *disktest.GroupCommit, record []byte, n, writers int) time.Duration {
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

// logSize returns how many bytes the write-ahead log of a directory has.
func logSize(b *testing.B, dir string) (size int64) {
	logs, err := filepath.Glob(filepath.Join(dir, "journal", "*.wal"))
	if err != nil || len(logs) == 0 {
		b.Fatal("no log: ", err)
	}
	for _, name := range logs {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	return size
}
