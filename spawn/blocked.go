package spawn

import (
	"context"
	"errors"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Blocked returns the deliveries of all trees on record that have been given up until somebody retries or dismisses them. A tree that
// nobody has touched in this process is looked at and not opened. A list beside an error lacks those of trees that cannot be read.
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

// Retry makes a blocked delivery due again. It opens no other tree than that of the delivery.
func (s *Supervisor) Retry(ctx context.Context, key string) error {
	return s.settleBlocked(ctx, key, SettleRetry)
}

// Dismiss gives a blocked delivery up. It opens no other tree than that of the delivery.
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
	if root.IsValid() { // whatever else cannot be read
		err = s.shellOf(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
			t.Outbox(func(e *tree.Entry) {
				if deliveryKey(t, e) == key {
					ord = e.Ord
				}
			})
		})
	}
	if err != nil {
		return err
	}
	if ord == 0 {
		return fmt.Errorf("%w: delivery %q", ErrNotFound, key)
	}
	return s.shellOf(root).owner.Do(ctx, how.command(ord), nil)
}

// eachOutbox calls f with the outbox of each tree on record until it returns false. The error is what could not be read.
func (s *Supervisor) eachOutbox(ctx context.Context, f func(root session.Key, outbox []Delivery) bool) error {
	var errs []error
	for head, err := range s.cfg.Store.Journal.Roots(ctx, session.RootQuery{}) {
		var outbox []Delivery
		if err == nil && isTree(head.Root) {
			outbox, err = s.readOutbox(ctx, head.Root)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || len(outbox) > 0 && !f(head.Root, outbox) {
			break
		}
	}
	return errors.Join(errs...)
}

// readOutbox returns the outbox of a tree: of its owner in this process, if it has one, else of its journal.
func (s *Supervisor) readOutbox(ctx context.Context, root session.Key) ([]Delivery, error) {
	s.mu.Lock()
	touched := s.shells[root] != nil
	s.mu.Unlock()
	if touched {
		return s.Outbox(ctx, root)
	}
	v, err := View(root, s.cfg.Store.Journal.Read(ctx, root, 0))
	if err != nil {
		return nil, err
	}
	var list []Delivery
	for _, e := range v.Outbox {
		list = append(list, e.Delivery)
	}
	return list, nil
}
