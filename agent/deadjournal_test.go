package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A dyingJournal takes nothing any more from the call of die on, over the logs that it is to.
type dyingJournal struct {
	session.Journal

	of    func(root session.Key) bool
	death error
	adds  bool // the first append that fails is in the log all the same
	hangs bool // no read returns any more before the end of the test
	free  chan struct{}

	mu   sync.Mutex
	dead bool
	met  int // appends and reads that have failed
}

func (j *dyingJournal) die() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dead = true
}

// meet reports whether the journal is dead, and how often that was met before.
func (j *dyingJournal) meet(root session.Key, reads bool) (dead bool, before int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.dead || !j.of(root) || reads && !errors.Is(j.death, session.ErrClosed) {
		return false, 0
	}
	j.met++
	return true, j.met - 1
}

func (j *dyingJournal) wasMet() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.met > 0
}

func (j *dyingJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	dead, before := j.meet(root, false)
	if !dead || j.adds && before == 0 {
		if seq, err := j.Journal.Append(ctx, root, after, b); !dead || err != nil {
			return seq, err
		}
	}
	return 0, fmt.Errorf("the disk: %w", j.death)
}

func (j *dyingJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		j.mu.Lock()
		hangs := j.dead && j.hangs
		j.mu.Unlock()
		if hangs {
			<-j.free
		}
		if dead, _ := j.meet(root, true); dead {
			yield(session.Entry{}, fmt.Errorf("the disk: %w", j.death))
			return
		}
		j.Journal.Read(ctx, root, after)(yield)
	}
}

// A journal that takes nothing any more ends Run with an error that names it, whichever command
// meets it, in the log of bindings or in that of a tree, also where no read returns any more. What
// the log has then of a batch whose append has failed may not be on the disk: the command says that
// it is not known to be recorded, or that it is not.
func TestEveryCommandThatMeetsADeadJournal(t *testing.T) {
	for _, death := range []error{session.ErrSync, session.ErrClosed} {
		for where, of := range map[string]func(session.Key) bool{
			"log": isBindings, "tree": isTree,
		} {
			for name := range cutCommands {
				for i := range 4 {
					c := dyingCase{name: name, of: of, death: death, adds: i&1 > 0, hangs: i&2 > 0}
					syncs := errors.Is(death, session.ErrSync)
					what := fmt.Sprint(syncs, " ", where, " ", c.adds, " ", c.hangs)
					t.Run(what+" "+name, func(t *testing.T) { synctest.Test(t, c.play) })
				}
			}
		}
	}
}

// A dyingCase is a command, and the journal that it meets.
type dyingCase struct {
	name        string
	of          func(session.Key) bool
	death       error
	adds, hangs bool
}

func (c dyingCase) play(t *testing.T) {
	memory := session.NewMemory()
	j := &dyingJournal{
		Journal: memory.Journal, of: c.of, death: c.death, adds: c.adds, hangs: c.hangs,
		free: make(chan struct{}),
	}
	store := *memory
	store.Journal = j
	cfg := cutConfig(&store, agenttest.NewFakeChannel("fake"))
	cfg.Grace = time.Second
	onCutWorld(t, cfg, func(w *cutWorld) {
		defer synctest.Wait()
		defer close(j.free)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		j.die()
		began := time.Now()
		err := cutCommands[c.name](ctx, w)
		if !j.wasMet() { // it asks another log, or waits for a read
			return
		}
		var ended error
		select {
		case ended = <-w.ran:
		case <-time.After(time.Minute):
		}
		require.ErrorIs(t, ended, c.death)
		// What notes that people have written does not hold the command, which goes on.
		allowed := ctx.Err() == nil && time.Since(began) <= 2*time.Second+cfg.Grace
		require.True(t, allowed, "%v", time.Since(began))
		if err != nil {
			not := errors.Is(err, agent.ErrNotRecorded)
			require.NotEqual(t, not, errors.Is(err, agent.ErrUnconfirmed), "%v", err)
			require.False(t, not && errors.Is(c.death, session.ErrSync) && c.adds, "%v", err)
		}
		if err := w.rt.Shutdown(t.Context()); !c.hangs {
			require.NoError(t, err, "it is over")
		}
	})
}

// A Run that begins after the log of bindings has died returns the error at once, and an idle one
// as soon as it looks for trees that are due.
func TestDeadJournalThatNoCommandMeets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := session.NewMemory()
		j := &dyingJournal{
			Journal: memory.Journal, of: isBindings, death: session.ErrClosed,
			free: make(chan struct{}),
		}
		store := *memory
		store.Journal = j
		rt, err := agent.Open(t.Context(), cutConfig(&store, agenttest.NewFakeChannel("fake")))
		require.NoError(t, err)
		j.die()
		_, err = rt.Bindings(t.Context())
		require.ErrorIs(t, err, agent.ErrUnreadable)
		require.ErrorIs(t, rt.Run(t.Context()), session.ErrClosed)

		rt, err = agent.Open(t.Context(), cutConfig(memory, agenttest.NewFakeChannel("fake")))
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- rt.Run(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		require.NoError(t, memory.Close())
		began := time.Now()
		require.ErrorIs(t, <-ran, session.ErrClosed)
		require.LessOrEqual(t, time.Since(began), time.Minute)
	})
}
