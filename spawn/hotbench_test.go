package spawn_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// slowJournal takes as long for an append as a disk that makes it durable.
type slowJournal struct {
	session.Journal
	pause   time.Duration
	appends int
}

func (j *slowJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.appends++
	for until := time.Now().Add(j.pause); time.Now().Before(until); { // a timer is too coarse
	}
	return j.Journal.Append(ctx, root, after, b)
}

// BenchmarkHotTree measures one tree of which every append takes 200 microseconds. Commands that
// come in the meantime share the next append. The figure for one spawner is the cost without
// sharing.
func BenchmarkHotTree(b *testing.B) {
	for _, spawners := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("spawners=%d", spawners), func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			journal := &slowJournal{
				Journal: session.NewMemory().Journal,
				pause:   200 * time.Microsecond,
			}
			s := supervise(b, spawn.Config{
				Store: &session.Store{Journal: journal}, Runner: instantRunner, CallerRun: true,
				Rules:   policy.Rules{Subagents: policy.Subagents{MaxConcurrent: max(spawners, 8)}},
				Deliver: func(context.Context, spawn.Delivery) error { wg.Done(); return nil },
			})
			root := session.Must(session.NamedKey("main", "bench"))
			b.ResetTimer()
			wg.Add(b.N)
			spawnAll(b, s, root, b.N, spawners)
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "children/s")
			b.ReportMetric(float64(b.N)/float64(journal.appends), "children/append")
		})
	}
}
