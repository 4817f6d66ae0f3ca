package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// childLease is the lease of the processes that a test kills.
const childLease = 3 * time.Second

// memberChild claims each orphan, appends to it without an end while it is let, and says what it
// has claimed, what was acknowledged and what was refused.
func memberChild(ctx context.Context, dsn, schema, name string) {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...) //nolint:forbidigo // that of a child process
	}
	store, err := pgstore.Open(ctx, dsn, pgstore.Options{
		Schema: schema, Process: name, Lease: childLease,
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
			go appendUnder(ctx, store, c, say)
		}
	}
}

// appendUnder appends the epoch of a claim to its tree again and again, until that is refused. The
// first time is a while after the claim, so that it is not the log alone which refuses another.
func appendUnder(
	ctx context.Context, store *session.Store, c session.Claim, say func(string, ...any),
) {
	last := endOf(ctx, store, c.Root)
	say("claimed %d %d %d", treeNumber(c.Root), c.Epoch, last)
	time.Sleep(500 * time.Millisecond)
	for {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(last + 1)), Due: time.Unix(1, 0)}
		b.Entries = []session.Entry{{Payload: session.Raw(fmt.Sprint(c.Epoch))}}
		next, err := store.Journal.Append(ctx, c.Root, last, b)
		switch {
		case errors.Is(err, session.ErrConflict):
			say("refused %d %d", treeNumber(c.Root), c.Epoch)
			return
		case err != nil: // as after a kill of the server: what is there is found out by reading
			next = endOf(ctx, store, c.Root)
		default:
			say("entry %d %d %d", treeNumber(c.Root), c.Epoch, next)
		}
		last = next
		time.Sleep(20 * time.Millisecond)
	}
}

// claimed claims a tree, again for as long as the server does not answer in time: a busy one may
// need more than a third of a lease.
func claimed(ctx context.Context, store *session.Store, root session.Key) (session.Claim, error) {
	for {
		c, err := store.Owners.Claim(ctx, root)
		if !errors.Is(err, pgstore.ErrTimeout) {
			return c, err //nolint:wrapcheck // as if the test had called it
		}
	}
}

// numbered returns the root of a tree.
func numbered(i int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprint("tree-", i)))
}

func treeNumber(root session.Key) (i int) {
	_, _ = fmt.Sscanf(root.String(), "agent:main:tree-%d", &i)
	return i
}

// A worker is a child that is one of several processes, and what it has said.
type worker struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	// By the number of the tree.
	claimed, end, said map[int]int // epoch, last sequence before it, last acknowledged
	refused            map[int]bool
	at                 time.Time // of the last claim
	failed             string
}

func startWorker(t *testing.T, s *server, schema, name string) *worker {
	cmd, lines := startChild(t, s, schema+" "+name)
	w := &worker{
		cmd: cmd, claimed: map[int]int{}, end: map[int]int{}, said: map[int]int{},
		refused: map[int]bool{},
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	go func() {
		for line := range lines {
			w.take(line)
		}
	}()
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

// clusterOf starts two workers, of which the first has all trees.
func clusterOf(t *testing.T, trees int) (s *server, store *session.Store, a, b *worker) {
	t.Helper()
	s = ownServer(t)
	schema := freshSchema()
	store = s.open(t, memberOptions(schema, "test", 0))
	for i := range trees {
		batch := entries("0", 1)
		batch.Entries[0].Payload, batch.Due = session.Raw("0"), time.Unix(1, 0)
		_, err := store.Journal.Append(t.Context(), numbered(i), 0, batch)
		require.NoError(t, err)
	}
	a = startWorker(t, s, schema, "a")
	a.wait(t, "a has all trees", func() bool { return len(a.said) == trees })
	b = startWorker(t, s, schema, "b")
	return s, store, a, b
}

// verifyTree fails the test unless a log has what workers have said, and the epochs in it only
// grow: nothing that a former owner writes comes after what a later one has found.
func verifyTree(t *testing.T, store *session.Store, tree int, former, next *worker) {
	t.Helper()
	former.mu.Lock() // what a worker has said last may still be on its way
	defer former.mu.Unlock()
	next.mu.Lock()
	defer next.mu.Unlock()
	var last session.Seq
	epoch := 0
	for e, err := range store.Journal.Read(t.Context(), numbered(tree), 0) {
		require.NoError(t, err)
		require.Equal(t, last+1, e.Seq)
		last = e.Seq
		var n int
		_, err = fmt.Sscan(string(e.Payload.(session.Raw)), &n)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, epoch, "tree %d, entry %d", tree, e.Seq)
		epoch = n
		if int(last) > next.end[tree] {
			require.Equal(t, next.claimed[tree], epoch, "tree %d: entry %d came late", tree, e.Seq)
		}
	}
	require.GreaterOrEqual(t, int(last), next.said[tree], "an acknowledged entry is lost")
	require.GreaterOrEqual(t, next.end[tree], former.said[tree], "an acknowledged entry is lost")
}

// TestKilledMember kills one of two processes: the other one has its trees within the lease and
// three seconds, and all that was acknowledged.
func TestKilledMember(t *testing.T) {
	const trees = 8
	_, store, a, b := clusterOf(t, trees)
	require.NoError(t, a.cmd.Process.Kill())
	killed := time.Now()
	b.wait(t, "b has all trees", func() bool { return len(b.said) == trees })
	took := b.at.Sub(killed)
	t.Logf("taken over %v after the kill, with a lease of %v", took, childLease)
	const busy = 3 * time.Second // more than a machine has of its own, while other tests run
	assert.Less(t, took, childLease+3*time.Second+busy)
	require.NoError(t, b.cmd.Process.Kill())
	for i := range trees {
		verifyTree(t, store, i, a, b)
	}
}

// TestStoppedMember stops a process for longer than its lease: when it goes on, it changes nothing
// more in the trees that another one has taken, and knows that.
func TestStoppedMember(t *testing.T) {
	const trees = 8
	_, store, a, b := clusterOf(t, trees)
	require.NoError(t, a.cmd.Process.Signal(syscall.SIGSTOP))
	b.wait(t, "b has all trees", func() bool { return len(b.claimed) == trees })
	require.NoError(t, a.cmd.Process.Signal(syscall.SIGCONT))
	a.wait(t, "a was refused each", func() bool { return len(a.refused) == trees })
	b.wait(t, "b goes on", func() bool { return len(b.said) == trees })
	b.mu.Lock()
	assert.Empty(t, b.refused)
	b.mu.Unlock()
	require.NoError(t, a.cmd.Process.Kill())
	require.NoError(t, b.cmd.Process.Kill())
	for i := range trees {
		verifyTree(t, store, i, a, b)
	}
}

// TestServerKilledUnderMembers kills the server with all its processes: what was acknowledged is
// there after the restart, and so is each claim, unless another process has taken it.
func TestServerKilledUnderMembers(t *testing.T) {
	s, schema := ownServer(t), freshSchema()
	o := memberOptions(schema, "a", childLease)
	o.Timeout = 3 * time.Second
	a, network, err := s.openCut(t.Context(), o, false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	o.Process = "b"
	b := s.open(t, o)
	var taken atomic.Pointer[session.Claim]
	var handled atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, store := range []*session.Store{a, b} {
		wg.Go(func() {
			assert.NoError(t, store.Owners.Serve(ctx, session.Member{
				Handle: func(context.Context, session.Request) []byte {
					return fmt.Append(nil, handled.Add(1))
				},
				Lease: func(l session.Lease) {
					for _, c := range l.Taken {
						taken.Store(&c)
					}
				},
			}))
		})
	}
	defer wg.Wait()
	defer cancel()
	claim, err := claimed(ctx, a, root)
	require.NoError(t, err)
	granted := make(chan string, 10)
	la := a.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) { granted <- "a" + id }})
	lb := b.Owners.Lane("l", 1, session.LaneUser{Granted: func(id string) { granted <- "b" + id }})
	require.NoError(t, la.Ask(session.Ticket{ID: "1"}))
	require.Equal(t, "a1", <-granted)
	var last session.Seq
	for round := range rounds(2, 10) {
		id := fmt.Sprint("request ", round)
		call := func() string {
			answer, err := b.Owners.Call(ctx, session.Request{ID: id, Root: root})
			require.NoError(t, err)
			return string(answer)
		}
		answer := call()
		last = appendUntilAdded(t, a, last, entries(fmt.Sprint(round), 1))
		for _, pid := range s.PIDs() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-s.Exited()
		time.Sleep(time.Duration(round%2) * (childLease + time.Second)) // the second time it lapses
		require.NoError(t, s.Start())
		require.Eventually(t, func() bool { return a.Health(ctx) == nil && b.Health(ctx) == nil },
			time.Minute, 10*time.Millisecond)
		time.Sleep(time.Second) // for a beat
		again, err := claimed(ctx, a, root)
		require.NoError(t, err)
		assert.Equal(t, claim, again)
		assert.Equal(t, answer, call(), "the request is known")
		assert.EqualValues(t, round+1, handled.Load())
		_, err = claimed(ctx, b, root)
		require.ErrorIs(t, err, session.ErrOwned)
		assert.Equal(t, last, endOf(ctx, b, root))
	}
	assert.Nil(t, taken.Load())
	require.NoError(t, lb.Ask(session.Ticket{ID: "2"}))
	time.Sleep(time.Second)
	assert.Empty(t, granted, "a has the slot")

	// Now a does not see the server again before b has its tree.
	network.setCut(true)
	s.Kill()
	require.NoError(t, s.Start())
	require.Eventually(t, func() bool {
		_, err := claimed(ctx, b, root)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, "b2", <-granted)
	network.setCut(false)
	require.Eventually(t, func() bool { return taken.Load() != nil },
		time.Minute, 10*time.Millisecond)
	assert.Equal(t, claim, *taken.Load())
	_, err = a.Journal.Append(ctx, root, last, entries("late", 1))
	require.ErrorIs(t, err, session.ErrConflict)
}
