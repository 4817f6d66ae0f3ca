package disktest

import (
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A GroupCommit is the simplest group commit, the floor that benchmarks compare a log with. A
// caller that finds the GroupCommit idle takes all waiting records, writes them, and syncs once. It
// adds no frames and no checks, and cannot go on after an error. Its methods may be called from
// several goroutines at once.
type GroupCommit struct {
	f   disk.File
	off int64

	mu      sync.Mutex
	waiting []byte
	spare   []byte
	done    chan struct{} // closed when the waiting records are durable
	busy    bool
}

// NewGroupCommit returns a GroupCommit that writes from the beginning of f.
func NewGroupCommit(f disk.File) *GroupCommit { return &GroupCommit{f: f} }

// Write returns once p is durable. Only the call that wrote a group returns its error.
func (g *GroupCommit) Write(p []byte) error {
	g.mu.Lock()
	g.waiting = append(g.waiting, p...)
	if g.done == nil {
		g.done = make(chan struct{})
	}
	done := g.done
	if g.busy {
		g.mu.Unlock()
		<-done
		return nil
	}
	g.busy = true
	var err error
	for len(g.waiting) > 0 && err == nil {
		group, done := g.waiting, g.done
		g.waiting, g.done = g.spare[:0], nil
		g.mu.Unlock()
		if _, err = g.f.WriteAt(group, g.off); err == nil {
			err = g.f.Sync()
		}
		g.off += int64(len(group))
		close(done)
		g.mu.Lock()
		g.spare = group
	}
	g.busy = false
	g.mu.Unlock()
	return err
}
