package spawn

import (
	"context"
	"errors"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A BoundSession is a conversation that is bound to a session of a tree.
type BoundSession struct {
	Session session.Key
	Route   session.Route
	Since   time.Time
}

// An UnbindRequest says that a conversation is to be bound to a session no longer.
type UnbindRequest struct {
	Root    session.Key // of the tree
	Session session.Key
	Route   session.Route
	// Reason is why, as one of the words of a reason of package session/binding.
	Reason string
}

// Bind binds a conversation to the session key, and returns when that is durable. What is posted
// there with Incoming.Thread goes to the session from then on, and is answered there. A session may
// have several conversations. One that it has is accepted and changes nothing.
//
// A session to which a conversation is bound is not archived. A sub-agent keeps it until
// [Supervisor.Unbind], or until it is to be unbound, see Config.Unbind.
//
// The tree does not know what other trees have. Package session/binding keeps which session a
// conversation leads to. Bind comes before an entry there, and the end of one before Unbind.
//
// The error is [ErrNotFound] for a session that is not on record, [session.ErrArchived] for one
// that is being archived, [ErrEnded] if a session above it has ended or its first turn never began,
// an *[InputError] or *[LimitError] for a route without a channel or a recipient, that is not
// Clean, or whose parts are too long, or one that every command can return.
func (s *Supervisor) Bind(
	ctx context.Context, root, key session.Key, route session.Route,
) error {
	return repeatable(s.do(ctx, root, &tree.Bind{Run: key, Route: route}, nil), repeatAsIs)
}

// CanBind returns why [Supervisor.Bind] would refuse to bind a conversation to the session key, or
// why the session would not take a message of it now, or nil. It changes nothing. Beside the errors
// of Bind, which look at no route here, the error is [ErrStopping] for a run that is to end, and a
// *[policy.Refusal] or a *[CallbackError] if the rules of this moment do not admit another run of a
// session that has ended.
func (s *Supervisor) CanBind(ctx context.Context, root, key session.Key) error {
	cmd := &tree.Bind{Run: key, Dry: true}
	for {
		err := s.do(ctx, root, cmd, nil)
		if err == nil {
			return nil
		}
		if err = s.answerAll(ctx, key, err, &cmd.Answers); err != nil {
			return repeatable(err, repeatAsIs)
		}
	}
}

// Unbind unbinds a conversation from the session key, and returns when that is durable. The reason
// is one of the words of a reason of package session/binding. Of a conversation that is not bound
// to the session, or of a session that is not on record, Unbind changes nothing. The error is an
// *[InputError] for a reason that is not a line of text of at most 100 bytes, or one that every
// command can return.
func (s *Supervisor) Unbind(
	ctx context.Context, root, key session.Key, route session.Route, reason string,
) error {
	cmd := &tree.Unbind{Run: key, Route: route, Reason: tree.Text(reason)}
	return repeatable(s.do(ctx, root, cmd, nil), repeatAsIs)
}

// Bindings returns the conversations that are bound to sessions of a tree, parents first and the
// oldest of each session first. The error is one that every call that reads can return.
func (s *Supervisor) Bindings(
	ctx context.Context, root session.Key,
) (list []BoundSession, err error) {
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
		t.Walk(func(r *tree.Run) {
			for _, c := range r.Bound {
				list = append(list, BoundSession{r.Key(), c.Route, timeOf(c.At)})
			}
		})
	})
	return list, err
}

// IsBound reports whether a conversation is bound to a session of a tree: whether
// [Supervisor.Bindings] has it. The error is one that every call that reads can return.
func (s *Supervisor) IsBound(
	ctx context.Context, root, key session.Key, route session.Route,
) (bound bool, err error) {
	err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) { bound = t.IsBound(key, route) })
	return bound, err
}

var errUnbindExited = errors.New("spawn: Config.Unbind ended its goroutine")

// Unbind implements owner.Executor.
func (sh *treeShell) Unbind(gen uint64, r *tree.Run, route session.Route, reason string) {
	u := &UnbindRequest{Root: sh.owner.Root(), Session: r.Key(), Route: route, Reason: reason}
	sh.setUnbinds(u, true)
	started := sh.beside(sh.hold(), func(ctx context.Context, may error) {
		err := may
		if may == nil {
			err = sh.callUnbind(ctx, u)
		}
		sh.setUnbinds(u, false)
		sh.owner.Send(gen, &tree.UnbindDone{
			Run: u.Session, Route: route, Reason: tree.Text(reason), Failed: err != nil,
		})
		if err != nil && ctx.Err() == nil { // else the next owner unbinds it
			sh.sup.log.Warn("offshoot: unbinding a conversation failed",
				"session", u.Session.String(), "error", sh.sup.errorText(err))
		}
	})
	if !started {
		sh.setUnbinds(u, false)
	}
}

// setUnbinds notes that a call of Config.Unbind begins, or that it is over.
func (sh *treeShell) setUnbinds(u *UnbindRequest, begins bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if begins {
		few.Put(&sh.unbinds, u, struct{}{})
	} else {
		delete(sh.unbinds, u)
	}
}

// callUnbind calls Config.Unbind, whose context ends after the time that a delivery may take. There
// is no further call before this one has returned, so that one that hangs is told of in the log.
func (sh *treeShell) callUnbind(ctx context.Context, u *UnbindRequest) error {
	limit, m := sh.sup.cfg.DeliverTimeout, markOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	hangs := time.AfterFunc(limit+returnWithin, func() {
		sh.sup.workers.markHangs(m)
		sh.sup.log.Warn("offshoot: Config.Unbind has not returned in its time",
			"session", u.Session.String())
	})
	defer hangs.Stop()
	request := *u
	return contain.Call(func() error {
		return sh.sup.cfg.Unbind(ctx, request)
	}, errUnbindExited, func(value any, stack []byte) error {
		return &PanicError{Value: value, Stack: stack}
	})
}
