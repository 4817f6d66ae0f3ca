package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// childLease is the lease of the processes that a test kills.
const childLease = 2 * time.Second

// numbered returns the root of a tree.
func numbered(i int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprint("tree-", i)))
}

func treeNumber(root session.Key) (i int) {
	_, _ = fmt.Sscanf(root.String(), "agent:main:tree-%d", &i)
	return i
}

// workerChild claims each orphan, appends to it without an end while it is let, and says what it
// has claimed, what was acknowledged and what was refused.
func workerChild(ctx context.Context, args []string) {
	store, err := natsstore.Open(ctx, args[0], natsstore.Options{
		Process: args[1], Lease: childLease, TrustSync: true,
	})
	if err != nil {
		say("failed: %v", err)
		return
	}
	go func() {
		err := store.Owners.Serve(ctx, session.Member{Lease: func(l session.Lease) {
			for _, c := range l.Taken {
				say("taken %d %d", treeNumber(c.Root), c.Epoch)
			}
		}})
		say("failed: %v", err)
	}()
	for root, err := range store.Owners.Orphans(ctx) {
		if err != nil {
			say("failed: %v", err)
			return
		}
		if c, err := claimed(ctx, store, root); err == nil {
			go appendUnder(ctx, store, c)
		}
	}
}

// claimed claims a tree, again for as long as the server does not answer in time.
func claimed(ctx context.Context, store *session.Store, root session.Key) (session.Claim, error) {
	for {
		c, err := store.Owners.Claim(ctx, root)
		if !errors.Is(err, natsstore.ErrTimeout) {
			return c, err //nolint:wrapcheck // as if the test had called it
		}
	}
}

// endOf returns the sequence at which a log ends.
func endOf(ctx context.Context, store *session.Store, root session.Key) (last session.Seq) {
	for e, err := range store.Journal.Read(ctx, root, 0) {
		if err == nil {
			last = e.Seq
		}
	}
	return last
}

// appendUnder appends the epoch of a claim to its tree again and again, until that is refused. The
// first time is a while after the claim, so that it is not the log alone which refuses another.
func appendUnder(ctx context.Context, store *session.Store, c session.Claim) {
	last := endOf(ctx, store, c.Root)
	say("claimed %d %d %d", treeNumber(c.Root), c.Epoch, last)
	time.Sleep(300 * time.Millisecond)
	for {
		b := session.Batch{Due: time.Unix(1, 0)}
		b.Entries = []session.Entry{{Payload: session.Raw(fmt.Sprint(c.Epoch))}}
		next, err := store.Journal.Append(ctx, c.Root, last, b)
		switch {
		case errors.Is(err, session.ErrConflict):
			say("refused %d %d", treeNumber(c.Root), c.Epoch)
			return
		case err != nil: // what is there is found out by reading
			next = endOf(ctx, store, c.Root)
		default:
			say("entry %d %d %d", treeNumber(c.Root), c.Epoch, next)
		}
		last = next
		time.Sleep(20 * time.Millisecond)
	}
}

// A worker is a child that is one of several processes, and what it has said.
type worker struct {
	*process
	mu sync.Mutex
	// By the number of the tree.
	claimed, end, said map[int]int // epoch, last sequence before it, last acknowledged
	refused, lost      map[int]bool
	at                 time.Time // of the last claim
	failed             string
}

func startWorker(t *testing.T, s *realServer, name string) *worker {
	w := &worker{
		claimed: map[int]int{}, end: map[int]int{}, said: map[int]int{},
		refused: map[int]bool{}, lost: map[int]bool{},
	}
	w.process = startChild(t, w.take, "worker", s.url(), name)
	return w
}

func (w *worker) take(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var what string
	var tree, epoch, seq int
	_, _ = fmt.Sscanf(line, "%s %d %d %d", &what, &tree, &epoch, &seq)
	switch what {
	case "claimed":
		w.claimed[tree], w.end[tree], w.at = epoch, seq, time.Now()
	case "entry":
		w.said[tree] = seq
	case "refused":
		w.refused[tree] = true
	case "taken":
		w.lost[tree] = true
	case "failed:":
		w.failed = line
	}
}

// wait waits until a worker has said enough.
func (w *worker) wait(t *testing.T, what string, ready func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ready()
	}, time.Minute, 10*time.Millisecond, "%s: %+v", what, w)
}

// workersOf starts two workers, of which the first has all trees.
func workersOf(t *testing.T, trees int) (store *session.Store, a, b *worker) {
	t.Helper()
	s := startServer(t)
	store = s.open(t, natsstore.Options{Process: "test"})
	for i := range trees {
		b := session.Batch{Due: time.Unix(1, 0)}
		b.Entries = []session.Entry{{Payload: session.Raw("0")}}
		_, err := store.Journal.Append(t.Context(), numbered(i), 0, b)
		require.NoError(t, err)
	}
	a = startWorker(t, s, "a")
	a.wait(t, "a has all trees", func() bool { return len(a.said) == trees })
	return store, a, startWorker(t, s, "b")
}

// verifyTree fails the test unless a log has what workers have said, and the epochs in it only
// grow: nothing that a former owner writes comes after what a later one has found.
func verifyTree(t *testing.T, store *session.Store, tree int, former, next *worker) {
	t.Helper()
	former.mu.Lock()
	defer former.mu.Unlock()
	next.mu.Lock()
	defer next.mu.Unlock()
	last, epoch := 0, 0
	for e, err := range store.Journal.Read(t.Context(), numbered(tree), 0) {
		require.NoError(t, err)
		require.Greater(t, int(e.Seq), last)
		last = int(e.Seq)
		var n int
		_, err = fmt.Sscan(string(e.Payload.(session.Raw)), &n)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, epoch, "tree %d, entry %d", tree, e.Seq)
		epoch = n
		if last > next.end[tree] {
			require.Equal(t, next.claimed[tree], epoch, "tree %d: entry %d came late", tree, e.Seq)
		}
	}
	require.GreaterOrEqual(t, last, next.said[tree], "an acknowledged entry is lost")
	require.GreaterOrEqual(t, next.end[tree], former.said[tree], "an acknowledged entry is lost")
}

// TestKilledMember kills one of two processes: the other one has its trees within the lease and
// three seconds, and all that was acknowledged.
func TestKilledMember(t *testing.T) {
	t.Parallel()
	const trees = 8
	store, a, b := workersOf(t, trees)
	a.kill()
	killed := time.Now()
	b.wait(t, "b has all trees", func() bool { return len(b.said) == trees })
	took := b.at.Sub(killed)
	t.Logf("taken over %v after the kill, with a lease of %v", took, childLease)
	const busy = 3 * time.Second // more than a machine has of its own, while other tests run
	assert.Less(t, took, childLease+3*time.Second+busy)
	b.kill()
	for i := range trees {
		verifyTree(t, store, i, a, b)
	}
}

// TestStoppedMember stops a process for longer than its lease: when it goes on, it changes nothing
// more in the trees that another one has taken, and is told which those are.
func TestStoppedMember(t *testing.T) {
	t.Parallel()
	const trees = 8
	store, a, b := workersOf(t, trees)
	require.NoError(t, a.Process.Signal(syscall.SIGSTOP))
	b.wait(t, "b has all trees", func() bool { return len(b.claimed) == trees })
	require.NoError(t, a.Process.Signal(syscall.SIGCONT))
	a.wait(t, "a was refused each", func() bool { return len(a.refused) == trees })
	a.wait(t, "a was told of each", func() bool { return len(a.lost) == trees })
	b.wait(t, "b goes on", func() bool { return len(b.said) == trees })
	b.mu.Lock()
	assert.Empty(t, b.refused)
	b.mu.Unlock()
	a.kill()
	b.kill()
	for i := range trees {
		verifyTree(t, store, i, a, b)
	}
}
