package spawn

import (
	"context"
	"sync"

	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// slot is the turn's hold on a slot of the lane. The turn can give the slot back early and ask for
// one again.
type slot struct {
	mu     sync.Mutex
	lane   *owner.Lane
	run    *tree.Run
	life   context.Context //nolint:containedctx // of the turn; resume waits until it ends
	held   bool
	paused int  // how many callers wait within the turn; while any does, the turn holds no slot
	closed bool // the turn is over for the tree: a slot that is granted now goes back at once
}

// pause gives the slot back while a caller waits within the turn.
func (s *slot) pause() {
	s.mu.Lock()
	s.paused++
	s.mu.Unlock()
	s.release()
}

// resume ends a pause. After the last one it waits for a slot again until the turn is cancelled.
// The end of another context must not end that wait, or a turn would go on without a slot.
func (s *slot) resume() {
	s.mu.Lock()
	s.paused--
	enough := s.paused > 0 || s.held || s.closed
	s.mu.Unlock()
	if enough || !s.lane.Wait(s.life.Done(), s.run) {
		return
	}
	s.mu.Lock()
	enough = s.paused > 0 || s.held || s.closed // it may have changed meanwhile
	s.held = s.held || !enough
	s.mu.Unlock()
	if enough {
		s.lane.Free(s.run)
	}
}

// release gives the slot back if the turn holds one.
func (s *slot) release() {
	s.mu.Lock()
	held := s.held
	s.held = false
	s.mu.Unlock()
	if held {
		s.lane.Free(s.run)
	}
}

// close gives the slot back for good.
func (s *slot) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.release()
}
