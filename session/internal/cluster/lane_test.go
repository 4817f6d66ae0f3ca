package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/lease"
)

// An engine has lanes in memory, and counts what it is asked for them. Every process is alive. It
// brings hints from process to process, unless it is deaf.
type engine struct {
	deaf bool

	mu     sync.Mutex
	noBeat error // of beats; nil: they succeed
	lanes  map[string]LaneView
	hear   []func(hint string)
	asked  map[string]int // how often, by method
	opened uint64

	orphans []session.Key
	looked  time.Time // when it was last asked for the orphans
}

// A member is the Ledger of one process of an engine, as far as lanes need one.
type member struct {
	Ledger
	*engine
}

// open returns the Owners of another process, which serves until the end of the test.
func (e *engine) open(t *testing.T) *Owners {
	t.Helper()
	e.opened++
	o := NewOwners(t.Context(), Options{
		Package: "test", Ledger: member{engine: e}, Wire: e.wire(), Lease: session.DefaultLease,
		Self:    session.Process{Name: fmt.Sprint("p", e.opened), Incarnation: e.opened},
		Timeout: time.Second, Store: Store{Closed: func() bool { return false }},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Serve(ctx, session.Member{}) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		o.End(context.Background())
	})
	return o
}

func (e *engine) wire() Wire {
	return Wire{
		Send: func(_ context.Context, hints []string) {
			e.mu.Lock()
			hear := e.hear
			e.mu.Unlock()
			for _, take := range hear {
				for _, hint := range hints {
					take(hint)
				}
			}
		},
		Listen: func(ctx context.Context, begun func(), take func(hint string)) {
			if !e.deaf {
				e.mu.Lock()
				e.hear = append(e.hear, take)
				e.mu.Unlock()
			}
			begun()
			<-ctx.Done()
		},
	}
}

// count returns what the engine was asked since the last call.
func (e *engine) count() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := e.asked
	e.asked = make(map[string]int)
	return asked
}

func (m member) Beat(
	context.Context, session.Process, time.Duration, []uint64,
) ([]session.Claim, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil, false, m.noBeat
}

func (m member) Orphans(
	context.Context, int,
) (roots []session.Key, behind int, now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = time.Now()
	return m.orphans, 0, m.looked, nil
}

func (m member) Sweep(context.Context) error { return nil }

func (m member) Leave(context.Context, session.Process, bool) error { return nil }

func (m member) Take(context.Context, session.Process, []string) ([]session.Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked["Take"]++
	return nil, nil
}

func (m member) Lanes(
	_ context.Context, known map[string]int64,
) (map[string]LaneView, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked["Lanes"]++
	changed := make(map[string]LaneView)
	for name, version := range known {
		if view, ok := m.lanes[name]; ok && view.Version != version {
			changed[name] = view
		}
	}
	return changed, time.Now(), nil
}

func (m member) ChangeLane(
	_ context.Context, _ session.Process, name string,
	f func(doc *lease.Lane, now time.Time, alive func(session.Process) bool) (changed bool),
) (LaneView, time.Time, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked["ChangeLane"]++
	view := m.lanes[name]
	view.Doc.Tickets = append([]lease.Ticket(nil), view.Doc.Tickets...)
	changed := f(&view.Doc, time.Now(), func(session.Process) bool { return true })
	if changed {
		view.Version++
		m.lanes[name] = view
	}
	return view, time.Now(), changed, nil
}

// A slot that one process frees is granted to another one at once, by a hint: the engine is asked
// for the lane once to change it and once to see that, by the process whose ticket it is, and not
// for requests. Without hints the look of a second finds it.
func TestCostOfAGrant(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := &engine{deaf: deaf, lanes: make(map[string]LaneView), asked: make(map[string]int)}
			var at [3]atomic.Int64 // when the ticket of each process was granted
			var lanes [3]session.Lane
			for i := range lanes {
				lanes[i] = e.open(t).Lane("l", 1, session.LaneUser{
					Granted: func(string) { at[i].Store(time.Now().UnixNano()) },
				})
				require.NoError(t, lanes[i].Ask(session.Ticket{ID: fmt.Sprint(i)}))
				synctest.Wait()
			}
			time.Sleep(time.Second/2 + session.DefaultLease/BeatsPerLease) // between two looks
			synctest.Wait()
			e.count()
			freed := time.Now()
			lanes[0].Free("0")
			synctest.Wait()
			if deaf {
				require.Zero(t, at[1].Load())
				time.Sleep(time.Second)
				synctest.Wait()
				require.NotZero(t, at[1].Load())
			} else {
				require.Equal(t, freed.UnixNano(), at[1].Load())
				require.Equal(t, map[string]int{"ChangeLane": 1, "Lanes": 1}, e.count())
			}
			require.Zero(t, at[2].Load())
		})
	}
}

// All processes are told that a provider pauses.
func TestHintOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{lanes: make(map[string]LaneView), asked: make(map[string]int)}
		var mu sync.Mutex
		told := make(map[string]time.Duration)
		var lanes []session.Lane
		for range 3 {
			o := e.open(t)
			lanes = append(lanes, o.Lane("l", 1, session.LaneUser{
				Paused: func(_ string, d time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					told[o.Self().Name] = d
				},
			}))
		}
		synctest.Wait()
		lanes[0].Pause("slow", time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[string]time.Duration{
			"p1": time.Minute, "p2": time.Minute, "p3": time.Minute,
		}, told)
	})
}

// The member is told of work that fails for as long as patience, once, and when it goes on; Health
// has it from the first failure on.
func TestTroubles(t *testing.T) {
	var ts troubles
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	first, second := errors.New("first"), errors.New("second")
	for i, step := range []struct {
		work     string
		from, to int
		err      error
		tell     bool
		is       string
	}{
		{workLanes, 0, 1, nil, false, ""},
		{workLanes, 1, 2, first, false, "lanes: first"},
		{workLanes, 2, 3, nil, false, ""}, // it was too short for the member
		{workLanes, 3, 4, first, false, "lanes: first"},
		{workAnswers, 4, 15, second, true, "answers: second\nlanes: first"}, // it took that long
		{workLanes, 5, 13, second, true, "answers: second\nlanes: second"},
		{workLanes, 13, 30, first, false, "answers: second\nlanes: first"},
		{workLanes, 30, 31, nil, true, "answers: second"},
		{workAnswers, 31, 32, nil, true, ""},
		{workAnswers, 33, 34, nil, false, ""},
	} {
		require.Equal(t, step.tell,
			ts.note(step.work, at(step.from), at(step.to), step.err, 10*time.Second), i)
		if err := ts.error(); step.is == "" {
			require.NoError(t, err, i)
		} else {
			require.EqualError(t, err, step.is, i)
		}
	}
}

// A process whose lease is not renewed is not healthy.
func TestHealthOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{lanes: make(map[string]LaneView), asked: make(map[string]int)}
		o := e.open(t)
		for _, err := range []error{nil, errors.New("no table"), nil} {
			e.mu.Lock()
			e.noBeat = err
			e.mu.Unlock()
			time.Sleep(session.DefaultLease)
			synctest.Wait()
			if err == nil {
				require.NoError(t, o.Health())
			} else {
				require.EqualError(t, o.Health(), "lease: no table")
			}
		}
	})
}

// Trees are yielded from a fresh look while claims take long, each once.
func TestOrphansOfASlowProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{lanes: make(map[string]LaneView), asked: make(map[string]int)}
		for i := range 20 {
			root, err := session.ParseRoot(fmt.Sprintf("agent:main:a%d", i))
			require.NoError(t, err)
			e.orphans = append(e.orphans, root)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all []session.Key
		for root, err := range e.open(t).Orphans(ctx) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				break
			}
			e.mu.Lock()
			age := time.Since(e.looked)
			e.mu.Unlock()
			require.Less(t, age, 150*time.Millisecond)
			if len(all) == 0 {
				time.Sleep(session.OrphanSpread) // then all others are due
			}
			time.Sleep(60 * time.Millisecond)
			all = append(all, root)
			if len(all) == len(e.orphans) {
				cancel()
			}
		}
		require.ElementsMatch(t, e.orphans, all)
	})
}
