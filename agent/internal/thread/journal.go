package thread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A Journal is a store's, as a table of bindings uses it. A store that panics, or that ends its
// goroutine, has failed and nothing else.
//
// An append that fails is an error that is [spawn.ErrNotRecorded] if the log is known to be without
// the batch, and else [spawn.ErrUnconfirmed]. One of a [Command] that is patient is tried again
// first, for as long as the owner of a tree tries. What a Command whose caller has left did not
// begin to append, it does not append.
//
// A store that is closed, or that must be opened again, takes nothing any more. It is not asked
// what it has kept of a batch: it may not answer.
type Journal struct {
	session.Journal

	// Dead is called with the error of a store that takes nothing any more. Nil: it is not.
	Dead func(error)
	// Shared says that other processes append to the log, so that each command reads it first: for
	// a Command that is patient a read that fails is tried again, too.
	Shared bool
}

// The pauses before an append is tried again, each twice as long as the one before, and how many
// there are: those of the owner of a tree.
const (
	firstRetry = 50 * time.Millisecond
	retries    = 5
)

// Append implements session.Journal.
func (j Journal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	c := commandOf(ctx)
	for pause, tries := firstRetry, 0; ; pause, tries = 2*pause, tries+1 {
		if !c.begins() {
			return 0, fmt.Errorf("%w: %w", spawn.ErrNotRecorded, context.Cause(ctx))
		}
		seq, err := j.append(ctx, root, after, b)
		if err == nil {
			return seq, nil
		}
		if j.isDead(err) {
			if errors.Is(err, session.ErrSync) || tries > 0 { // there may be an attempt before
				return 0, fmt.Errorf("%w: %w", spawn.ErrUnconfirmed, err)
			}
			c.notIn()
			return 0, fmt.Errorf("%w: %w", spawn.ErrNotRecorded, err)
		}
		found, absent, unread := j.find(ctx, root, after, b.ID)
		if found > 0 {
			return found, nil
		}
		conflict := errors.Is(err, session.ErrConflict)
		switch {
		case conflict && (unread == nil || tries == 0):
			c.notIn()
			return 0, err // the table reads the log and decides again
		case conflict: // maybe with an attempt before
			err = unread
		}
		// Nothing in the log does not mean that an append which ctx has cut off is over. A journal
		// that refuses a batch has added nothing.
		refused := errors.Is(err, session.ErrInvalidBatch)
		absent = absent && ctx.Err() == nil || refused && tries == 0
		if absent {
			c.notIn()
		}
		again := c.isPatient() && tries < retries && !refused
		if again && waits(ctx, pause) {
			continue
		}
		if absent {
			return 0, fmt.Errorf("%w: %w", spawn.ErrNotRecorded, err)
		}
		return 0, fmt.Errorf("%w: %w", spawn.ErrUnconfirmed, err)
	}
}

// isDead reports whether an error says that the store takes nothing any more, and tells it to Dead.
func (j Journal) isDead(err error) bool {
	if !errors.Is(err, session.ErrSync) && !errors.Is(err, session.ErrClosed) {
		return false
	}
	if j.Dead != nil {
		j.Dead(err)
	}
	return true
}

// waits waits for a time, and reports whether ctx has not ended before.
func waits(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// append asks the store.
func (j Journal) append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (seq session.Seq, err error) {
	err = contained(func() (err error) {
		seq, err = j.Journal.Append(ctx, root, after, b)
		return err
	})
	return seq, err
}

// find looks for a batch behind an entry of a log. It returns the sequence number of the last entry
// of the batch if the log has it, else 0, and absent if the log is known to be without it.
func (j Journal) find(
	ctx context.Context, root session.Key, after session.Seq, id session.BatchID,
) (last session.Seq, absent bool, err error) {
	first := session.Seq(0)
	for e, err := range j.Read(ctx, root, after) {
		if err != nil {
			return 0, false, err
		}
		if first == 0 {
			first = e.Seq
		}
		if e.Batch == id {
			last = e.Seq
		}
	}
	return last, last == 0 && (first == 0 || first == after+1), nil
}

// Read implements session.Journal. It has all entries before it yields the first one.
func (j Journal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		list, err := j.readAll(ctx, root, after)
		again := j.Shared && commandOf(ctx).isPatient()
		for pause, tries := firstRetry, 0; err != nil && again && tries < retries; tries++ {
			if j.isDead(err) || !waits(ctx, pause) {
				break
			}
			list, err = j.readAll(ctx, root, after)
			pause *= 2
		}
		if err != nil {
			j.isDead(err)
			yield(session.Entry{}, err)
			return
		}
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// readAll returns what a log has behind an entry.
func (j Journal) readAll(
	ctx context.Context, root session.Key, after session.Seq,
) (list []session.Entry, err error) {
	err = contained(func() error {
		list = nil
		for e, err := range j.Journal.Read(ctx, root, after) {
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	return list, err
}

var errStoreExited = errors.New("agent: the store ended its goroutine")

// contained calls f, which asks the store. What a panic says, such as that there was a conflict, is
// not what the store says. A store does not say either that no conversation is bound.
func contained(f func() error) error {
	return contain.Foreign(contain.Call(f, errStoreExited, func(value any, stack []byte) error {
		p := &spawn.PanicError{Value: value, Stack: stack}
		return contain.Foreign(p, session.ErrConflict, session.ErrInvalidBatch, session.ErrClosed,
			session.ErrSync)
	}), session.ErrNotFound, spawn.ErrNotFound, spawn.ErrNotRecorded, spawn.ErrUnconfirmed)
}

// A Command says what has become of a command that is sent to a table of bindings: whether its
// append may be in the log, and whether its caller has left, whichever came first. A nil Command is
// one that no caller leaves.
type Command struct {
	patient bool

	mu       sync.Mutex
	in, left bool
}

// NewCommand returns a Command. One that is patient is tried again when the store fails.
func NewCommand(patient bool) *Command { return &Command{patient: patient} }

// commandKey is the key under which the context of a command has the Command.
type commandKey struct{}

// Under returns a context under which a [Journal] appends for the Command.
func (c *Command) Under(ctx context.Context) context.Context {
	return context.WithValue(ctx, commandKey{}, c)
}

func commandOf(ctx context.Context) *Command {
	c, _ := ctx.Value(commandKey{}).(*Command)
	return c
}

func (c *Command) isPatient() bool { return c != nil && c.patient }

// begins reports whether the command may append, and notes that it may be in the log.
func (c *Command) begins() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = c.in || !c.left
	return !c.left
}

// notIn notes that the command is not in the log, unless it is appended again.
func (c *Command) notIn() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = c.in && c.left // who has left was told that it may be
}

// Leave notes that the caller has left because of err, and returns the error that says what that
// leaves: spawn.ErrUnconfirmed if the command may be in the log or come to be there, and else
// spawn.ErrNotRecorded.
func (c *Command) Leave(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	switch {
	case errors.Is(err, spawn.ErrNotRecorded), errors.Is(err, spawn.ErrUnconfirmed):
		return err
	case c.in:
		return fmt.Errorf("agent: %w: %w", spawn.ErrUnconfirmed, err)
	}
	return fmt.Errorf("agent: %w: %w", spawn.ErrNotRecorded, err)
}
