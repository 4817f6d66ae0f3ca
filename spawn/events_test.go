package spawn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// kept reports whether events of a kind are in the journal.
func kept(k spawn.EventKind) bool {
	switch k {
	case spawn.EventDelta, spawn.EventRefused, spawn.EventLost, spawn.EventStalled:
		return false
	default:
		return true
	}
}

// isState reports whether a kind stands for what is not told.
func isState(k spawn.EventKind) bool {
	return k == spawn.EventSnapshot || k == spawn.EventGap
}

// A follower watches a tree over all lives of a process, and goes on behind its last cursor.
type follower struct {
	w     *world
	rand  *rand.Rand
	query spawn.EventQuery

	at   spawn.Cursor
	seen []spawn.TreeEvent // those that are kept, and states
}

// follow watches a life until ctx ends.
func (f *follower) follow(ctx context.Context, sup *spawn.Supervisor) {
	for ctx.Err() == nil {
		q := f.query
		if !f.at.IsZero() {
			q.After = []spawn.Cursor{f.at}
		}
		loop, leave := context.WithTimeout(ctx, time.Duration(f.rand.IntN(300))*time.Second)
		for e, err := range sup.Events(loop, q) {
			if err != nil {
				time.Sleep(time.Second) // the journal fails; the cursor is good
				break
			}
			if !kept(e.Kind) {
				continue
			}
			f.at = e.Cursor
			f.seen = append(f.seen, e)
			if f.rand.IntN(4) == 0 {
				time.Sleep(time.Duration(f.rand.IntN(20_000)) * time.Millisecond)
			}
			if f.rand.IntN(50) == 0 {
				break
			}
		}
		leave()
		time.Sleep(time.Millisecond)
	}
}

// check compares what a follower has seen with the whole history: it is all of it from the first
// state on, but for what an EventGap stands for.
func (f *follower) check(history []spawn.TreeEvent) {
	place := map[spawn.Cursor]int{spawn.Beginning(topKey): 0}
	for i, e := range history {
		place[e.Cursor] = i + 1
	}
	next := -1
	for i, e := range f.seen {
		if isState(e.Kind) {
			at, known := place[e.Cursor]
			if !known { // no event ends there: it is between two
				for at = 0; at < len(history) && !history[at].Cursor.Behind(e.Cursor); at++ {
				}
			}
			if at < next {
				f.w.fail("a state at %v goes back", e.Cursor)
			}
			next = at
			continue
		}
		if next < 0 || next >= len(history) || !reflect.DeepEqual(e, history[next]) {
			want := "nothing"
			if next >= 0 && next < len(history) {
				want = asJSON(historyT{f.w.h}, history[next])
			}
			f.w.fail("%v: event %d is\n%s\nwant\n%s", f.query, i, asJSON(historyT{f.w.h}, e), want)
			return
		}
		next++
	}
	if next < len(history) {
		f.w.fail("%v: %d events of %d are missing at the end", f.query, len(history)-next, len(history))
	}
}

// Random histories, those of TestHistories. A watcher that goes on over crashes sees every event
// once and in order, as it is read from the journal afterwards. So does one that goes on behind any
// of the cursors.
func TestEventsOfHistories(t *testing.T) {
	fewer(t)
	hs := spawntest.Histories{
		N: 20, Callers: 1, Acts: 50, Rest: 1,
		New: func(h *spawntest.History) spawntest.Program { return newWorld(h).followed() },
	}
	if underRace { // the step large of .ci/run plays all of them
		hs.N = 1
	}
	hs.Run(t)
}

// followedServer is a process with followers, who leave when it is shut down.
type followedServer struct {
	patient
	leave func()
}

func (s *followedServer) Shutdown(ctx context.Context) error {
	s.leave()
	return s.patient.Shutdown(ctx)
}

// followed returns the world as a program with followers, who go on in the next process.
func (w *world) followed() spawntest.Program {
	followers := make([]*follower, 4)
	for i := range followers {
		followers[i] = &follower{w: w, rand: rand.New(rand.NewPCG(w.h.Seed(), uint64(i)))}
		if i%2 == 0 {
			followers[i].query.Root = topKey
		}
	}
	var leave func()
	program := w.program(func(
		ctx context.Context, p *spawntest.Process,
	) (spawntest.Server, error) {
		l, err := w.open(ctx, p)
		if err != nil {
			return nil, err
		}
		if w.h.Seed()%2 == 0 {
			l.sup.BoundWatchers(3, 4<<20, 100) // followers are too slow for that
		}
		ctx, cancel := context.WithCancel(ctx)
		var following sync.WaitGroup
		for _, f := range followers {
			following.Go(func() { f.follow(ctx, l.sup) })
		}
		leave = func() { cancel(); following.Wait() }
		return &followedServer{patient{l.sup}, leave}, nil
	})
	settle := program.Check
	program.Check = func() error {
		w.runs(w.now) // it may have to be opened first
		err := settle()
		time.Sleep(time.Hour)
		synctest.Wait()
		leave()
		if w.isEmpty() { // a tree without an entry has no event
			return err
		}
		t := historyT{w.h}
		history, historyErr := w.now.sup.HistoryOf(topKey, w.h.Entries(topKey))
		require.NoError(t, historyErr)
		for _, f := range followers {
			f.check(history)
		}
		w.readFromEach(w.now.sup, history)
		return err
	}
	return program
}

// readFromEach goes on behind every cursor.
func (w *world) readFromEach(sup *spawn.Supervisor, history []spawn.TreeEvent) {
	for i := -1; i < len(history); i += 1 + w.roll(5, "go on", i) {
		at := spawn.Beginning(topKey)
		if i >= 0 {
			at = history[i].Cursor
		}
		f := follower{w: w, query: spawn.EventQuery{After: []spawn.Cursor{at}}}
		if i%2 == 0 {
			f.query.Root = topKey
		}
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range sup.Events(ctx, f.query) {
				require.NoError(historyT{w.h}, err)
				f.seen = append(f.seen, e)
			}
		}()
		synctest.Wait()
		leave()
		<-done
		if len(f.seen) == 0 || f.seen[0].Kind != spawn.EventGap {
			f.seen = append([]spawn.TreeEvent{{Kind: spawn.EventGap, Cursor: at}}, f.seen...)
		}
		for _, e := range f.seen[1:] {
			if isState(e.Kind) {
				w.fail("a second state")
			}
		}
		f.check(history)
	}
}

// watching marks the ctx of a watcher that collect has made.
type watching struct{}

// collect returns the events that a loop has seen when nothing more happens.
func collect(
	t *testing.T, s *spawn.Supervisor, q spawn.EventQuery,
) (seen func() []spawn.TreeEvent, end func()) {
	var mu sync.Mutex
	var list []spawn.TreeEvent
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), watching{}, true))
	done := make(chan struct{})
	events := s.Events(ctx, q)
	go func() {
		defer close(done)
		for e, err := range events {
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			list = append(list, e)
			mu.Unlock()
		}
	}()
	seen = func() []spawn.TreeEvent {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return append([]spawn.TreeEvent(nil), list...)
	}
	return seen, func() { leave(); <-done }
}

// lines describes events.
func lines(events []spawn.TreeEvent) (list []string) {
	for _, e := range events {
		line := fmt.Sprint(e.Kind)
		if e.State != nil {
			line += fmt.Sprintf(" of %d", len(e.State.Sessions))
		}
		list = append(list, line)
	}
	return list
}
