package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/owner"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Settlement says what becomes of a blocked delivery. The zero Settlement is not valid.
type Settlement uint8

// The settlements.
const (
	SettleRetry   Settlement = iota + 1 // the delivery is tried again
	SettleDismiss                       // the delivery is given up
)

var settlementNames = [...]string{"none", "retry", "dismiss"}

// String returns "retry" or "dismiss".
func (how Settlement) String() string { return enum.String(settlementNames[:], "Settlement", how) }

// command returns the command that settles the entry of a tree's outbox with an ordinal.
func (how Settlement) command(ord uint32) tree.Command {
	if how == SettleRetry {
		return tree.Retry{Ord: ord}
	}
	return tree.Dismiss{Ord: ord}
}

// A NotBlockedError says that a delivery is not blocked, so that there is nothing to settle.
type NotBlockedError struct {
	Key  string      // of the delivery
	Root session.Key // of its tree
	Due  time.Time   // when it is tried next: at once if that time is past
}

func (e *NotBlockedError) Error() string {
	return fmt.Sprintf("spawn: delivery %s of %q is not blocked: it is tried at %s",
		text.Quote(e.Key), e.Root, e.Due.UTC().Format(time.RFC3339))
}

// An AmbiguousError says that several trees have a delivery with the same key. Keys are random, so
// that does not happen to trees that Supervisors wrote.
type AmbiguousError struct {
	Key   string        // of the delivery
	Roots []session.Key // of the trees, sorted by their text
}

func (e *AmbiguousError) Error() string {
	roots := make([]string, len(e.Roots))
	for i, root := range e.Roots {
		roots[i] = root.String()
	}
	return fmt.Sprintf("spawn: delivery %s is ambiguous: it is in the trees %s",
		text.Quote(e.Key), strings.Join(roots, ", "))
}

// Settle retries or dismisses a blocked delivery of a store that no Supervisor has open, for tools.
// A program with a Supervisor calls [Supervisor.Retry] or [Supervisor.Dismiss] instead. Key is the
// Key of the [Delivery].
//
// Settle looks for the delivery in every tree of the store and takes over the tree that has it, and
// no other, for this one command. The facts of taking it over, among them the end of turns whose
// process is gone, and the settlement itself are one batch: either all of them are recorded or
// none. Settle starts no turn, delivers nothing and archives nothing. The tree is due at once, so
// that the next Supervisor opens it as soon as it runs.
//
// In a store with Owners, which several processes share, Settle claims the tree for that moment. A
// tree that another process has is left alone: the error is [session.ErrOwned] then. A tree that a
// Supervisor of the same process has is not: the claim is that of the process, and is given up
// after it. The Supervisor loses the tree as with another store, see below.
//
// The caller must have opened the store for writing, and no Supervisor may use it meanwhile. The
// lock of a directory keeps other processes out. With another store, a Supervisor that owns the
// tree loses it at its next append: its turns are cancelled, and it takes the tree back when the
// next command comes. With a store that was opened for reading, an error that is
// [session.ErrReadOnly] says that there is a delivery to settle.
//
// Settle returns when the delivery is settled and recorded. Its errors, beside those of the store,
// are
//
//   - an *[InputError] for a store without a Journal or a how that is not valid;
//   - [ErrNotFound] if no tree has the delivery, joined with the errors of the trees that cannot
//     be read. Trees that cannot be read do not matter if another one has the delivery;
//   - a *[NotBlockedError] if the delivery is not blocked;
//   - an *[AmbiguousError] if several trees have the delivery;
//   - [ErrNotRecorded] if the journal failed, or another owner took the tree over, and nothing was
//     recorded. Settle may be called again;
//   - [ErrUnconfirmed] if it is not known whether something was. Settle may be called again: then
//     a retry that was recorded is a *NotBlockedError, and a dismissal ErrNotFound.
//
// No error but the last one leaves anything changed. If ctx ends, Settle returns as soon as the
// journal does.
func Settle(ctx context.Context, store *session.Store, key string, how Settlement) error {
	switch {
	case store == nil || store.Journal == nil:
		return &InputError{Field: "store", Reason: "it is missing, or has no Journal"}
	case how != SettleRetry && how != SettleDismiss:
		return &InputError{Field: "how", Reason: how.String() + " is not a settlement"}
	}
	journal := owner.Guard(store.Journal)
	found, err := findBlocked(ctx, journal, key)
	if err != nil {
		return err
	}
	err = decideOnce(ctx, store.Owners, journal, found.root, how.command(found.ord))
	if errors.Is(err, session.ErrReadOnly) {
		return fmt.Errorf("spawn: %v delivery %s of %q: %w", how, text.Quote(key), found.root,
			session.ErrReadOnly)
	}
	return err
}

// outboxPlace is where a delivery stands.
type outboxPlace struct {
	root session.Key
	ord  uint32
}

// findBlocked returns where the blocked delivery with a key stands.
func findBlocked(
	ctx context.Context, j session.Journal, key string,
) (found outboxPlace, err error) {
	var roots []session.Key
	var unread []error
	var pending *NotBlockedError
	for head, err := range j.Roots(ctx, session.RootQuery{}) {
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		var entry *tree.Entry
		if err == nil && isTree(head.Root) {
			entry, err = findEntry(ctx, j, head.Root, key)
		}
		switch {
		case err != nil:
			unread = append(unread, err)
		case entry == nil:
		default:
			roots, found = append(roots, head.Root), outboxPlace{head.Root, entry.Ord}
			if entry.Blocked == 0 {
				pending = &NotBlockedError{Key: key, Root: head.Root, Due: timeOf(entry.Due)}
			}
		}
	}
	switch {
	case len(roots) > 1:
		slices.SortFunc(roots, func(a, b session.Key) int {
			return strings.Compare(a.String(), b.String())
		})
		return found, &AmbiguousError{Key: key, Roots: roots}
	case len(roots) == 0:
		missing := fmt.Errorf("%w: delivery %s", ErrNotFound, text.Quote(key))
		return found, errors.Join(append([]error{missing}, unread...)...)
	case pending != nil:
		return found, pending
	}
	return found, nil
}

// findEntry reads a tree and returns the entry of its outbox that has a key, or nil.
func findEntry(
	ctx context.Context, j session.Journal, root session.Key, key string,
) (*tree.Entry, error) {
	v := viewer{root: root}
	if err := v.read(j.Read(ctx, root, 0)); err != nil {
		return nil, err
	}
	return entryWithKey(v.tree, key), nil
}

// decideOnce takes a tree over, has one command decided, and leaves the tree. With owners, which
// may be nil, it claims the tree for that.
func decideOnce(
	ctx context.Context, owners session.Owners, j session.Journal, root session.Key,
	cmd tree.Command,
) error {
	var working sync.WaitGroup
	defer working.Wait() // the owner may work after its answer, and the caller may close the store
	idle, ids := func() bool { return false }, newIDSource()
	cfg := &owner.Config{
		Journal: dueAtOnce{j}, Lane: owner.NewLane(1, 1), Writer: session.NewID(),
		NewID: ids.newID, Rand: ids.rand, Active: idle, Awake: idle, Fatal: func(error) {},
		Go: func(drain func(owner.Goroutine)) bool {
			working.Go(func() { drain(nil) })
			return true
		},
		Context: func() context.Context { return ctx },
		// With CallerRun the owner leaves the outbox as it is. If the next Supervisor has no
		// CallerRun, it redirects the completions that are still there, as it does with its own.
		Options: &tree.Options{
			Rules: &policy.Rules{}, CallerRun: true, Replies: true, Grace: DefaultGrace,
			Unbinds: true, // what is to be unbound is left to the next Supervisor, too
			Ends:    true, // so is what a hook is to be told
		},
	}
	if owners != nil {
		cfg.Claims = &briefClaim{owners: owners}
	}
	o := owner.New(cfg, root, noEffects{})
	// The appends end with ctx. That the call does not makes its answer certain.
	return o.Do(context.WithoutCancel(ctx), cmd, nil)
}

// dueAtOnce is a Journal whose trees are due when something was appended. The next Supervisor,
// which knows its configuration, sees what there is to do, such as the archive of a run that was
// kept for its delivery alone.
type dueAtOnce struct{ session.Journal }

// Append implements session.Journal.
func (j dueAtOnce) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	b.Due = tree.DueNow
	return j.Journal.Append(ctx, root, after, b)
}

// noEffects is an owner.Executor that performs no effect.
type noEffects struct{}

func (noEffects) Cancel(*tree.Run, uint32)              {}
func (noEffects) Free(*tree.Run, uint32) bool           { return false }
func (noEffects) Recall(tree.Destination)               {}
func (noEffects) Archive(uint64, *tree.Tree, *tree.Run) {}
func (noEffects) Restore(uint64, *tree.Run)             {}
func (noEffects) Answer(string, error)                  {}
func (noEffects) Tidy(*tree.Run)                        {}
func (noEffects) Drop(uint64, tree.DroppedDeposit)      {}

func (noEffects) Start(owner.Goroutine, uint64, *tree.Tree, *tree.Run) {}

func (noEffects) Deliver(owner.Goroutine, uint64, *tree.Tree, *tree.Entry, bool) {}

func (noEffects) Unbind(uint64, *tree.Run, session.Route, string) {}

func (noEffects) Round(*tree.Tree, owner.Place) {}
func (noEffects) Lost(error, bool)              {}
func (noEffects) Owned(error)                   {}
func (noEffects) Stalled(error)                 {}
func (noEffects) Rested()                       {}

func (noEffects) Publish(
	owner.Goroutine, *tree.Tree, session.Seq, owner.Place, []tree.Fact,
) {
}
