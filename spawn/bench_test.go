package spawn_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/growth"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// BenchmarkFloor measures the same job with a bare goroutine, a channel, an id and a map. Every
// figure below is compared with it.
func BenchmarkFloor(b *testing.B) {
	for _, children := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) {
			b.ReportAllocs()
			done := make(chan string, 64)
			var mu sync.Mutex
			running := map[string]bool{}
			for n := 0; n < b.N; n += children {
				go func() {
					for range children {
						id := session.NewID()
						mu.Lock()
						running[id] = true
						mu.Unlock()
						go func() { done <- id }()
					}
				}()
				for range children {
					id := <-done
					mu.Lock()
					delete(running, id)
					mu.Unlock()
				}
			}
		})
	}
}

// supervise starts a Supervisor for a benchmark, with the limits of policy lifted.
func supervise(b testing.TB, cfg spawn.Config) *spawn.Supervisor {
	b.Helper()
	if cfg.Store == nil {
		cfg.Store = session.NewMemory()
	}
	s, err := spawn.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	spawn.LiftLimits(s)
	done := make(chan error, 1)
	go func() { done <- s.Run(context.WithoutCancel(b.Context())) }()
	b.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return s
}

var instantRunner = runnerFunc(
	func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
		return sayText("done")
	},
)

// spawnAll spawns n children of a session from that many goroutines at once.
func spawnAll(b testing.TB, s *spawn.Supervisor, root session.Key, n, spawners int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, spawners) {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if _, err := s.Spawn(
					b.Context(), root, root, spawn.Request{Task: "count the files", Announce: true},
				); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkDeliver measures the way from Spawn to Deliver, per child, with an instant Runner and a
// caller-run requester.
func BenchmarkDeliver(b *testing.B) {
	for _, spawners := range []int{1, 64} {
		for _, children := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("spawners=%d/children=%d", spawners, children), func(b *testing.B) {
				b.ReportAllocs()
				var wg sync.WaitGroup
				s := supervise(b, spawn.Config{
					Runner: instantRunner, CallerRun: true,
					Deliver: func(context.Context, spawn.Delivery) error { wg.Done(); return nil },
				})
				root := session.Must(session.NamedKey("main", "bench"))
				b.ResetTimer()
				for n := 0; n < b.N; n += children {
					wg.Add(children)
					spawnAll(b, s, root, children, spawners)
					wg.Wait()
				}
			})
		}
	}
}

// BenchmarkManyTrees measures the way from Spawn to Deliver, per child, of 64 trees that each have
// one child at a time. With -cpu 1,2 it says what a second processor is worth.
func BenchmarkManyTrees(b *testing.B) {
	const trees = 64
	var waiting sync.Map // channels, by the root
	s := supervise(b, spawn.Config{
		Runner: instantRunner, CallerRun: true,
		Deliver: func(_ context.Context, d spawn.Delivery) error {
			done, _ := waiting.Load(d.To)
			done.(chan struct{}) <- struct{}{}
			return nil
		},
	})
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	var next atomic.Int64
	for i := range trees {
		root := session.Must(session.NamedKey("main", fmt.Sprint("bench", i)))
		done := make(chan struct{}, 1)
		waiting.Store(root, done)
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				spawnAll(b, s, root, 1, 1)
				<-done
			}
		})
	}
	wg.Wait()
}

// A child from Spawn to Deliver takes 11 allocations and 6.8 KB where a hundred are under way. The
// bounds leave room for tables that grow.
func TestChildTakesFewAllocations(t *testing.T) {
	skipUnderRace(t)
	const children, most = 2_000, 13
	var wg sync.WaitGroup
	s := supervise(t, spawn.Config{
		Runner: instantRunner, CallerRun: true,
		Deliver: func(context.Context, spawn.Delivery) error { wg.Done(); return nil },
	})
	root := session.Must(session.NamedKey("main", "bench"))
	run := func() {
		for range children / 100 {
			wg.Add(100)
			spawnAll(t, s, root, 100, 1)
			wg.Wait()
		}
	}
	run()
	objects, bytes := growth.Allocated(run)
	require.Less(t, objects/children, uint64(most))
	require.Less(t, bytes/children, uint64(7_700))
}

// BenchmarkManaged measures the way from Spawn to the turn of a managed requester that consumes the
// completion, per child. The requester spawns all children in one turn and yields. Its next turns
// consume all completions.
func BenchmarkManaged(b *testing.B) {
	for _, children := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) {
			b.ReportAllocs()
			consumed := make(chan int, 1)
			s := supervise(
				b,
				spawn.Config{
					Runner: runnerFunc(
						func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
							if t.Session.Depth > 0 {
								return sayText("done")
							}
							if t.Inputs[0].Class == spawn.InputCompletion {
								consumed <- len(t.Inputs)
								return spawn.TurnResult{}, nil
							}
							for range children {
								if _, err := t.Spawn(
									ctx, spawn.Request{Task: "count the files", Announce: true},
								); err != nil {
									return spawn.TurnResult{}, err
								}
							}
							t.Yield(spawn.JoinOptions{})
							return spawn.TurnResult{}, nil
						},
					),
				},
			)
			root := session.Must(session.NamedKey("main", "bench"))
			b.ResetTimer()
			for n := 0; n < b.N; n += children {
				if _, err := s.Post(b.Context(), root, root, spawn.Incoming{Text: "go"}); err != nil {
					b.Fatal(err)
				}
				for left := children; left > 0; {
					left -= <-consumed
				}
			}
		})
	}
}

// BenchmarkFlat is BenchmarkDeliver in a tree that holds many ended children, beside the first
// children of the same tree: x/first is how many times as long a child takes. The cost of a child
// must not grow. What the collector does for a child is known only over whole cycles, of which one
// has as many children as were kept, about.
func BenchmarkFlat(b *testing.B) {
	for _, ended := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("ended=%d", ended), func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			s := supervise(b, spawn.Config{
				Runner:    instantRunner,
				CallerRun: true,
				Rules:     policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 64}},
				Deliver:   func(context.Context, spawn.Delivery) error { wg.Done(); return nil },
			})
			root := session.Must(session.NamedKey("main", "bench"))
			kept := 0
			run := func(children int) {
				kept += children
				wg.Add(children)
				spawnAll(b, s, root, children, 64)
				wg.Wait()
			}
			run(1000) // what is made once
			first, _ := overCycles(20, run)
			run(max(ended-kept, 0))
			b.ResetTimer()
			var took time.Duration
			children := 0
			for range b.N {
				perChild, n := overCycles(1, run)
				took += perChild * time.Duration(n)
				children += n
			}
			b.StopTimer()
			b.ReportMetric(float64(took)/float64(children)/float64(first), "x/first")
			b.ReportMetric(float64(took)/float64(children), "ns/child")
		})
	}
}

// overCycles has children run for so many whole cycles of the collector. It returns how long each
// took, and how many there were.
func overCycles(cycles uint32, run func(children int)) (perChild time.Duration, children int) {
	const atATime = 1000
	count := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	for before := count(); count() == before; {
		run(atATime)
	}
	from, began := count(), time.Now()
	for count() < from+cycles {
		run(atATime)
		children += atATime
	}
	return time.Since(began) / time.Duration(children), children
}

// BenchmarkQueued reports the bytes of memory of a run that waits in the lane: alone, with a
// journal that keeps nothing, and with what the memory journal keeps of it.
func BenchmarkQueued(b *testing.B) {
	for name, store := range map[string]*session.Store{
		"alone": {Journal: noJournal{}}, "with its log": session.NewMemory(),
	} {
		b.Run(name, func(b *testing.B) {
			release := make(chan struct{})
			s := supervise(b, spawn.Config{
				Store: store,
				Runner: runnerFunc(
					func(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
						<-release
						return sayText("done")
					},
				),
				Rules: policy.Rules{Subagents: policy.Subagents{MaxConcurrent: 1}},
			})
			root := session.Must(session.NamedKey("main", "bench"))
			spawnAll(b, s, root, 1, 1)
			before, goroutines := heapBytes(), runtime.NumGoroutine()
			b.ResetTimer()
			spawnAll(b, s, root, b.N, 64)
			b.StopTimer()
			time.Sleep(10 * time.Millisecond) // let the owner's goroutine end
			left := runtime.NumGoroutine() - goroutines
			b.ReportMetric(float64(heapBytes()-before)/float64(b.N), "B/queued")
			b.ReportMetric(float64(left)/float64(b.N), "goroutines/queued")
			close(release)
		})
	}
}

// noJournal takes every batch and keeps none.
type noJournal struct{}

func (noJournal) Append(
	_ context.Context, _ session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	return after + session.Seq(len(b.Entries)), nil
}

func (noJournal) Read(context.Context, session.Key, session.Seq) iter.Seq2[session.Entry, error] {
	return func(func(session.Entry, error) bool) {}
}

func (noJournal) Roots(context.Context, session.RootQuery) iter.Seq2[session.Head, error] {
	return func(func(session.Head, error) bool) {}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
