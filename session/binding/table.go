package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// touchEvery is how much later a touch must be than the last one that was written for it to be
// written as well. A crash forgets no more than that, which shortens an idle limit and never
// lengthens it.
const touchEvery = 15 * time.Second

// A Table is the thread bindings of all trees, kept in a log of their own under
// [session.BindingsRoot]: a conversation may be bound to any session, whatever its tree, and so no
// tree could guard that it is bound to one only.
//
// Each change is decided against the log as it stands and appended only if it still stands so, so
// that of two processes that bind one conversation at once, one wins and the other is told. Lookups
// answer from memory, and see what other processes have changed after the next change or
// [Table.Refresh]. Whether a binding has expired is decided when it is looked up; nothing runs in
// the background. All methods may be called from many goroutines at once.
type Table struct {
	journal session.Journal
	turn    chan struct{} // holds one token; its holder may change what is below

	mu    sync.RWMutex // held to write, in addition to the turn, and to read without it
	state *state
	last  session.Seq
	stale bool // the log may hold more than the table
}

// Open reads the log of bindings. It refuses a log that a newer version has written.
func Open(ctx context.Context, j session.Journal) (*Table, error) {
	if j == nil {
		return nil, errors.New("binding: journal is nil")
	}
	t := &Table{journal: j, turn: make(chan struct{}, 1), state: newState()}
	t.turn <- struct{}{}
	if err := t.Refresh(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// A Request is what [Table.Bind] does.
type Request struct {
	Conversation session.Route // a channel, whom to, and the account and thread if there are any
	Target       session.Key   // the session
	By           string        // who asks, as the channel names people, or SystemOwner
	Label        string        // for people
	Idle         time.Duration // 0: no limit
	MaxAge       time.Duration // 0: no limit
	Replace      bool          // take the conversation from another session that it is bound to
}

// Bind binds a conversation to a session and returns the binding. One that is bound to the same
// session is bound anew. One that is bound to another session stays as it is, with an error that is
// [ErrBound], unless Replace is set and the one who asks may change the binding; who may not gets
// an error that is [ErrNotOwner]. Both are an *[Error].
func (t *Table) Bind(ctx context.Context, req Request, now time.Time) (Binding, error) {
	made := Binding{
		Conversation: req.Conversation.Clean(), Target: req.Target, Label: req.Label, By: req.By, Bound: now, Touched: now,
		Idle: req.Idle, MaxAge: req.MaxAge,
	}
	err := t.change(ctx, now, func(s *state) ([]*fact, error) { return s.decideBind(made, req.Replace, now) })
	if err != nil {
		return Binding{}, err
	}
	return made, nil
}

// Unbind ends the binding of a conversation and returns it. It returns an error that is
// [session.ErrNotFound] if there is none, and a *[Error] that is [ErrNotOwner] if the one who asks
// may not change it.
func (t *Table) Unbind(ctx context.Context, conversation session.Route, by string, why Reason, now time.Time) (Unbound, error) {
	var ended Unbound
	err := t.change(ctx, now, func(s *state) (facts []*fact, err error) {
		facts, ended, err = s.decideUnbind(conversation.Clean(), by, why, now)
		return facts, err
	})
	if err != nil {
		return Unbound{}, err
	}
	return ended, nil
}

// Release ends every binding of a session, whatever its owner, because the session has ended or is
// gone. It returns what it ended; none is no error.
func (t *Table) Release(ctx context.Context, target session.Key, why Reason, now time.Time) ([]Unbound, error) {
	return t.end(ctx, now, func(s *state) []Unbound {
		var ended []Unbound
		for _, old := range s.of(target) {
			ended = append(ended, Unbound{Binding: old, Reason: why})
		}
		return ended
	})
}

// Expire ends every binding that has expired and returns what it ended, for a farewell. Routing
// does not need it: a lookup never returns a binding that has expired.
func (t *Table) Expire(ctx context.Context, now time.Time) ([]Unbound, error) {
	return t.end(ctx, now, func(s *state) []Unbound { return s.expired(now) })
}

// end is the change that Release and Expire have in common.
func (t *Table) end(ctx context.Context, now time.Time, choose func(*state) []Unbound) ([]Unbound, error) {
	var ended []Unbound
	err := t.change(ctx, now, func(s *state) ([]*fact, error) {
		ended = choose(s)
		facts := make([]*fact, len(ended))
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

// Touch says that a message was written in a conversation, in either direction, at now. A time
// before the last touch changes nothing. It returns an error that is [session.ErrNotFound] if the
// conversation is not bound, or not any more.
func (t *Table) Touch(ctx context.Context, conversation session.Route, now time.Time) error {
	conversation = conversation.Clean()
	t.mu.Lock()
	write, err := t.state.touch(conversation, now)
	t.mu.Unlock()
	if err != nil || !write {
		return err
	}
	return t.change(ctx, now, func(s *state) ([]*fact, error) {
		old, err := s.live(conversation, now)
		if err != nil || !old.Touched.After(s.bound[conversation].written) {
			return nil, err
		}
		return []*fact{bound(old, now)}, nil
	})
}

// A Limit is a new limit for a binding; nil leaves the one that it has.
type Limit struct {
	Idle   *time.Duration // counts from now; 0: no limit
	MaxAge *time.Duration // counts from now; 0: no limit
}

// SetLimit gives new limits, which count from now, to the binding of a conversation, and to the
// others of the same session on the same channel and account that the one who asks may change. It
// returns them, or an error as [Table.Unbind] does.
func (t *Table) SetLimit(ctx context.Context, conversation session.Route, by string, limit Limit, now time.Time) ([]Binding, error) {
	var changed []Binding
	err := t.change(ctx, now, func(s *state) (facts []*fact, err error) {
		facts, changed, err = s.decideLimit(conversation.Clean(), by, limit, now)
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
func (t *Table) Find(conversation session.Route, now time.Time) (Binding, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found, err := t.state.live(conversation.Clean(), now)
	return found, err == nil
}

// Of returns the bindings of a session that have not expired at now, in the order of their
// conversations.
func (t *Table) Of(target session.Key, now time.Time) []Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return unexpired(t.state.of(target), now)
}

// All returns the bindings that have not expired at now, in the order of their conversations.
func (t *Table) All(now time.Time) []Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return unexpired(t.state.all(), now)
}

func unexpired(bindings []Binding, now time.Time) []Binding {
	return slices.DeleteFunc(bindings, func(b Binding) bool {
		_, over := b.expired(now)
		return over
	})
}

// Next returns when the first binding expires, zero if none does: when [Table.Expire] is next worth
// a call.
func (t *Table) Next() time.Time {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.state.next()
}

// Refresh reads what others have appended to the log.
func (t *Table) Refresh(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.finish()
	_, err := t.catchUp(ctx, "")
	return err
}

func (t *Table) begin(ctx context.Context) error {
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("binding: %w", ctx.Err())
	}
}

func (t *Table) finish() { t.turn <- struct{}{} }

// change appends what decide says, or nothing. It decides again whenever another writer was faster,
// and finds out by the batch's id whether an append whose answer is unclear was made.
func (t *Table) change(ctx context.Context, now time.Time, decide func(*state) ([]*fact, error)) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.finish()
	for {
		if t.stale {
			if _, err := t.catchUp(ctx, ""); err != nil {
				return err
			}
		}
		batch, err := t.decide(now, decide)
		if err != nil || len(batch.Entries) == 0 {
			return err
		}
		last, err := t.journal.Append(ctx, session.BindingsRoot(), t.last, batch)
		switch {
		case err == nil:
			return t.apply(batch.Entries, last)
		case errors.Is(err, session.ErrConflict):
			t.stale = true
		default:
			t.stale = true
			if found, readErr := t.catchUp(ctx, batch.ID); readErr != nil || !found {
				return fmt.Errorf("binding: %w", err)
			}
			return nil
		}
	}
}

// decide returns the batch of facts to append, with a snapshot before them if the log has grown
// long. It is empty if there are none.
func (t *Table) decide(now time.Time, decide func(*state) ([]*fact, error)) (session.Batch, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	facts, err := decide(t.state)
	if err != nil || len(facts) == 0 {
		return session.Batch{}, err
	}
	batch := session.Batch{ID: session.BatchID("bindings-" + session.NewID())}
	if t.state.long() {
		batch.Reset = true
		facts = append([]*fact{t.state.snapshot(now)}, facts...)
	}
	for _, f := range facts {
		batch.Entries = append(batch.Entries, session.Entry{Payload: f})
	}
	return batch, nil
}

// apply adds entries of the log, the last of which has the sequence last, to the table.
func (t *Table) apply(entries []session.Entry, last session.Seq) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range entries {
		f, err := readFact(e)
		if err != nil {
			return err
		}
		t.state.apply(f)
	}
	t.last = last
	return nil
}

// catchUp reads what the log holds beyond the table, and reports whether the batch called id is
// among it.
func (t *Table) catchUp(ctx context.Context, id session.BatchID) (found bool, err error) {
	for e, err := range t.journal.Read(ctx, session.BindingsRoot(), t.last) {
		if err != nil {
			return false, fmt.Errorf("binding: %w", err)
		}
		if err := t.apply([]session.Entry{e}, e.Seq); err != nil {
			return false, err
		}
		found = found || id != "" && e.Batch == id
	}
	t.stale = false
	return found, nil
}
