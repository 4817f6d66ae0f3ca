//go:build unix

package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// Numbered returns the root of a tree.
func Numbered(i int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprint("tree-", i)))
}

func treeNumber(root session.Key) (i int) {
	_, _ = fmt.Sscanf(root.String(), "agent:main:tree-%d", &i)
	return i
}

// worker claims each orphan, appends to it without an end while it is let, and says what it has
// claimed, what was acknowledged and what was refused. Its arguments are a Place and its name.
func (e Engine) worker(ctx context.Context, args []string) {
	store, err := e.Open(ctx, Place{args[0], args[1]}, args[2], e.Lease)
	if err != nil {
		Say("failed: %v", err)
		return
	}
	go func() {
		err := store.Owners.Serve(ctx, session.Member{Lease: func(l session.Lease) {
			for _, c := range l.Taken {
				Say("taken %d %d", treeNumber(c.Root), c.Epoch)
			}
		}})
		Say("failed: %v", err)
	}()
	for root, err := range store.Owners.Orphans(ctx) {
		if err != nil {
			Say("failed: %v", err)
			return
		}
		if c, err := e.Claim(ctx, store, root); err == nil {
			go appendUnder(ctx, store, c)
		}
	}
}

// appendUnder appends the epoch of a claim to its tree again and again, until that is refused. The
// first time is a while after the claim, so that it is not the log alone which refuses another.
func appendUnder(ctx context.Context, store *session.Store, c session.Claim) {
	last := EndOf(ctx, store, c.Root)
	Say("claimed %d %d %d", treeNumber(c.Root), c.Epoch, last)
	pause(500 * time.Millisecond)
	for {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(last + 1)), Due: time.Unix(1, 0)}
		b.Entries = []session.Entry{{Payload: session.Raw(fmt.Sprint(c.Epoch))}}
		next, err := store.Journal.Append(ctx, c.Root, last, b)
		switch {
		case errors.Is(err, session.ErrConflict):
			Say("refused %d %d", treeNumber(c.Root), c.Epoch)
			return
		case err != nil: // as after a kill of the server: what is there is found out by reading
			next = EndOf(ctx, store, c.Root)
		default:
			Say("entry %d %d %d", treeNumber(c.Root), c.Epoch, next)
		}
		last = next
		pause(20 * time.Millisecond)
	}
}

// A worker is a child that is one of several processes, and what it has said.
type worker struct {
	*Process
	mu sync.Mutex
	// By the number of the tree.
	claimed, end, said map[int]int // epoch, last sequence before it, last acknowledged
	refused, lost      map[int]bool
	at                 time.Time // of the last claim
	failed             string
}

func startWorker(t *testing.T, at Place, name string) *worker {
	t.Helper()
	w := &worker{
		claimed: map[int]int{}, end: map[int]int{}, said: map[int]int{},
		refused: map[int]bool{}, lost: map[int]bool{},
	}
	w.Process = Start(t, w.take, "worker", at.URL, at.Name, name)
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
	wait(t, what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ready()
	}, &w.claimed, &w.said, &w.refused, &w.lost, &w.failed)
}

// memberTrees is how many trees the workers have.
const memberTrees = 8

// workers starts two workers, of which the first has all trees.
func (e Engine) workers(t *testing.T, at Place) (store *session.Store, a, b *worker) {
	t.Helper()
	store = e.open(t, at, "test", 0)
	for i := range memberTrees {
		batch := session.Batch{ID: "0", Due: time.Unix(1, 0)}
		batch.Entries = []session.Entry{{Payload: session.Raw("0")}}
		_, err := store.Journal.Append(t.Context(), Numbered(i), 0, batch)
		must(t, "append", err)
	}
	a = startWorker(t, at, "a")
	a.wait(t, "a has all trees", func() bool { return len(a.said) == memberTrees })
	return store, a, startWorker(t, at, "b")
}

// verifyTrees fails the test unless each log has what workers have said, and the epochs in it only
// grow: nothing that a former owner writes comes after what a later one has found.
func (e Engine) verifyTrees(t *testing.T, store *session.Store, former, next *worker) {
	t.Helper()
	for tree := range memberTrees {
		last, epoch := session.Seq(0), 0
		for entry, err := range store.Journal.Read(t.Context(), Numbered(tree), 0) {
			must(t, "read", err)
			check(t, entry.Seq > last && (!e.Dense || entry.Seq == last+1),
				"tree %d: entry %d comes after %d", tree, entry.Seq, last)
			last = entry.Seq
			var n int
			_, err = fmt.Sscan(string(entry.Payload.(session.Raw)), &n)
			must(t, "scan", err)
			check(t, n >= epoch, "tree %d, entry %d: epoch %d after %d", tree, last, n, epoch)
			epoch = n
			check(t, int(last) <= next.end[tree] || epoch == next.claimed[tree],
				"tree %d: entry %d came late", tree, last)
		}
		check(t, int(last) >= next.said[tree] && next.end[tree] >= former.said[tree],
			"tree %d ends at %d: an acknowledged entry is lost", tree, last)
	}
}

// TestKilledMember kills one of two processes: the other one has its trees within the lease and
// three seconds, and all that was acknowledged.
func (e Engine) TestKilledMember(t *testing.T, at Place) {
	t.Helper()
	store, a, b := e.workers(t, at)
	a.Kill()
	killed := time.Now()
	b.wait(t, "b has all trees", func() bool { return len(b.said) == memberTrees })
	b.Kill()
	took := b.at.Sub(killed)
	t.Logf("taken over %v after the kill, with a lease of %v", took, e.Lease)
	const busy = 3 * time.Second // more than a machine has of its own, while other tests run
	check(t, took < e.Lease+3*time.Second+busy, "taken over %v after the kill", took)
	e.verifyTrees(t, store, a, b)
}

// TestStoppedMember stops a process for longer than its lease: when it goes on, it changes nothing
// more in the trees that another one has taken, and is told which those are.
func (e Engine) TestStoppedMember(t *testing.T, at Place) {
	t.Helper()
	store, a, b := e.workers(t, at)
	goOn := a.Stop(t)
	b.wait(t, "b has all trees", func() bool { return len(b.claimed) == memberTrees })
	goOn()
	a.wait(t, "a was refused each", func() bool { return len(a.refused) == memberTrees })
	a.wait(t, "a was told of each", func() bool { return len(a.lost) == memberTrees })
	b.wait(t, "b goes on", func() bool { return len(b.said) == memberTrees })
	a.Kill()
	b.Kill()
	check(t, len(b.refused) == 0, "b was refused %v", b.refused)
	e.verifyTrees(t, store, a, b)
}
