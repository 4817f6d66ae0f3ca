package spawn_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// startFault is what a startJournal does from the append on that has the start of a turn.
type startFault struct {
	hangs   bool // the append adds the batch, and does not return before the test ends
	hears   bool // it returns when its ctx ends
	lasts   bool // so do all appends that follow
	refuses bool // and these add nothing
	unread  bool // nothing can be read for a while, so that the append fails for good
	dies    bool // the process has gone before the append returns
}

// A startJournal is a journal in which a turn has started that its owner does not know of.
type startJournal struct {
	session.Journal

	fault   startFault
	step    bool          // the turn is an announce step
	release chan struct{} // closed when the test ends

	mu    sync.Mutex
	met   bool
	reads int // how many reads are still to fail
}

var errStart = errors.New("the append has failed")

// meets reports whether an append is one that misbehaves, and whether it is the first one.
func (j *startJournal) meets(b session.Batch) (meets, first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.met {
		return j.fault.lasts || j.fault.dies, false
	}
	for _, e := range b.Entries {
		what := spawn.Describe(e)
		j.met = j.met || strings.Contains(what, " started: ") &&
			strings.Contains(what, "to announce") == j.step
	}
	if j.met && j.fault.unread {
		j.reads = 1
	}
	return j.met, j.met
}

func (j *startJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	meets, first := j.meets(b)
	switch {
	case !meets:
		return j.Journal.Append(ctx, root, after, b)
	case !first && j.fault.dies:
		return 0, session.ErrClosed
	case first || !j.fault.refuses:
		if seq, err := j.Journal.Append(ctx, root, after, b); err != nil {
			return seq, err
		}
	}
	ends := ctx.Done()
	switch {
	case j.fault.dies:
		return 0, session.ErrClosed
	case !j.fault.hangs:
		return 0, errStart
	case !j.fault.hears:
		ends = nil
	}
	select {
	case <-ends:
		return 0, context.Cause(ctx)
	case <-j.release:
		return 0, errStart
	}
}

func (j *startJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := ctx.Err()
	if j.met && j.fault.dies {
		err = session.ErrClosed
	}
	if j.met && j.reads > 0 {
		j.reads, err = j.reads-1, errStart
	}
	if err != nil {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, err) }
	}
	return j.Journal.Read(ctx, root, after)
}

// startFaults are the faults, and whether the owner can still note what has not begun.
var startFaults = map[string]struct {
	startFault
	noted bool
}{
	"hangs":                            {startFault{hangs: true}, true},
	"hangs until its ctx ends":         {startFault{hangs: true, hears: true}, true},
	"hangs, and so do all that follow": {startFault{hangs: true, lasts: true}, true},
	"hangs, and nothing is taken any more": {
		startFault{hangs: true, lasts: true, refuses: true}, false,
	},
	"fails":                   {startFault{}, true},
	"fails, and is not found": {startFault{unread: true}, true},
	"fails, and nothing is taken any more": {
		startFault{unread: true, lasts: true, refuses: true}, false,
	},
	"does not return before the process is gone": {startFault{dies: true}, false},
}

// A startCase has the start of a turn on record that does not begin in its process.
type startCase struct {
	// before does what must be there, and start has the turn started. They return the session.
	before func(t *testing.T, s *spawn.Supervisor) session.Key
	start  func(ctx context.Context, s *spawn.Supervisor, of session.Key) (session.Key, error)
	turn   string // what the Runner is told of the turn
	// noted and unknown are how the run ends that a later process finds.
	noted, unknown spawn.Status
}

var startCases = map[string]startCase{
	"spawn": {
		start: func(
			ctx context.Context, s *spawn.Supervisor, _ session.Key,
		) (session.Key, error) {
			info, err := s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "work", Key: "k"})
			return info.Key, err
		},
		turn: "work", noted: spawn.StatusOK, unknown: spawn.StatusInterrupted,
	},
	"follow-up": {
		before: func(t *testing.T, s *spawn.Supervisor) session.Key {
			t.Helper()
			key := mustSpawn(t, s, spawn.Request{Task: "work", Key: "k"})
			synctest.Wait()
			return key
		},
		start: func(
			ctx context.Context, s *spawn.Supervisor, of session.Key,
		) (session.Key, error) {
			_, err := s.Post(ctx, topKey, of, spawn.Incoming{ID: "1", Text: "and?"})
			return of, err
		},
		turn: "and?", noted: spawn.StatusOK, unknown: spawn.StatusInterrupted,
	},
	// The run has done its work, so that it ends well whatever becomes of its step.
	"step": {
		start: func(
			ctx context.Context, s *spawn.Supervisor, _ session.Key,
		) (session.Key, error) {
			info, err := s.Spawn(ctx, topKey, topKey, spawn.Request{
				Task: "announce", Key: "k", Announce: true,
			})
			return info.Key, err
		},
		turn: "step", noted: spawn.StatusOK, unknown: spawn.StatusOK,
	},
}

// startRunner counts the turns that it is called for, by what they are of.
type startRunner struct {
	mu    sync.Mutex
	calls map[string]int
}

func (r *startRunner) RunTurn(
	_ context.Context, tn *spawn.TurnInput,
) (spawn.TurnResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = make(map[string]int)
	}
	what := "step"
	if !tn.Announces {
		what = tn.Inputs[len(tn.Inputs)-1].Text
	}
	r.calls[what]++
	return sayText("done")
}

func (r *startRunner) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[what]
}

// What was never entered does not count as interrupted: a turn whose start is on record although
// its append has not returned, or has failed, has not begun, and its owner notes that as long as
// the store takes anything. If it does not, or if the process dies, the next owner cannot know, and
// nothing is done again that may have had an effect.
func TestStartThatItsOwnerDidNotLearnOf(t *testing.T) {
	for what, c := range startCases {
		for how, fault := range startFaults {
			t.Run(what+" "+how, func(t *testing.T) {
				want := c.unknown
				if fault.noted {
					want = c.noted
				}
				synctest.Test(t, func(t *testing.T) { testStart(t, c, fault.startFault, want) })
			})
		}
	}
}

func testStart(t *testing.T, c startCase, fault startFault, want spawn.Status) {
	t.Helper()
	memory := session.NewMemory()
	runner := &startRunner{}
	cfg := spawn.Config{
		Store: memory, Runner: runner, Grace: time.Second,
		CallerRun: true, Deliver: func(context.Context, spawn.Delivery) error { return nil },
		Rules: policy.Rules{Subagents: policy.Subagents{
			Announce: policy.AnnounceTurn, ArchiveAfter: policy.Off,
		}},
	}
	var key session.Key
	if c.before != nil { // in a process of its own: the tree is not in memory
		s, ran := runUntil(forADay(t), t, cfg)
		key = c.before(t, s)
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	}
	start := func(ctx context.Context, s *spawn.Supervisor) { _, _ = c.start(ctx, s, key) }
	require.True(t, startIn(t, cfg, fault, c.turn == "step", start))
	next, over := runUntil(forADay(t), t, cfg)
	time.Sleep(time.Minute)
	runs, err := next.Runs(t.Context(), topKey, topKey, true)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, want, runs[0].Status, "%s", runs[0].Error)
	if want == spawn.StatusInterrupted {
		require.Zero(t, runner.count(c.turn))
	}
	require.LessOrEqual(t, runner.count(c.turn), 1)
	require.NoError(t, next.Shutdown(t.Context()))
	require.NoError(t, <-over)
	_, err = spawntest.Inspect(memory.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
}

// startIn runs a Supervisor over a journal with a fault until start has had its turn started, and
// shuts it down, which must not take longer than it may. It reports whether there was one.
func startIn(
	t *testing.T, cfg spawn.Config, fault startFault, step bool,
	start func(ctx context.Context, s *spawn.Supervisor),
) (met bool) {
	t.Helper()
	j := &startJournal{
		Journal: cfg.Store.Journal, fault: fault, step: step, release: make(chan struct{}),
	}
	cfg.Store = &session.Store{Journal: j}
	s, ran := runUntil(forADay(t), t, cfg)
	var asked sync.WaitGroup
	asked.Go(func() { start(t.Context(), s) })
	time.Sleep(time.Minute)
	began := time.Now()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Shutdown(gone)
	require.LessOrEqual(t, time.Since(began), cfg.Grace+200*time.Millisecond)
	err := <-ran
	require.True(t, err == nil || errors.Is(err, session.ErrClosed) ||
		errors.As(err, new(*spawn.StillRunningError)), "%v", err)
	asked.Wait()
	t.Cleanup(func() {
		close(j.release)
		synctest.Wait()
	})
	return j.met
}

// A message has not had an attempt in a turn that has not begun, however often that happens.
func TestMessageWhoseTurnHasNotBegun(t *testing.T) {
	for how, fault := range startFaults {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runner := &startRunner{}
				var said []string
				cfg := spawn.Config{
					Store: session.NewMemory(), Runner: runner, Grace: time.Second,
					Replies: true, Apology: "sorry",
					Deliver: func(_ context.Context, d spawn.Delivery) error {
						said = append(said, d.Reply.Text)
						return nil
					},
				}
				for range 3 {
					met := startIn(t, cfg, fault.startFault, false,
						func(ctx context.Context, s *spawn.Supervisor) {
							in := spawn.Incoming{ID: "1", Text: "hello"}
							_, _ = s.Post(ctx, topKey, topKey, in)
						})
					require.True(t, met || runner.count("hello") > 0)
				}
				s, ran := runUntil(forADay(t), t, cfg)
				time.Sleep(time.Minute)
				require.NoError(t, s.Idle(t.Context(), topKey))
				require.NoError(t, s.Shutdown(t.Context()))
				require.NoError(t, <-ran)
				if fault.noted {
					require.Equal(t, 1, runner.count("hello"))
					require.Empty(t, said)
				} else {
					require.Zero(t, runner.count("hello"))
					require.Equal(t, []string{"sorry"}, said)
				}
				_, err := spawntest.Inspect(cfg.Store.Journal.Read(t.Context(), topKey, 0))
				require.NoError(t, err)
			})
		})
	}
}
