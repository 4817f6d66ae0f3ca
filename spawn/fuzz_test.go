package spawn_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestHistories plays random histories of one tree. A process has up to four lives, each ended by a
// crash before or after an append. Several goroutines spawn, post, steer, stop, cancel turns and
// wait. The Runners do all that a Runner may and may not do. The receiver fails, hangs, panics,
// ends its goroutine, is busy, and loses acknowledgements. What must hold is checked while it
// happens, and afterwards by an audit of everything that was ever appended.
//
// OFFSHOOT_FUZZ sets how many histories are played. A failure names its seed, which OFFSHOOT_SEED
// plays again. A seed may need a few rounds, because the scheduler decides too.
func TestHistories(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ"))
	if n == 0 {
		n = 500
	}
	if testing.Short() {
		n = 20
	}
	var happened tally
	first, fixed := maphash.Bytes(maphash.MakeSeed(), nil)>>1, false
	if seed, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64); err == nil {
		first, fixed = seed, true
	}
	for i := range uint64(n) {
		seed := first + i
		if fixed {
			seed = first
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.tally = &happened
			w.play()
		})
	}
	if !fixed && n >= 500 {
		happened.check(t, wanted)
	}
}

// world is the store, the rules and the observations of one history.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	seed  uint64
	store *session.Store
	log   *spawntest.Recorder
	cfg   spawn.Config
	limit int // of the lane
	clock clock
	years atomic.Bool // the clock has jumped over the window of the keys
	stop  chan struct{}

	mu       sync.Mutex
	durable  map[string]bool                 // facts that have been appended, by what they say
	keys     []session.Key                   // of runs that a caller was told of
	parents  map[session.Key]session.Key     // of runs that had a turn
	byKey    map[string]session.Key          // spawn keys
	asked    map[string]int                  // requests with each spawn key: 1, 2, or 3 for both
	holders  map[*spawn.TurnInput]slotHolder // turns of sub-agents that hold a slot
	active   map[activeKey]int               // Runners under way
	stopped  map[session.Key]int             // for good, by which life
	restarts map[session.Key]int             // messages that may have begun another run
	posting  map[session.Key]int             // those that may still begin one
	halted   map[activeKey]bool              // the same, in one process
	returned map[string]string               // what a Runner answered
	accepted map[string]int                  // deliveries that the receiver took
	said     map[string]string               // keys of what turns said before their end
	newest   map[string]uint64               // the last one of each destination
	calling  map[callKey]bool
	refused  map[string]bool // messages that a caller was told are not recorded
	epoch    uint64          // the highest that it has seen
	checks   atomic.Int64
	calls    int // of deliver

	tally  *tally
	now    *life // the newest one
	met    int   // facts that were followed at once, see meet
	extras map[session.Key]string
}

type activeKey struct {
	sup *spawn.Supervisor
	key session.Key
}

// callKey names a destination within a process.
type callKey struct {
	l  *life
	to string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t:        t,
		seed:     seed,
		rand:     rand.New(rand.NewPCG(seed, 1)),
		store:    session.NewMemory(),
		stop:     make(chan struct{}),
		durable:  map[string]bool{},
		parents:  map[session.Key]session.Key{},
		byKey:    map[string]session.Key{},
		asked:    map[string]int{},
		holders:  map[*spawn.TurnInput]slotHolder{},
		active:   map[activeKey]int{},
		stopped:  map[session.Key]int{},
		restarts: map[session.Key]int{},
		posting:  map[session.Key]int{},
		halted:   map[activeKey]bool{},
		returned: map[string]string{},
		accepted: map[string]int{}, said: map[string]string{},
		newest:  map[string]uint64{},
		refused: map[string]bool{},
		calling: map[callKey]bool{},
		tally:   new(tally), extras: map[session.Key]string{},
	}
	w.log = spawntest.NewRecorder(&watchedJournal{w.store.Journal, w})
	w.limit = 1 + w.rand.IntN(4)
	w.cfg = spawn.Config{
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 3, MaxChildren: 4, MaxConcurrent: w.limit, ArchiveAfter: time.Hour,
		}},
		CallerRun: w.rand.IntN(2) == 0, Replies: w.rand.IntN(2) == 0,
		Tools: []string{"read", "write", "sessions_spawn"},
	}
	if w.rand.IntN(2) == 0 {
		w.cfg.Unbind = w.unbind
	}
	if w.rand.IntN(3) == 0 {
		w.cfg.Rules.Budget.Tokens = 5000
	}
	if w.rand.IntN(3) == 0 {
		w.cfg.Rules.RequestBudget.Tokens = 1500
	}
	return w
}

// watchedJournal notes what is durable before a reader of the journal can see it.
type watchedJournal struct {
	session.Journal
	w *world
}

func (j *watchedJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	seq, err := j.Journal.Append(ctx, root, after, b)
	if err != nil {
		return seq, err
	}
	for _, e := range b.Entries {
		if f, ok := e.Payload.(*tree.Fact); ok {
			switch f.Kind {
			case tree.TurnStarted:
				j.w.durable[fmt.Sprintf("turn %d of %s", f.N, f.Run)] = true
			case tree.RunEnded, tree.Admitted:
				j.w.durable[fmt.Sprintf("%s %v", f.Run, f.Kind)] = true
			}
			if f.Kind == tree.Admitted {
				j.w.extras[f.Run] = string(f.Spec.Extra)
			}
		}
	}
	j.w.meet(b.Entries)
	return seq, nil
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("OFFSHOOT_SEED=%d: %s", w.seed, fmt.Sprintf(format, args...))
}

// roll returns a number below n. It depends on the seed and on what is being decided, not on the
// caller or the time.
func (w *world) roll(n int, what ...any) int {
	h := fnv(fmt.Sprint(append(what, w.seed)...))
	return int(h % uint64(n))
}

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return (h ^ h>>29) * 0xbf58476d1ce4e5b9 >> 8
}

// pause lets time pass in the bubble of the history.
func (w *world) pause(d time.Duration) { time.Sleep(d) }

// play plays the whole history.
func (w *world) play() {
	lives := 1 + w.rand.IntN(4)
	var zombies []*life
	for i := range lives {
		l := w.live(i, i == lives-1)
		if i == lives-1 {
			w.settle(l)
		}
		zombies = append(zombies, l)
		if len(zombies) > 1 { // the one before had a while beside its successor
			w.bury(zombies[len(zombies)-2])
		}
	}
	close(w.stop)
	w.bury(zombies[len(zombies)-1])
	w.pause(time.Hour) // Runners that were given up come to their end
	w.audit()
}

// life is one process.
type life struct {
	n       int
	sup     *spawn.Supervisor
	journal *spawntest.CrashJournal
	ran     chan error
}

// live opens the store in a new process and lets callers use it until it crashes or they are done.
func (w *world) live(n int, last bool) *life {
	l := &life{n: n, journal: spawntest.NewCrashJournal(w.log), ran: make(chan error, 1)}
	if !last && w.rand.IntN(4) > 0 { // else it stays alive beside its successor
		l.journal.At(1+w.rand.IntN(60), spawntest.FaultDieBefore+spawntest.Fault(w.rand.IntN(2)))
	}
	w.trouble(l.journal)
	sup, err := spawn.Open(w.t.Context(), w.configOf(l))
	if err != nil {
		w.t.Fatal(err)
	}
	sup.SetClock(w.clock.now)
	if w.rand.IntN(3) == 0 {
		w.jump(w.rand)
	}
	sup.CheckAppends(func(c spawn.Checkpoint) {
		if w.checks.Add(1)%7 == 0 {
			if err := c.Verify(context.Background(), w.store.Journal); err != nil {
				w.fail("%v", err)
			}
		}
	})
	l.sup = sup
	w.mu.Lock()
	w.now = l
	w.mu.Unlock()
	go func() { l.ran <- sup.Run(context.WithoutCancel(w.t.Context())) }()
	var people sync.WaitGroup
	for range 3 {
		r := rand.New(rand.NewPCG(w.rand.Uint64(), 2))
		people.Go(func() {
			for range 8 {
				if r.IntN(40) == 0 {
					w.jump(r)
				}
				w.act(l, r)
				w.pause(time.Duration(r.IntN(4000)) * time.Millisecond)
			}
		})
	}
	people.Wait()
	return l
}

// jump sets the clock of all processes forward or back, or right.
func (w *world) jump(r *rand.Rand) {
	by := jumps[r.IntN(len(jumps))]
	if by > tree.KeyWindow {
		w.years.Store(true)
	}
	back := r.IntN(5) > 1 && w.clock.now().Year() > 1985 // times before 1970 are not times
	switch {
	case back:
		w.clock.move(-by)
	case r.IntN(2) == 0:
		w.clock.move(by)
	default:
		w.clock.set(0)
	}
}

// configOf returns the configuration of a process.
func (w *world) configOf(l *life) spawn.Config {
	cfg := w.cfg
	cfg.Store = &session.Store{
		Journal: l.journal, Transcripts: w.store.Transcripts, Files: w.store.Files,
	}
	cfg.Runner = runnerFunc(
		func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			return w.run(l, ctx, t)
		},
	)
	cfg.ValidModel = func(model string) bool { return w.validModel(l, model) }
	cfg.Rules.Sandbox.Decide = func(_ string, key session.Key) bool {
		return key.IsSubagent() && w.validModel(l, "a/"+strconv.Itoa(w.roll(24, key, "sandbox")))
	}
	if w.seed%2 == 0 { // not a roll, so that other histories stay what they are
		cfg.Ended = func(ctx context.Context, out spawn.Delivery) error {
			return w.deliver(ctx, l, out)
		}
		cfg.Spawning = w.spawning
	}
	cfg.Deliver = func(ctx context.Context, out spawn.Delivery) error {
		return w.deliver(ctx, l, out)
	}
	return cfg
}

// trouble schedules the faults of a journal before it dies, if it does. It fails now and then, or
// for up to 200 appends in a row.
func (w *world) trouble(j *spawntest.CrashJournal) {
	faults := []spawntest.Fault{
		spawntest.FaultFailBefore, spawntest.FaultLoseAck, spawntest.FaultPanicBefore,
		spawntest.FaultPanicAfter, spawntest.FaultExitBefore, spawntest.FaultExitAfter,
	}
	for range w.rand.IntN(4) {
		j.Unless(1+w.rand.IntN(100), faults[w.rand.IntN(len(faults))])
	}
	for range w.rand.IntN(3) {
		first, long := 1+w.rand.IntN(60), 1+w.rand.IntN(8)
		if w.rand.IntN(3) == 0 {
			long = 1 + w.rand.IntN(200)
		}
		only := w.rand.IntN(len(faults) + 1)
		for n := first; n < first+long; n++ {
			what := faults[w.rand.IntN(len(faults))]
			if only < len(faults) {
				what = faults[only]
			}
			j.Unless(n, what)
		}
	}
}
