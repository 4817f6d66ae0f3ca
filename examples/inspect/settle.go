package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// settleBlocked retries or dismisses a delivery, unless a bot has the directory open: then the bot
// knows more than the journal. It asks a view first, so that it opens the directory only if there
// is something to settle. The next process that runs the bot delivers.
func settleBlocked(ctx context.Context, o stateOptions, now time.Time) (text string, err error) {
	key, how, done := o.dismiss, spawn.SettleDismiss, "dismissed\n"
	if o.retry != "" {
		key, how, done = o.retry, spawn.SettleRetry, "it is tried again when the bot runs\n"
	}
	view, damage, err := viewState(o.dir)
	if err == nil && damage != nil {
		err = errors.Join(damage, view.Close())
	}
	if err != nil {
		return "", err
	}
	if err := dirstore.CheckFree(o.dir); err != nil {
		return "", errors.Join(unchanged(err), view.Close())
	}
	looked := errors.Join(spawn.Settle(ctx, view, key, how), view.Close())
	if !errors.Is(looked, session.ErrReadOnly) {
		return "", unsettled(looked, key, now)
	}
	store, err := dirstore.Open(o.dir)
	if err != nil {
		return "", unchanged(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := spawn.Settle(ctx, store, key, how); err != nil {
		return "", unsettled(err, key, now)
	}
	return done, nil
}

// unchanged says why a directory cannot be changed.
func unchanged(err error) error {
	if errors.Is(err, dirstore.ErrLocked) {
		return fmt.Errorf("a bot has the directory open, nothing was changed: %w", err)
	}
	return fmt.Errorf("nothing was changed: %w", err)
}

// unsettled says in the words of this program why a delivery cannot be settled.
func unsettled(err error, key string, now time.Time) error {
	var pending *spawn.NotBlockedError
	var ambiguous *spawn.AmbiguousError
	switch {
	case errors.As(err, &pending):
		due := dueText(pending.Due, now)
		return fmt.Errorf("delivery %q is not blocked: it is tried by itself, %s", key, due)
	case errors.As(err, &ambiguous):
		roots := make([]string, len(ambiguous.Roots))
		for i, root := range ambiguous.Roots {
			roots[i] = root.String()
		}
		where := strings.Join(roots, " and ")
		return fmt.Errorf("delivery %q is ambiguous, nothing was changed: it is in the trees %s",
			key, where)
	case errors.Is(err, spawn.ErrNotFound):
		missing := fmt.Errorf(
			"no delivery %q: it has arrived or been dismissed, or the key is another one", key,
		)
		return errors.Join(missing, unreadable(err))
	}
	return err
}

// unreadable returns the errors of trees that could not be read, which are joined after
// spawn.ErrNotFound.
func unreadable(err error) error {
	var bad []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if errors.Is(err, spawn.ErrNotFound) {
				err = unreadable(err)
			}
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}
