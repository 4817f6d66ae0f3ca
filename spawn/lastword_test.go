package spawn_test

import (
	"context"
	"errors"
	"fmt"
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

// A noteJournal is a journal of which one append after the call of arm does not return before the
// end of the test, or before its ctx ends.
type noteJournal struct {
	session.Journal

	adds, hears bool // it adds the batch; it hears of its ctx
	all         bool // so do all that follow
	free        chan struct{}

	mu   sync.Mutex
	left int // appends until then; -1: it is over, or has not begun
	met  bool
}

func (j *noteJournal) arm(at int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = at
}

func (j *noteJournal) hasMet() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.met
}

func (j *noteJournal) meets() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left < 0 {
		return false
	}
	meets := j.left == 0
	j.met = j.met || meets
	if j.left > 0 || !j.all {
		j.left--
	}
	return meets
}

func (j *noteJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	meets := j.meets()
	if !meets || j.adds {
		seq, err := j.Journal.Append(ctx, root, after, b)
		if !meets || err != nil {
			return seq, err
		}
	}
	ends := ctx.Done()
	if !j.hears {
		ends = nil
	}
	select {
	case <-ends:
		return 0, context.Cause(ctx)
	case <-j.free:
		return 0, errDisk
	}
}

// A cutTurn is a turn that a shutdown cuts before it has done anything: one that was entered or, if
// it waits for Sandbox.Decide, one that was not. One that has worked has done something.
type cutTurn struct {
	entered, worked bool

	mu    sync.Mutex
	cuts  bool // turns are cut; else they come to their end
	calls int  // of the Runner
}

func (c *cutTurn) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutTurn) RunTurn(
	ctx context.Context, tn *spawn.TurnInput,
) (spawn.TurnResult, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	if c.isCut() && tn.Inputs[len(tn.Inputs)-1].Text != "before" {
		<-ctx.Done()
		if c.worked {
			return spawn.TurnResult{}, context.Cause(ctx)
		}
		return spawn.TurnResult{}, fmt.Errorf("%w: %w", spawn.ErrUntouched, context.Cause(ctx))
	}
	return spawn.TurnResult{Reply: "done", Result: spawn.Result{Text: "done"}}, nil
}

// decide is Sandbox.Decide, in which the shutdown meets turns that are not to be entered.
func (c *cutTurn) decide(string, session.Key) bool {
	if c.isCut() && !c.entered {
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// A note of a shutdown whose append hangs costs what it is about nothing: a run that has done
// nothing is queued again, and a message has had no attempt, however often that happens, whichever
// of the appends hangs, and whether it has the note in the log. That a turn over the message had
// done something does not make it one.
func TestNoteOfAShutdownThatHangs(t *testing.T) {
	start := map[string]func(ctx context.Context, s *spawn.Supervisor, before session.Key) error{
		"spawn": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) error {
			return errorOf(s.Spawn(ctx, topKey, topKey, spawn.Request{Task: "work", Key: "k"}))
		},
		"follow-up": func(ctx context.Context, s *spawn.Supervisor, before session.Key) error {
			return errorOf(s.Post(ctx, topKey, before, spawn.Incoming{ID: "1", Text: "work"}))
		},
		"post": func(ctx context.Context, s *spawn.Supervisor, _ session.Key) error {
			return errorOf(s.Post(ctx, topKey, topKey, spawn.Incoming{ID: "1", Text: "work"}))
		},
	}
	for what, f := range start {
		ways := 1 << 4
		if what == "post" {
			ways *= 2
		}
		for i := range ways {
			for at := range 3 {
				j := noteJournal{adds: i&1 > 0, hears: i&2 > 0, all: i&4 > 0 && i&1 > 0, left: -1}
				turn := cutTurn{entered: i&24 > 0, worked: i&16 > 0}
				name := fmt.Sprint(what, " ", i, " ", at)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						testNote(t, &turn, &j, at, f)
					})
				})
			}
		}
	}
}

func testNote(
	t *testing.T, turn *cutTurn, what *noteJournal, at int,
	start func(ctx context.Context, s *spawn.Supervisor, before session.Key) error,
) {
	t.Helper()
	store := session.NewMemory()
	var said []string
	cfg := spawn.Config{
		Runner: turn, Grace: time.Second, Replies: true, Apology: "sorry",
		Deliver: func(_ context.Context, d spawn.Delivery) error {
			said = append(said, d.Reply.Text)
			return nil
		},
		Rules: policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}},
	}
	cfg.Rules.Sandbox.Decide = turn.decide
	cfg.Store = &session.Store{Journal: store.Journal}
	s, ran := runUntil(forADay(t), t, cfg)
	before := mustSpawn(t, s, spawn.Request{Task: "before"})
	synctest.Wait()
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-ran)
	turn.cuts = true
	const rounds = 4
	met := false
	for round := range rounds {
		j := &noteJournal{
			Journal: store.Journal, adds: what.adds, hears: what.hears, all: what.all, left: -1,
			free: make(chan struct{}),
		}
		cfg.Store = &session.Store{Journal: j}
		s, ran := runUntil(forADay(t), t, cfg)
		if round == 0 {
			require.NoError(t, start(t.Context(), s, before))
			synctest.Wait()
		}
		j.arm(at)
		began := time.Now()
		err := s.Shutdown(atOnce(t))
		require.LessOrEqual(t, time.Since(began), cfg.Grace+200*time.Millisecond)
		require.True(t, err == nil || errors.As(err, new(*spawn.StillRunningError)), "%v", err)
		require.NoError(t, <-ran)
		met = j.hasMet() || met
		t.Cleanup(func() { close(j.free); synctest.Wait() })
	}
	require.True(t, met || at > 0)
	turn.cuts = false
	cfg.Store = &session.Store{Journal: store.Journal}
	s, ran = runUntil(forADay(t), t, cfg)
	time.Sleep(time.Minute)
	runs, err := s.Runs(t.Context(), topKey, topKey, true)
	require.NoError(t, err)
	for _, r := range runs {
		require.Equal(t, spawn.StatusOK, r.Status, "%s", r.Error)
	}
	require.NotContains(t, said, "sorry")
	if want := 2; turn.entered {
		require.Equal(t, want+rounds, turn.calls)
	} else {
		require.Equal(t, want, turn.calls)
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-ran)
	_, err = spawntest.Inspect(store.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
}
