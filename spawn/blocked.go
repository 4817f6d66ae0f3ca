package spawn

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Blocked returns the deliveries of all trees on record that have been given up until somebody retries or dismisses them. A tree that
// nobody has touched in this process is looked at and not opened.
func (s *Supervisor) Blocked(ctx context.Context) (list []Outgoing, err error) {
	err = s.outboxes(ctx, func(_ session.Key, outbox []Outgoing) bool {
		for _, out := range outbox {
			if !out.Blocked.IsZero() {
				list = append(list, out)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Retry makes a blocked delivery due again. It opens no other tree than that of the delivery.
func (s *Supervisor) Retry(ctx context.Context, key string) error {
	return s.blocked(ctx, key, func(ord uint32) tree.Command { return tree.Retry{Ord: ord} })
}

// Dismiss gives a blocked delivery up. It opens no other tree than that of the delivery.
func (s *Supervisor) Dismiss(ctx context.Context, key string) error {
	return s.blocked(ctx, key, func(ord uint32) tree.Command { return tree.Dismiss{Ord: ord} })
}

func (s *Supervisor) blocked(ctx context.Context, key string, cmd func(ord uint32) tree.Command) error {
	var root session.Key
	err := s.outboxes(ctx, func(of session.Key, outbox []Outgoing) bool {
		for _, out := range outbox {
			if out.Key == key {
				root = of
			}
		}
		return root.IsZero()
	})
	if err != nil {
		return err
	}
	var ord uint32
	if root.IsValid() {
		err = s.home(root).owner.Do(ctx, nil, func(t *tree.Tree, _ tree.Reply) {
			t.Outbox(func(e *tree.Entry) {
				if deliveryKey(t, e) == key {
					ord = e.Ord
				}
			})
		})
		if err != nil {
			return err
		}
	}
	if ord == 0 {
		return fmt.Errorf("spawn: delivery %q: %w", key, ErrNotFound)
	}
	return s.home(root).owner.Do(ctx, cmd(ord), nil)
}

// outboxes calls f with the outbox of each tree on record until it returns false.
func (s *Supervisor) outboxes(ctx context.Context, f func(root session.Key, outbox []Outgoing) bool) error {
	for head, err := range s.cfg.Store.Journal.Roots(ctx, session.RootQuery{}) {
		if err != nil {
			return err
		}
		if !isTree(head.Root) {
			continue
		}
		outbox, err := s.lookOut(ctx, head.Root)
		if err != nil {
			return err
		}
		if !f(head.Root, outbox) {
			return nil
		}
	}
	return nil
}

// lookOut returns the outbox of a tree: of its owner in this process, if it has one, else of its journal.
func (s *Supervisor) lookOut(ctx context.Context, root session.Key) ([]Outgoing, error) {
	s.mu.Lock()
	touched := s.homes[root] != nil
	s.mu.Unlock()
	if touched {
		return s.Outbox(ctx, root)
	}
	v, err := View(root, s.cfg.Store.Journal.Read(ctx, root, 0))
	if err != nil {
		return nil, err
	}
	var list []Outgoing
	for _, e := range v.Outbox {
		list = append(list, e.Outgoing)
	}
	return list, nil
}
