package spawn

import (
	"context"
	"time"

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

// Unbind unbinds a conversation from the session key, and returns when that is durable. The reason
// is one of the words of a reason of package session/binding. Of a conversation that is not bound
// to the session, or of a session that is not on record, Unbind changes nothing. The error is an
// *[InputError] for an empty reason, or one that every command can return.
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
