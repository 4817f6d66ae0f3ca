package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// settleBlocked retries or dismisses a delivery as the owner of its tree. It looks first, so that it takes over that tree alone, and
// only if there is something to settle. The next process that runs the bot delivers.
func settleBlocked(ctx context.Context, o stateOptions, now time.Time) (text string, err error) {
	key := o.retry + o.dismiss // one of them is empty
	root, err := treeOfBlocked(ctx, o.dir, key, now)
	if err != nil {
		return "", err
	}
	store, err := dirstore.Open(o.dir)
	if err != nil {
		return "", fmt.Errorf("nothing was changed: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sup, err := spawn.Open(ctx, passive(&oneTree{Journal: store.Journal, root: root, now: now}))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, sup.Shutdown(ctx)) }()
	settle, done := sup.Dismiss, "dismissed\n"
	if o.retry != "" {
		settle, done = sup.Retry, "it is tried again when the bot runs\n"
	}
	if err := settle(ctx, key); err != nil {
		return "", err
	}
	return done, nil
}

// treeOfBlocked returns the tree that a blocked delivery wants to leave.
func treeOfBlocked(ctx context.Context, dir, key string, now time.Time) (root session.Key, err error) {
	store, err := viewState(dir)
	if err != nil {
		return root, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var found []string
	var bad []error
	for v, err := range trees(ctx, store) {
		if err != nil {
			bad = append(bad, err)
		}
		for _, e := range v.Outbox {
			if e.Key != key {
				continue
			}
			if e.Blocked.IsZero() {
				return root, fmt.Errorf("delivery %q is not blocked: it is tried by itself, %s", key, dueText(e.Due, now))
			}
			root = v.Root
			found = append(found, v.Root.String())
		}
	}
	switch {
	case len(found) == 0:
		return root, errors.Join(append([]error{fmt.Errorf("no delivery %q: it has arrived or been dismissed, or the key is another one", key)}, bad...)...)
	case len(found) > 1:
		return root, fmt.Errorf("delivery %q is ambiguous, nothing was changed: it is in the trees %s", key, strings.Join(found, " and "))
	}
	return root, nil
}

// passive configures a Supervisor that nobody runs: it starts no turn, delivers nothing, and archives nothing.
func passive(j session.Journal) spawn.Config {
	return spawn.Config{
		Store: &session.Store{Journal: j}, Runner: nobody{}, CallerRun: true, Replies: true,
		Deliver: func(context.Context, spawn.Delivery) error { return errNobody },
		Rules:   policy.Rules{Subagents: policy.Subagents{ArchiveAfter: policy.Off}},
	}
}

var errNobody = errors.New("inspect delivers nothing")

type nobody struct{}

func (nobody) RunTurn(context.Context, *spawn.TurnInput) (spawn.TurnResult, error) {
	return spawn.TurnResult{}, errNobody
}

// oneTree is a Journal that has one tree of another one. What is written to it is due at once: the bot, which knows its configuration,
// has to see what there is to do next, such as the archive of a run that was only kept for a delivery.
type oneTree struct {
	session.Journal

	root session.Key
	now  time.Time
}

// Append implements session.Journal.
func (j *oneTree) Append(ctx context.Context, root session.Key, after session.Seq, b session.Batch) (session.Seq, error) {
	b.Due = j.now
	return j.Journal.Append(ctx, root, after, b)
}

// Roots implements session.Journal.
func (j *oneTree) Roots(ctx context.Context, q session.RootQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		for h, err := range j.Journal.Roots(ctx, q) {
			if (err != nil || h.Root == j.root) && !yield(h, err) {
				return
			}
		}
	}
}
