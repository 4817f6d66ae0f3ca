package binding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// touchEvery is the least time between two touches of one binding that are written to the log. So a
// crash loses at most that much, which shortens an idle limit and never lengthens it.
const touchEvery = 15 * time.Second

// A Table holds the thread bindings of all trees. It keeps them in one log, under
// [session.BindingsRoot]. A conversation may be bound to a session of any tree, so the log of a
// tree could not ensure that it is bound only once.
//
// A change is decided against the present state of the log, and is appended only if the log has not
// moved. If another process has appended meanwhile, the Table reads the log and decides again. So
// if two processes bind one conversation at once, one succeeds, and the other gets the error that
// the binding of the first gives.
//
// Lookups answer from memory. They see the changes of other processes after the next change by this
// Table, or after [Table.Refresh]. A lookup decides by its argument now whether a binding has
// expired; nothing runs in the background. A change is decided by what is in memory, too: a Table
// beside which other processes change bindings comes from [OpenShared].
//
// The zero Table is empty, and refuses every change.
//
// All methods may be called concurrently. Those with a ctx return early with its error once it is
// done. Those that change something, or read the log, return an error that wraps [ErrUnreadable] if
// that cannot be read, and nothing is recorded then.
type Table struct {
	journal session.Journal
	shared  bool
	turn    chan struct{} // holds one token; only its holder changes the fields below

	mu    sync.RWMutex // also held by the holder of the token when it writes them; held by readers
	state *state
	last  session.Seq
	stale bool // the log may have entries that state does not have
}

// Open reads the log of bindings in j and returns its Table. It returns an error for a log that a
// newer version has written.
func Open(ctx context.Context, j session.Journal) (*Table, error) { return open(ctx, j, false) }

// OpenShared is [Open] for a log that several processes append to. Each change, and
// [Table.Confirm], reads first what others have appended. A touch that is not in the log is known
// to its own process alone: for another one the binding expires the sooner, by 15 seconds or an
// eighth of its idle limit at most, whichever is less.
func OpenShared(ctx context.Context, j session.Journal) (*Table, error) {
	return open(ctx, j, true)
}

func open(ctx context.Context, j session.Journal, shared bool) (*Table, error) {
	if j == nil {
		return nil, errors.New("binding: journal is nil")
	}
	t := &Table{journal: j, shared: shared, turn: make(chan struct{}, 1), state: newState()}
	t.turn <- struct{}{}
	if err := t.Refresh(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// A Request is the argument of [Table.Bind]. Each part of the Conversation, By, Begun and End have
// at most [session.MaxKeyLen] bytes of UTF-8, and a Label has 200 characters. Characters of a Label
// that are not drawn are taken out, and its line breaks become spaces.
type Request struct {
	Conversation session.Route // channel and recipient; account and thread if there are any
	Target       session.Key   // the session
	Root         session.Key   // of its tree; zero: not on record
	By           string        // the owner who asks, as the channel names people, or SystemOwner
	Label        string        // a name for people
	Idle         time.Duration // idle limit; 0: none
	MaxAge       time.Duration // greatest age; 0: no limit
	Replace      bool          // end a binding of the conversation to another session
	Created      bool          // the conversation was created for the binding
	// Begun is the name under which [Table.Begin] has begun the binding, which no other may share.
	// Bind settles it. Empty: it was not begun.
	Begun string
	// End is the ID of the end of the binding, which no other may share: for a caller that may have
	// to say the end before it knows whether the binding came about. Empty: a new one.
	End string
}

// binding returns the binding that is asked for, or an error for a text that is too long.
func (q *Request) binding(now time.Time) (Binding, error) {
	b := Binding{
		Conversation: q.Conversation.Clean(), Target: q.Target, Root: q.Root, Label: q.Label,
		By: q.By, Bound: now, Touched: now, Idle: q.Idle, MaxAge: q.MaxAge, Created: q.Created,
		End: q.End,
	}
	err := b.overBound()
	if err == nil && len(q.Begun) > session.MaxKeyLen {
		err = fmt.Errorf("binding: begun has %d bytes, the limit is %d", len(q.Begun),
			session.MaxKeyLen)
	}
	b.Label = text.Line(b.Label)
	return b, err
}

// Begin records that a conversation is about to be bound, and binds nothing: what is bound stays
// so. It is for a caller that tells the tree of the session first, and the Table then. Until
// [Table.Bind] of a Request with the same Begun, the begin is owed as an end is, see [Table.Owed]:
// if the caller dies in between, the next process finds there that the tree may have a binding
// which the Table has not. The reason why is that of an end without a Bind.
//
// The error is the one that Bind would return now. A Begun that is owed already changes nothing.
func (t *Table) Begin(ctx context.Context, req Request, why Reason, now time.Time) error {
	now = inLog(now)
	made, err := req.binding(now)
	if err != nil {
		return err
	}
	u := Unbound{ID: req.Begun, Binding: made, Reason: why, At: now, Begun: true}
	return t.change(ctx, now, func(s *state) ([]*fact, error) {
		return s.decideBegin(u, req.Replace, now)
	})
}

// Bind binds a conversation to a session and returns the binding. If the conversation is bound to
// the same session already, the new binding takes the place of the old one.
//
// If the conversation is bound to another session, Bind returns an *[Error] that wraps [ErrBound],
// unless req.Replace is set. If the owner req.By may not change the present binding, Bind returns
// an *[Error] that wraps [ErrNotOwner]. In both cases the present binding stays as it is. It does
// also after an error that wraps [session.ErrConflict], which says that req.Begun is not owed any
// more.
func (t *Table) Bind(ctx context.Context, req Request, now time.Time) (Binding, error) {
	now = inLog(now)
	made, err := req.binding(now)
	if err != nil {
		return Binding{}, err
	}
	id := session.NewID()
	err = t.change(ctx, now, func(s *state) ([]*fact, error) {
		return s.decideBegun(req.Begun, made, req.Replace, id, now)
	})
	if err != nil {
		return Binding{}, err
	}
	return made, nil
}

// Unbind ends the binding of a conversation and returns it. It returns an error that wraps
// [session.ErrNotFound] if the conversation is not bound, and an *[Error] that wraps [ErrNotOwner]
// if the owner by may not change the binding.
func (t *Table) Unbind(
	ctx context.Context, conversation session.Route, by string, why Reason, now time.Time,
) (Unbound, error) {
	now = inLog(now)
	var ended Unbound
	id := session.NewID()
	err := t.change(ctx, now, func(s *state) (facts []*fact, err error) {
		facts, ended, err = s.decideUnbind(conversation.Clean(), by, why, id, now)
		return facts, err
	})
	if err != nil {
		return Unbound{}, err
	}
	return ended, nil
}

// Release ends every binding of a session, whatever its owner, for a session that has ended or does
// not exist any more. It returns the bindings that it ended. It is not an error if there are none.
// One that has expired by now ends for that reason, as no lookup has returned it since.
func (t *Table) Release(
	ctx context.Context, target session.Key, why Reason, now time.Time,
) ([]Unbound, error) {
	now = inLog(now)
	return t.end(ctx, now, func(s *state) []Unbound {
		var ended []Unbound
		for _, old := range s.of(target) {
			ended = append(ended, Unbound{Binding: old, Reason: why, At: now})
		}
		return ended
	})
}

// ReleaseOne is [Table.Release] for one conversation of the session. A conversation that is bound
// to another session stays as it is.
func (t *Table) ReleaseOne(
	ctx context.Context, target session.Key, conversation session.Route, why Reason, now time.Time,
) ([]Unbound, error) {
	now = inLog(now)
	conversation = conversation.Clean()
	return t.end(ctx, now, func(s *state) []Unbound {
		held, ok := s.bound[conversation]
		if !ok || held.Target != target {
			return nil
		}
		return []Unbound{{Binding: held.Binding, Reason: why, At: now}}
	})
}

// Expire ends every binding that has expired and returns those, so that the caller can write a
// farewell. Routing does not depend on it: a lookup never returns a binding that has expired.
func (t *Table) Expire(ctx context.Context, now time.Time) ([]Unbound, error) {
	now = inLog(now)
	return t.end(ctx, now, func(s *state) []Unbound { return s.expired(now) })
}

// end ends the bindings that choose returns, and returns them with the IDs of their ends.
func (t *Table) end(
	ctx context.Context, now time.Time, choose func(*state) []Unbound,
) ([]Unbound, error) {
	var ended []Unbound
	err := t.change(ctx, now, func(s *state) ([]*fact, error) {
		ended = choose(s)
		facts := make([]*fact, len(ended))
		for i := range ended {
			if why, over := ended[i].Binding.expired(now); over {
				ended[i].Reason = why
			}
			ended[i].ID = cmp.Or(ended[i].Binding.End, session.NewID())
			facts[i] = unbound(ended[i])
		}
		return facts, nil
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// inLog returns a time as it is read from the log: in UTC, without a monotonic reading. So what a
// process has written itself is equal to what the next one reads.
func inLog(t time.Time) time.Time { return t.UTC() }

// Settle records that nothing is owed any more for a binding that has ended: its conversation was
// told, and so was its session. An id that is not known, or settled, changes nothing.
func (t *Table) Settle(ctx context.Context, id string, now time.Time) error {
	now = inLog(now)
	return t.change(ctx, now, func(s *state) ([]*fact, error) {
		if u, ok := s.ended[id]; !ok || u.Settled {
			return nil, nil
		}
		return []*fact{newFact(fact{Kind: factSettled, ID: id, At: now})}, nil
	})
}

// Owed returns the bindings that have ended and are not settled, in the order of their ends, and
// those that were begun and have not come about. It has also those of an earlier process.
func (t *Table) Owed() []Unbound {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var owed []Unbound
	for _, u := range t.present().owed {
		owed = append(owed, *u)
	}
	return owed
}

// EachOwed calls f with what [Table.Owed] returns, one after the other, until f returns false. It
// costs nothing for what it does not reach. f calls no method of the Table.
func (t *Table) EachOwed(f func(Unbound) bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, u := range t.present().owed {
		if !f(*u) {
			return
		}
	}
}

// Owes reports whether [Table.Owed] has an end.
func (t *Table) Owes(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	u, ok := t.present().ended[id]
	return ok && !u.Settled
}

// Former returns the bindings of a conversation that have ended, in the order of their ends: those
// that are not settled, those of the time [Remembered], and one that has expired. The transport may
// send a message again that came while the conversation was bound. Its ID is then known to the
// session of that time.
func (t *Table) Former(conversation session.Route, now time.Time) []Unbound {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.present().formerly(conversation.Clean(), now)
}

// Touch records that a message was written in a conversation, in either direction, at now. A time
// before the last touch changes nothing. Most touches change memory only, and cost no append. Touch
// returns an error that wraps [session.ErrNotFound] if the conversation does not have a binding, or
// has one that has expired.
func (t *Table) Touch(ctx context.Context, conversation session.Route, now time.Time) error {
	now = inLog(now)
	conversation = conversation.Clean()
	t.mu.Lock()
	write, err := t.present().touch(conversation, now)
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

// A Limit holds new limits for a binding. A nil field leaves the limit as it is.
type Limit struct {
	Idle   *time.Duration // counts from the change; 0: no limit
	MaxAge *time.Duration // counts from the change; 0: no limit
}

// SetLimit gives new limits, which count from now, to the binding of a conversation. It gives them
// also to the other bindings of the same session on the same channel and account that the owner by
// may change. It returns the changed bindings. Its errors are those of [Table.Unbind], and an error
// for a limit that is negative.
func (t *Table) SetLimit(
	ctx context.Context, conversation session.Route, by string, limit Limit, now time.Time,
) ([]Binding, error) {
	now = inLog(now)
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

// Find returns the binding of a conversation, and whether it has one that has not expired at now.
func (t *Table) Find(conversation session.Route, now time.Time) (Binding, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found, err := t.present().live(conversation.Clean(), now)
	return found, err == nil
}

// Of returns the bindings of a session that have not expired at now, in the order of their
// conversations.
func (t *Table) Of(target session.Key, now time.Time) []Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return unexpired(t.present().of(target), now)
}

// All returns the bindings that have not expired at now, in the order of their conversations.
func (t *Table) All(now time.Time) []Binding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return unexpired(t.present().all(), now)
}

// unexpired removes the bindings that have expired at now.
func unexpired(bindings []Binding, now time.Time) []Binding {
	return slices.DeleteFunc(bindings, func(b Binding) bool {
		_, over := b.expired(now)
		return over
	})
}

// Next returns the time at which the first binding expires. [Table.Expire] has nothing to do before
// then. Next returns the zero time if no binding has a limit.
func (t *Table) Next() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.present().next()
}

// Refresh reads what other processes have appended to the log.
func (t *Table) Refresh(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.finish()
	_, err := t.catchUp(ctx, "")
	return err
}

// Confirm reads the log if it is not known yet what a change of this Table has come to, because an
// append failed, and always if the Table comes from [OpenShared]. Else it returns at once.
func (t *Table) Confirm(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.finish()
	if !t.stale && !t.shared {
		return nil
	}
	_, err := t.catchUp(ctx, "")
	return err
}

// present returns the state, which is empty for the zero Table.
func (t *Table) present() *state {
	if t.state == nil {
		return newState()
	}
	return t.state
}

// begin waits for the token that allows changes.
func (t *Table) begin(ctx context.Context) error {
	if t.turn == nil {
		return errors.New("binding: the Table does not come from Open")
	}
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("binding: %w", ctx.Err())
	}
}

// finish gives the token back.
func (t *Table) finish() { t.turn <- struct{}{} }

// change appends the facts that decide returns, if any. It decides again after a conflict with
// another writer. If the outcome of an append is not known, it reads the log and looks for the
// batch by its id.
func (t *Table) change(
	ctx context.Context, now time.Time, decide func(*state) ([]*fact, error),
) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.finish()
	for first := true; ; first = false {
		if t.stale || t.shared && first {
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
			before := t.last
			t.stale = true
			if _, readErr := t.catchUp(ctx, ""); readErr != nil {
				return readErr
			}
			if t.last == before { // it would be refused for ever
				return fmt.Errorf("binding: nothing is in the way of an append: %w", err)
			}
		case errors.Is(err, session.ErrSync), errors.Is(err, session.ErrClosed):
			// What such a log says of the batch need not be on the disk, and it may say nothing.
			t.stale = true
			return fmt.Errorf("binding: %w", err)
		default:
			t.stale = true
			if found, readErr := t.catchUp(ctx, batch.ID); readErr != nil || !found {
				return fmt.Errorf("binding: %w", err)
			}
			return nil
		}
	}
}

// decide returns the batch of the facts to append. If the log has grown long, the batch begins with
// a snapshot. The batch is empty if there are no facts.
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

// apply applies entries of the log to the state. The last of them has the sequence last.
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

// catchUp applies the entries that the log has after t.last, and reports whether the batch id is
// among them. An error wraps [ErrUnreadable].
func (t *Table) catchUp(ctx context.Context, id session.BatchID) (found bool, err error) {
	for e, err := range t.journal.Read(ctx, session.BindingsRoot(), t.last) {
		if err == nil {
			err = t.apply([]session.Entry{e}, e.Seq)
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		found = found || id != "" && e.Batch == id
	}
	t.stale = false
	return found, nil
}
