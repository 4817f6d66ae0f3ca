package spawn_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
	"github.com/offshoot-sdk/offshoot/spawn/spawntest"
)

// TestViewOfHistories plays random histories, those of TestHistories, and views the journal after
// every append. The view says what the tree in memory says. OFFSHOOT_FUZZ and OFFSHOOT_SEED are
// those of TestHistories.
func TestViewOfHistories(t *testing.T) {
	fewer(t)
	seen, played := make(map[string]int), 0
	hs := spawntest.Histories{
		N: 30, Callers: 1, Acts: 50, Rest: 1,
		New: func(h *spawntest.History) spawntest.Program {
			w := newWorld(h)
			if h.Seed()%2 == 0 {
				w.cfg.Rules.Subagents.ArchiveAfter = policy.Off
			}
			played++
			return w.watched(seen)
		},
	}
	if underRace { // the step large of .ci/run plays all of them
		hs.N = 10
	}
	hs.Run(t)
	t.Log(seen)
	if os.Getenv("OFFSHOOT_SEED") != "" || played < 20 {
		return
	}
	for _, what := range []string{
		"queued", "running", "waiting", "stopping", "ok", "cancelled", "interrupted", "pending",
		"maybe",
	} {
		require.NotZero(t, seen[what], "the histories have nothing that is %s: %v", what, seen)
	}
}

// historyT is a history for helpers of tests.
type historyT struct{ *spawntest.History }

func (historyT) Helper()                  {}
func (historyT) Context() context.Context { return context.Background() }

// watched returns the world as a program whose journal is viewed after every append.
func (w *world) watched(seen map[string]int) spawntest.Program {
	program := w.program(func(
		ctx context.Context, p *spawntest.Process,
	) (spawntest.Server, error) {
		l, err := w.open(ctx, p)
		if err != nil {
			return nil, err
		}
		l.sup.CheckAppends(func(c spawn.Checkpoint) { w.look(c, seen) })
		return patient{l.sup}, nil
	})
	settle := program.Check
	program.Check = func() error {
		same := func() {
			w.runs(w.now) // it has to be opened, or read again after a rest
			synctest.Wait()
			sameAsLive(historyT{w.h}, w.now.sup, viewTop(historyT{w.h}, w.store.Journal))
		}
		same()
		err := settle()
		same()
		return err
	}
	return program
}

// look compares the journal with the tree in memory, right after an append.
func (w *world) look(c spawn.Checkpoint, seen map[string]int) {
	v, err := spawn.View(topKey, w.store.Journal.Read(context.Background(), topKey, 0))
	if err != nil {
		w.fail("%v", err)
	}
	if v.Last != c.Last { // another owner has taken the tree over meanwhile
		return
	}
	runs, outbox, status := c.Live()
	if !reflect.DeepEqual(v.Runs, runs) {
		w.fail(
			"after entry %d the journal says of the runs\n%s\nand the owner\n%s", v.Last,
			asJSON(historyT{w.h}, v.Runs), asJSON(historyT{w.h}, runs),
		)
	}
	if !reflect.DeepEqual(outboxOf(v), outbox) {
		w.fail(
			"after entry %d the journal says of the outbox\n%s\nand the owner\n%s", v.Last,
			asJSON(historyT{w.h}, v.Outbox), asJSON(historyT{w.h}, outbox),
		)
	}
	if v.Status != status {
		w.fail(
			"after entry %d the journal says the top-level session is %v, and the owner %v", v.Last,
			v.Status, status,
		)
	}
	head := headOf(historyT{w.h}, w.store.Journal)
	if w.cfg.Rules.Subagents.ArchiveAfter == policy.Off {
		if other := otherDue(head, v); other != "" {
			w.fail("after entry %d %s", v.Last, other)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		seen[r.Status.String()]++
	}
	for _, e := range v.Outbox {
		seen["pending"]++
		if e.MayRepeat {
			seen["maybe"]++
		}
	}
	seen["looks"]++
}

// A tree that is to unbind a conversation is due now, to its head and to a view, also where what
// ends the binding is the end of a session above it.
func TestViewOfWhatIsToBeUnbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := openTalk(t, func(cfg *spawn.Config, w *talkWorld) {
			cfg.Rules.Subagents.MaxSpawnDepth = 2
			cfg.Rules.Subagents.ArchiveAfter = policy.Off
			w.unbind = func(context.Context, int) error { <-release; return nil }
		})
		above := mustSpawn(t, w.sup, spawn.Request{Task: "hang"})
		info, err := w.sup.Spawn(t.Context(), topKey, above, spawn.Request{
			Task: "x", Thread: true, Bind: roomOf(0), Session: true,
		})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, w.sup.Stop(t.Context(), topKey, above, "enough"))
		synctest.Wait()
		require.True(t, mustFind(t, w.sup, info.Key).Status.Terminal())
		require.Len(t, w.unbound, 1)
		head := headOf(t, w.log)
		require.Equal(t, tree.DueNow, head.Due)
		sameDue(t, head, viewTop(t, w.log))
		close(release)
		synctest.Wait()
		require.Zero(t, headOf(t, w.log).Due)
		sameDue(t, headOf(t, w.log), viewTop(t, w.log))
	})
}

// A check that fails the test from the goroutine of an owner does not keep that from going on.
func TestCheckThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := spawn.Open(t.Context(), viewConfig(session.NewMemory()))
		require.NoError(t, err)
		s.CheckAppends(func(spawn.Checkpoint) { runtime.Goexit() })
		ran := make(chan error, 1)
		go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
		_, err = s.Spawn(t.Context(), topKey, topKey, spawn.Request{Task: "A"})
		if err != nil { // the first append is not tried again
			not := errors.Is(err, spawn.ErrNotRecorded)
			require.NotEqual(t, not, errors.Is(err, spawn.ErrUnconfirmed), "%v", err)
		}
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}
