package spawn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A TidyRequest says that what was made for a sub-agent outside of the Store may go, see
// Config.Tidy.
type TidyRequest struct {
	Root, Session session.Key
	// Extra is that of the Request that the sub-agent was spawned with.
	Extra json.RawMessage
	// Delete says that its session goes as soon as it may.
	Delete bool
	// Archive says that the session is archived now. A next run follows only after a Revive.
	Archive bool
}

var errTidyExited = errors.New("spawn: Config.Tidy ended its goroutine")

// Tidy implements owner.Executor.
func (sh *treeShell) Tidy(r *tree.Run) {
	q := TidyRequest{
		Root: sh.owner.Root(), Session: r.Key(), Extra: r.Spec.Extra, Delete: r.Spec.Delete,
	}
	sh.beside(sh.hold(), func(ctx context.Context, may error) {
		if may != nil {
			return
		}
		if err := sh.sup.tidy(ctx, q); err != nil && ctx.Err() == nil { // the archive does it again
			sh.sup.log.Warn("offshoot: what was made for a sub-agent was not removed",
				"session", q.Session.String(), "error", sh.sup.errorText(err))
		}
	})
}

// tidy calls Config.Tidy, if there is something for it to do.
func (s *Supervisor) tidy(ctx context.Context, q TidyRequest) error {
	if s.cfg.Tidy == nil || len(q.Extra) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DeliverTimeout)
	defer cancel()
	return contain.Call(func() error {
		return s.cfg.Tidy(ctx, q)
	}, errTidyExited, func(value any, stack []byte) error {
		return &PanicError{Value: value, Stack: stack}
	})
}
