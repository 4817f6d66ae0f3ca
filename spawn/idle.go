package spawn

import (
	"context"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Idle waits until nothing is under way in a tree: no turn, no run that has not ended, no message that is not answered, no
// delivery but blocked ones. Something may begin again at once if somebody posts. Before [Supervisor.Run] it waits for that too.
func (s *Supervisor) Idle(ctx context.Context, root session.Key) error {
	sh := s.shellOf(root)
	w := sh.watch()
	defer sh.unwatch(w)
	for {
		idle := false
		if err := sh.owner.Await(ctx, nil, func(t *tree.Tree, _ tree.Reply) { idle = t.Idle() }); err != nil || idle {
			return err
		}
		select {
		case <-w.wake:
			w.takePending()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.closed:
			return ErrShutdown
		}
	}
}
