package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestHistories plays random histories of one tree. A process has up to four lives, each ended by a
// crash before or after an append, or by a shutdown, or beside its successor. Several goroutines
// spawn, post, steer, stop, cancel turns and wait. The Runners do all that a Runner may and may not
// do. The receiver fails, hangs, panics, ends its goroutine, is busy, and loses acknowledgements.
// What must hold is checked while it happens, and afterwards by an audit of everything that was
// ever appended.
//
// OFFSHOOT_FUZZ sets how many histories are played. A failure names its seed, which OFFSHOOT_SEED
// plays again. A seed may need a few rounds, because the scheduler decides too.
func TestHistories(t *testing.T) {
	var happened tally
	played := 0
	hs := spawntest.Histories{
		N: 500, Lives: 4, Callers: 3, Acts: 16, Outage: 200, Overlap: true, Rest: 1,
		Faults: []spawntest.Fault{
			spawntest.FaultFailBefore, spawntest.FaultLoseAck, spawntest.FaultPanicBefore,
			spawntest.FaultPanicAfter, spawntest.FaultExitBefore, spawntest.FaultExitAfter,
		},
		New: func(h *spawntest.History) spawntest.Program {
			w := newWorld(h)
			w.tally = &happened
			played++
			return w.program(w.openWithClock)
		},
	}
	if underRace { // the step large of .ci/run plays all of them
		hs.N = 15
	}
	hs.Run(t)
	if played >= 500 && os.Getenv("OFFSHOOT_SEED") == "" {
		happened.check(t, wanted)
	}
}

// fewer has a test play a tenth of the histories that OFFSHOOT_FUZZ says, of which each takes ten
// times as long.
func fewer(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ")); err == nil && n > 0 {
		t.Setenv("OFFSHOOT_FUZZ", strconv.Itoa(max(n/10, 20)))
	}
}

// world is the store, the rules and the observations of one history.
type world struct {
	h     *spawntest.History
	store *session.Store
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
	lives  map[int]*life
	met    int // facts that were followed at once, see meet
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

func newWorld(h *spawntest.History) *world {
	w := &world{
		h:        h,
		lives:    map[int]*life{},
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
	w.limit = 1 + w.roll(4, "lane")
	w.cfg = spawn.Config{
		AnnounceTimeout: time.Minute,
		Rules: policy.Rules{Subagents: policy.Subagents{
			MaxSpawnDepth: 3, MaxChildren: 4, MaxConcurrent: w.limit, ArchiveAfter: time.Hour,
		}},
		CallerRun: w.roll(2, "caller") == 0, Replies: w.roll(2, "replies") == 0,
		Tools: []string{"read", "write", "sessions_spawn"},
	}
	if mode := spawn.QueueMode(w.roll(3, "queue")); mode > 0 {
		w.cfg.Queue = func(session.Key) spawn.QueueMode { return mode }
	}
	if w.roll(2, "unbind") == 0 {
		w.cfg.Unbind = w.unbind
	}
	if w.roll(3, "budget") == 0 {
		w.cfg.Rules.Budget.Tokens = 5000
	}
	if w.roll(3, "request") == 0 {
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
				j.w.extras[f.Run] = string(f.Spec.Extra())
			}
		}
	}
	j.w.meet(ctx, b.Entries)
	return seq, nil
}

func (w *world) fail(format string, args ...any) { w.h.Errorf(format, args...) }

// roll returns a number below n for what is being decided.
func (w *world) roll(n int, what ...any) int { return w.h.Roll(n, what...) }

// pause lets time pass in the bubble of the history.
func (w *world) pause(d time.Duration) { time.Sleep(d) }

// life is one process.
type life struct {
	*spawntest.Process
	sup *spawn.Supervisor
}

// program returns what is played: the acts of callers, with one more that sets the clock.
func (w *world) program(
	open func(context.Context, *spawntest.Process) (spawntest.Server, error),
) spawntest.Program {
	jump := spawntest.Command{Name: "jump", Do: func(_ context.Context, _ *spawntest.Process, n int) {
		w.jump(numbers(n))
	}}
	return spawntest.Program{
		Open: open, Commands: append(w.commands(), jump), Rules: &w.cfg.Rules,
		Store: &session.Store{
			Journal: &watchedJournal{w.store.Journal, w}, Transcripts: w.store.Transcripts,
			Files: w.store.Files,
		},
		Check: func() error {
			defer close(w.stop)
			w.settle(w.now)
			return nil
		},
		Over: func() error {
			w.audit()
			return nil
		},
	}
}

// open opens the store in a new process.
func (w *world) open(ctx context.Context, p *spawntest.Process) (*life, error) {
	l := &life{Process: p}
	var err error
	if l.sup, err = spawn.Open(ctx, w.configOf(l)); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.lives[p.Life] = l, l
	return l, nil
}

// openWithClock opens the store in a process with the clock of the world, which may jump, and
// compares the tree in memory with the journal now and then.
func (w *world) openWithClock(
	ctx context.Context, p *spawntest.Process,
) (spawntest.Server, error) {
	l, err := w.open(ctx, p)
	if err != nil {
		return nil, err
	}
	l.sup.SetClock(w.clock.now)
	if w.roll(3, "jump", p.Life) == 0 {
		w.jump(numbers(w.roll(1000, "jump by", p.Life)))
	}
	l.sup.CheckAppends(func(c spawn.Checkpoint) {
		if w.checks.Add(1)%7 == 0 {
			if err := c.Verify(context.Background(), w.store.Journal); err != nil {
				w.fail("%v", err)
			}
		}
	})
	return patient{l.sup}, nil
}

// patient is a process whose callbacks may outlive its shutdown.
type patient struct{ *spawn.Supervisor }

func (p patient) Shutdown(ctx context.Context) error {
	return unlessStill(p.Supervisor.Shutdown(ctx))
}

func (p patient) Run(ctx context.Context) error { return unlessStill(p.Supervisor.Run(ctx)) }

func unlessStill(err error) error {
	if _, still := errors.AsType[*spawn.StillRunningError](err); still {
		return nil
	}
	return err
}

// numbers returns the random numbers of an act.
func numbers(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 2)) }

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
	cfg.Store = l.Store
	cfg.Runner = runnerFunc(
		func(ctx context.Context, t *spawn.TurnInput) (spawn.TurnResult, error) {
			return w.run(l, ctx, t)
		},
	)
	cfg.ValidModel = func(model string) bool { return w.validModel(l, model) }
	cfg.Rules.Sandbox.Decide = func(_ string, key session.Key) bool {
		return key.IsSubagent() && w.validModel(l, "a/"+strconv.Itoa(w.roll(24, key, "sandbox")))
	}
	if w.h.Seed()%2 == 0 {
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
