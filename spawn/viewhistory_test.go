package spawn_test

import (
	"context"
	"os"
	"reflect"
	"runtime"
	"strconv"
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
	n, _ := strconv.Atoi(os.Getenv("OFFSHOOT_FUZZ"))
	n = max(n/10, 20)
	first, err := strconv.ParseUint(os.Getenv("OFFSHOOT_SEED"), 10, 64)
	if err == nil {
		n = 1
	} else {
		first = uint64(time.Now().UnixNano())
	}
	seen := make(map[string]int)
	for seed := first; seed < first+uint64(n); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			if seed%2 == 0 {
				w.cfg.Rules.Subagents.ArchiveAfter = policy.Off
			}
			w.playWatched(seen)
		})
	}
	t.Log(seen)
	if n > 1 {
		for _, what := range []string{"queued", "running", "waiting", "stopping", "ok", "cancelled", "interrupted", "pending", "maybe"} {
			require.NotZero(t, seen[what], "the histories have nothing that is %s: %v", what, seen)
		}
	}
}

// playWatched plays three lives of a process, of which two crash, and compares after every append.
func (w *world) playWatched(seen map[string]int) {
	defer func() {
		if w.t.Failed() {
			w.t.Logf("OFFSHOOT_SEED=%d", w.seed)
		}
	}()
	var lives []*life
	for i := range 3 {
		l := &life{n: i, journal: spawntest.NewCrashJournal(w.log), ran: make(chan error, 1)}
		if i < 2 {
			l.journal.At(
				20+w.rand.IntN(100), spawntest.FaultDieBefore+spawntest.Fault(w.rand.IntN(2)),
			)
		}
		sup, err := spawn.Open(w.t.Context(), w.configOf(l))
		require.NoError(w.t, err)
		sup.CheckAppends(func(c spawn.Checkpoint) { w.look(c, seen) })
		l.sup = sup
		go func() { l.ran <- sup.Run(context.WithoutCancel(w.t.Context())) }()
		for range 25 {
			w.act(l, w.rand)
			time.Sleep(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
		}
		lives = append(lives, l)
		if i > 0 {
			w.bury(lives[i-1])
		}
	}
	last := lives[2]
	w.runs(last) // it may have to be opened first
	synctest.Wait()
	sameAsLive(w.t, last.sup, viewTop(w.t, w.store.Journal))
	w.settle(last)
	w.runs(last) // it has rested, and a reading opens it under another epoch
	synctest.Wait()
	sameAsLive(w.t, last.sup, viewTop(w.t, w.store.Journal))
	close(w.stop)
	w.bury(last)
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
			asJSON(w.t, v.Runs), asJSON(w.t, runs),
		)
	}
	if !reflect.DeepEqual(outboxOf(v), outbox) {
		w.fail(
			"after entry %d the journal says of the outbox\n%s\nand the owner\n%s", v.Last,
			asJSON(w.t, v.Outbox), asJSON(w.t, outbox),
		)
	}
	if v.Status != status {
		w.fail(
			"after entry %d the journal says the top-level session is %v, and the owner %v", v.Last,
			v.Status, status,
		)
	}
	head := headOf(w.t, w.store.Journal)
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
		if err != nil { // the first append may count as unknown
			require.ErrorIs(t, err, spawn.ErrUnconfirmed)
		}
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-ran)
	})
}
