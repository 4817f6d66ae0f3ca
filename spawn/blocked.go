package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Blocked returns the blocked deliveries of all trees on record: those that are not tried again
// until [Supervisor.Retry] or [Supervisor.Dismiss] is called. A tree that no call has touched in
// this process is read and not opened. The list beside an error lacks the deliveries of the trees
// that cannot be read. The error joins those of the trees, and is that of the journal if that
// cannot list them.
func (s *Supervisor) Blocked(ctx context.Context) (list []Delivery, err error) {
	err = s.eachOutbox(ctx, func(_ session.Key, outbox []Delivery) bool {
		for _, out := range outbox {
			if !out.Blocked.IsZero() {
				list = append(list, out)
			}
		}
		return true
	})
	return list, err
}

// Retry makes the blocked delivery with a key due again. It opens no tree except that of the
// delivery. The error is [ErrNotFound] if no tree has the delivery or it is not blocked, those of
// the trees that cannot be read if it may be in one of them, or one that every command can return.
func (s *Supervisor) Retry(ctx context.Context, key string) error {
	return s.settleBlocked(ctx, key, SettleRetry)
}

// Dismiss gives the blocked delivery with a key up. It opens no tree except that of the delivery.
// The errors are those of [Supervisor.Retry].
func (s *Supervisor) Dismiss(ctx context.Context, key string) error {
	return s.settleBlocked(ctx, key, SettleDismiss)
}

// settleBlocked retries or dismisses a blocked delivery.
func (s *Supervisor) settleBlocked(ctx context.Context, key string, how Settlement) error {
	var root session.Key
	err := s.eachOutbox(ctx, func(of session.Key, outbox []Delivery) bool {
		for _, out := range outbox {
			if out.Key == key {
				root = of
			}
		}
		return root.IsZero()
	})
	var ord uint32
	if root.IsValid() { // then trees that cannot be read do not matter
		err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
			if e := entryWithKey(t, key); e != nil {
				ord = e.Ord
			}
		})
	}
	if err != nil {
		return err
	}
	if ord == 0 {
		return fmt.Errorf("%w: delivery %s", ErrNotFound, text.Quote(key))
	}
	return repeatable(s.do(ctx, root, how.command(ord), nil), repeatAsIs)
}

// entryWithKey returns the entry of a tree's outbox that has a key, or nil.
func entryWithKey(t *tree.Tree, key string) (found *tree.Entry) {
	t.Outbox(func(e *tree.Entry) {
		if deliveryKey(t, e.Ord) == key {
			found = e
		}
	})
	return found
}

// eachOutbox calls f with each outbox on record that is not empty, until f returns false. The error
// joins those of the trees that cannot be read.
func (s *Supervisor) eachOutbox(
	ctx context.Context, f func(root session.Key, outbox []Delivery) bool,
) error {
	var errs []error
	stopped := func() error { // why nothing can be read any more
		select {
		case <-s.closed:
			return ErrShutdown
		default:
			return context.Cause(ctx)
		}
	}
	if err := stopped(); err != nil {
		return err
	}
	for head, err := range s.journal.Roots(ctx, session.RootQuery{}) {
		var outbox []Delivery
		if err == nil && isTree(head.Root) {
			outbox, err = s.readOutbox(ctx, head.Root)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if err := stopped(); err != nil {
			return err
		}
		if len(outbox) > 0 && !f(head.Root, outbox) {
			break
		}
	}
	return errors.Join(errs...)
}

// readOutbox returns the outbox of a tree: from its owner if this process has one, else from its
// journal.
func (s *Supervisor) readOutbox(ctx context.Context, root session.Key) ([]Delivery, error) {
	s.mu.Lock()
	touched := s.shells[root] != nil
	s.mu.Unlock()
	if touched {
		return s.Outbox(ctx, root)
	}
	v, err := View(root, s.journal.Read(ctx, root, 0))
	if err != nil {
		return nil, err
	}
	var list []Delivery
	for _, e := range v.Outbox {
		list = append(list, e.Delivery)
	}
	return list, nil
}
