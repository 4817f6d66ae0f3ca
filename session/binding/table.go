package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// touchEvery is how much later a touch must be than the last one that was written for it to be written as well. A crash forgets no
// more than that, which shortens an idle limit and never lengthens it.
const touchEvery = 15 * time.Second

// Bindings are the thread bindings of all trees, kept in a log of their own under [BindingsRoot]: a conversation may be bound to any
// session, whatever its tree, and so no tree could guard that it is bound to one only.
//
// Each change is decided against the log as it stands and appended only if it still stands so, so that of two processes that bind one
// conversation at once, one wins and the other is told. Lookups answer from memory, and see what other processes have changed after the
// next change or [Bindings.Refresh]. Whether a binding has expired is decided when it is looked up; nothing runs in the background. All
// methods may be called from many goroutines at once.
type Bindings struct {
	journal Journal
	turn    chan struct{} // holds one token; whoever has it may change what is below

	mu    sync.RWMutex // held to write, in addition to the turn, and to read without it
	table *bindingTable
	last  Seq
	stale bool // the log may hold more than the table
}

// OpenBindings reads the log of bindings. It refuses a log that a newer version has written.
func OpenBindings(ctx context.Context, j Journal) (*Bindings, error) {
	if j == nil {
		return nil, errors.New("session: bindings: journal is nil")
	}
	b := &Bindings{journal: j, turn: make(chan struct{}, 1), table: newBindingTable()}
	b.turn <- struct{}{}
	if err := b.Refresh(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// A BindRequest is what [Bindings.Bind] does.
type BindRequest struct {
	Conversation Route         // a channel, whom to, and the account and thread if there are any
	Target       Key           // the session
	By           string        // who asks, as the channel names people, or SystemOwner
	Label        string        // for people
	Idle         time.Duration // 0: no limit
	MaxAge       time.Duration // 0: no limit
	Replace      bool          // take the conversation from another session that it is bound to
}

// Bind binds a conversation to a session and returns the binding. One that is bound to the same session is bound anew. One that is
// bound to another session stays as it is, with an error that is [ErrBound], unless Replace is set and the one who asks may change the
// binding; who may not gets an error that is [ErrNotOwner]. Both are a *[BindingError].
func (b *Bindings) Bind(ctx context.Context, req BindRequest, now time.Time) (Binding, error) {
	made := Binding{
		Conversation: req.Conversation.Clean(), Target: req.Target, Label: req.Label, By: req.By, Bound: now, Touched: now,
		Idle: req.Idle, MaxAge: req.MaxAge,
	}
	err := b.change(ctx, now, func(t *bindingTable) ([]*bindingFact, error) { return t.decideBind(made, req.Replace, now) })
	if err != nil {
		return Binding{}, err
	}
	return made, nil
}

// Unbind ends the binding of a conversation and returns it. It returns an error that is [ErrNotFound] if there is none, and a
// *[BindingError] that is [ErrNotOwner] if the one who asks may not change it.
func (b *Bindings) Unbind(ctx context.Context, conversation Route, by string, why UnbindReason, now time.Time) (Unbound, error) {
	var ended Unbound
	err := b.change(ctx, now, func(t *bindingTable) (facts []*bindingFact, err error) {
		facts, ended, err = t.decideUnbind(conversation.Clean(), by, why, now)
		return facts, err
	})
	if err != nil {
		return Unbound{}, err
	}
	return ended, nil
}

// Release ends every binding of a session, whoever made it, because the session has ended or is gone. It returns what it ended; none is
// no error.
func (b *Bindings) Release(ctx context.Context, target Key, why UnbindReason, now time.Time) ([]Unbound, error) {
	return b.end(ctx, now, func(t *bindingTable) []Unbound {
		var ended []Unbound
		for _, old := range t.of(target) {
			ended = append(ended, Unbound{Binding: old, Reason: why})
		}
		return ended
	})
}

// Expire ends every binding that has expired and returns what it ended, for a farewell. Routing does not need it: a lookup never
// returns a binding that has expired.
func (b *Bindings) Expire(ctx context.Context, now time.Time) ([]Unbound, error) {
	return b.end(ctx, now, func(t *bindingTable) []Unbound { return t.expired(now) })
}

// end is the change that Release and Expire have in common.
func (b *Bindings) end(ctx context.Context, now time.Time, choose func(*bindingTable) []Unbound) ([]Unbound, error) {
	var ended []Unbound
	err := b.change(ctx, now, func(t *bindingTable) ([]*bindingFact, error) {
		ended = choose(t)
		facts := make([]*bindingFact, len(ended))
		for i, u := range ended {
			facts[i] = unbound(u.Binding, u.Reason, now)
		}
		return facts, nil
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// Touch says that somebody wrote in a conversation, or was written to, at now. A time before the last touch changes nothing. It returns
// an error that is [ErrNotFound] if the conversation is not bound, or not any more.
func (b *Bindings) Touch(ctx context.Context, conversation Route, now time.Time) error {
	conversation = conversation.Clean()
	b.mu.Lock()
	write, err := b.table.touch(conversation, now)
	b.mu.Unlock()
	if err != nil || !write {
		return err
	}
	return b.change(ctx, now, func(t *bindingTable) ([]*bindingFact, error) {
		old, err := t.live(conversation, now)
		if err != nil || !old.Touched.After(t.bound[conversation].written) {
			return nil, err
		}
		return []*bindingFact{bound(old, now)}, nil
	})
}

// A Limit is a new limit for a binding; nil leaves the one that it has.
type Limit struct {
	Idle   *time.Duration // counts from now; 0: no limit
	MaxAge *time.Duration // counts from now; 0: no limit
}

// SetLimit gives new limits, which count from now, to the binding of a conversation, and to the others of the same session on the same
// channel and account that the one who asks may change. It returns them, or an error as [Bindings.Unbind] does.
func (b *Bindings) SetLimit(ctx context.Context, conversation Route, by string, limit Limit, now time.Time) ([]Binding, error) {
	var changed []Binding
	err := b.change(ctx, now, func(t *bindingTable) (facts []*bindingFact, err error) {
		facts, changed, err = t.decideLimit(conversation.Clean(), by, limit, now)
		return facts, err
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// limited returns b with new limits that count from now.
func (b Binding) limited(l Limit, now time.Time) Binding {
	if l.Idle != nil {
		b.Idle = *l.Idle
	}
	if l.MaxAge != nil {
		b.MaxAge, b.Bound = *l.MaxAge, now
	}
	if now.After(b.Touched) {
		b.Touched = now
	}
	return b
}

// Find returns the binding of a conversation, if it has one that has not expired at now.
func (b *Bindings) Find(conversation Route, now time.Time) (Binding, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	found, err := b.table.live(conversation.Clean(), now)
	return found, err == nil
}

// Of returns the bindings of a session that have not expired at now, in the order of their conversations.
func (b *Bindings) Of(target Key, now time.Time) []Binding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return unexpired(b.table.of(target), now)
}

// All returns the bindings that have not expired at now, in the order of their conversations.
func (b *Bindings) All(now time.Time) []Binding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return unexpired(b.table.all(), now)
}

func unexpired(bindings []Binding, now time.Time) []Binding {
	return slices.DeleteFunc(bindings, func(b Binding) bool {
		_, over := b.Expired(now)
		return over
	})
}

// Next returns when the first binding expires, zero if none does: when [Bindings.Expire] is next worth a call.
func (b *Bindings) Next() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.table.next()
}

// Refresh reads what others have appended to the log.
func (b *Bindings) Refresh(ctx context.Context) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.finish()
	_, err := b.catchUp(ctx, "")
	return err
}

func (b *Bindings) begin(ctx context.Context) error {
	select {
	case <-b.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session: bindings: %w", ctx.Err())
	}
}

func (b *Bindings) finish() { b.turn <- struct{}{} }

// change appends what decide says, or nothing. It decides again whenever somebody else was faster, and finds out by the batch's id
// whether an append whose answer is unclear was made.
func (b *Bindings) change(ctx context.Context, now time.Time, decide func(*bindingTable) ([]*bindingFact, error)) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.finish()
	for {
		if b.stale {
			if _, err := b.catchUp(ctx, ""); err != nil {
				return err
			}
		}
		batch, err := b.decide(now, decide)
		if err != nil || len(batch.Entries) == 0 {
			return err
		}
		last, err := b.journal.Append(ctx, BindingsRoot(), b.last, batch)
		switch {
		case err == nil:
			return b.apply(batch.Entries, last)
		case errors.Is(err, ErrConflict):
			b.stale = true
		default:
			b.stale = true
			if found, readErr := b.catchUp(ctx, batch.ID); readErr != nil || !found {
				return fmt.Errorf("session: bindings: %w", err)
			}
			return nil
		}
	}
}

// decide returns the batch of facts to append, with a snapshot before them if the log has grown long. It is empty if there are none.
func (b *Bindings) decide(now time.Time, decide func(*bindingTable) ([]*bindingFact, error)) (Batch, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	facts, err := decide(b.table)
	if err != nil || len(facts) == 0 {
		return Batch{}, err
	}
	batch := Batch{ID: BatchID("bindings-" + NewID())}
	if b.table.long() {
		batch.Reset = true
		facts = append([]*bindingFact{b.table.snapshot(now)}, facts...)
	}
	for _, f := range facts {
		batch.Entries = append(batch.Entries, Entry{Payload: f})
	}
	return batch, nil
}

// apply adds entries of the log, the last of which has the sequence last, to the table.
func (b *Bindings) apply(entries []Entry, last Seq) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		f, err := readBindingFact(e)
		if err != nil {
			return err
		}
		b.table.apply(f)
	}
	b.last = last
	return nil
}

// catchUp reads what the log holds beyond the table, and reports whether the batch called id is among it.
func (b *Bindings) catchUp(ctx context.Context, id BatchID) (found bool, err error) {
	for e, err := range b.journal.Read(ctx, BindingsRoot(), b.last) {
		if err != nil {
			return false, fmt.Errorf("session: bindings: %w", err)
		}
		if err := b.apply([]Entry{e}, e.Seq); err != nil {
			return false, err
		}
		found = found || id != "" && e.Batch == id
	}
	b.stale = false
	return found, nil
}
