package disktest

import (
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A GroupCommit is the least that a group commit can be, and what a log is measured against: whoever comes while nobody writes takes
// what all have left, writes it and syncs once. It frames nothing, checks nothing, and cannot go on after an error. Its methods may be
// called from many goroutines at once.
type GroupCommit struct {
	f   disk.File
	off int64

	mu      sync.Mutex
	waiting []byte
	spare   []byte
	done    chan struct{} // closed when what waits is durable
	busy    bool
}

// NewGroupCommit returns a GroupCommit that writes from the beginning of f.
func NewGroupCommit(f disk.File) *GroupCommit { return &GroupCommit{f: f} }

// Write returns when p is durable, if it was this call that wrote it; an error is told to that call alone.
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
