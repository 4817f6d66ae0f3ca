package spawn

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// Blocked returns the blocked deliveries of all trees on record: those that are not tried again
// until [Supervisor.Retry] or [Supervisor.Dismiss] is called. A tree that is not in memory is read
// and not opened. The list beside an error lacks the deliveries of the trees that cannot be read.
// The error joins those of the trees, and is that of the journal if that cannot list them.
func (s *Supervisor) Blocked(ctx context.Context) (list []Delivery, err error) {
	err = s.eachTree(ctx, func(t *tree.Tree) bool {
		t.Outbox(func(e *tree.Entry) {
			if e.Blocked > 0 {
				list = append(list, deliveryOf(t, e))
			}
		})
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
	err := s.eachTree(ctx, func(t *tree.Tree) bool {
		if entryWithKey(t, key) != nil {
			root = t.Root().Key()
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
