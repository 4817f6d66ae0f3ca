package spawn_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A handOff has the goroutines that a child goes through, and nothing of what they promise: an
// owner that counts the children under way, a lane of eight, workers and a deliverer. It is the
// floor of BenchmarkBulk.
type handOff struct {
	spawns    chan chan int // answered with the number of the child
	ended     chan int
	delivered chan int
	deliver   chan int
	work      chan int
}

// handOffLane is how many children of a handOff run at a time.
const handOffLane = 8

// runHandOff runs a handOff until the function that it returns is called. told is called for each
// child.
func runHandOff(told func()) (h *handOff, stop func()) {
	h = &handOff{
		make(chan chan int), make(chan int, handOffLane), make(chan int, handOffLane),
		make(chan int, handOffLane), make(chan int, handOffLane),
	}
	over := make(chan struct{})
	var all sync.WaitGroup
	for range handOffLane {
		all.Go(func() { h.pass(over, h.work, h.ended, func() {}) })
	}
	all.Go(func() { h.pass(over, h.deliver, h.delivered, told) })
	all.Go(func() { h.own(over) })
	return h, func() {
		close(over)
		all.Wait()
	}
}

// own is the owner.
func (h *handOff) own(over chan struct{}) {
	alive := make(map[int]bool)
	var queue, ends []int
	used, last := 0, 0
	for {
		var work, deliver chan int
		var next, end int
		if used < handOffLane && len(queue) > 0 {
			work, next = h.work, queue[0]
		}
		if len(ends) > 0 {
			deliver, end = h.deliver, ends[0]
		}
		select {
		case answer := <-h.spawns:
			last++
			alive[last] = true
			queue = append(queue, last)
			answer <- last
		case work <- next:
			used++
			queue = queue[1:]
		case child := <-h.ended:
			used--
			ends = append(ends, child)
		case deliver <- end:
			ends = ends[1:]
		case child := <-h.delivered:
			delete(alive, child)
		case <-over:
			return
		}
	}
}

// pass hands children on.
func (h *handOff) pass(over chan struct{}, from, to chan int, f func()) {
	for {
		select {
		case child := <-from:
			f()
			select {
			case to <- child:
			case <-over:
				return
			}
		case <-over:
			return
		}
	}
}

// spawnAll spawns children from so many goroutines at once.
func (h *handOff) spawnAll(children, spawners int) {
	var wg sync.WaitGroup
	for i := range spawners {
		wg.Go(func() {
			answer := make(chan int, 1)
			for n := i; n < children; n += spawners {
				h.spawns <- answer
				<-answer
			}
		})
	}
	wg.Wait()
}

// BenchmarkBulk is the way from Spawn to Deliver where one session spawns many children, beside the
// goroutines that a child goes through, which take turns with it: x/hand-off is how many times as
// long a child takes.
func BenchmarkBulk(b *testing.B) {
	const atATime = 10_000
	var wg sync.WaitGroup
	floor, stop := runHandOff(wg.Done)
	defer stop()
	s := supervise(b, spawn.Config{
		Runner: instantRunner, CallerRun: true,
		Rules:   policy.Rules{Subagents: policy.Subagents{MaxConcurrent: handOffLane}},
		Deliver: func(context.Context, spawn.Delivery) error { wg.Done(); return nil },
	})
	root := session.Must(session.NamedKey("main", "bench"))
	timed := func(spawnAll func()) time.Duration {
		began := time.Now()
		wg.Add(atATime)
		spawnAll()
		wg.Wait()
		return time.Since(began)
	}
	for _, spawners := range []int{1, 64} {
		b.Run(map[int]string{1: "spawners=1", 64: "spawners=64"}[spawners], func(b *testing.B) {
			var ours, theirs time.Duration
			b.ReportAllocs()
			for b.Loop() {
				ours += timed(func() { spawnAll(b, s, root, atATime, spawners) })
				theirs += timed(func() { floor.spawnAll(atATime, spawners) })
			}
			b.ReportMetric(float64(ours)/float64(theirs), "x/hand-off")
			b.ReportMetric(float64(ours)/float64(b.N)/atATime, "ns/child")
		})
	}
}
