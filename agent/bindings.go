package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// bindings are what a Runtime knows of conversations that are bound, and does for those that are
// not any more. Its table comes before the trees: a binding, or its begin, is in the table before
// it is in the tree of its session, and leaves it before it leaves the tree.
//
// From Run to the end it has a goroutine, which owns all others.
type bindings struct {
	rt *Runtime
	// shared has the locks of conversations, for what has to be done at once in table and tree.
	shared *thread.Sharing

	// life ends with the Runtime.
	life context.Context //nolint:containedctx // it outlives the call of Open
	end  context.CancelCauseFunc

	// alive ends, with the error, when the store takes nothing any more.
	alive context.Context //nolint:containedctx // it ends what Run does
	died  context.CancelCauseFunc

	calls *thread.Calls // of the store, for the table
	// outside are calls of ThreadHosts, of functions of the Config, and of the store for callers.
	// They end with work.
	outside *thread.Calls
	// work ends, as the work of the trees does, when the hard phase of a shutdown begins.
	work context.Context //nolint:containedctx // it outlives the call of Open

	opening chan struct{} // holds one token; its holder opens the table
	wake    chan struct{} // has room for one signal: there may be something to do

	mu       sync.Mutex
	table    *binding.Table // nil: not opened yet
	running  chan struct{}  // closed when the goroutine has ended; nil before Run
	over     bool
	tried    map[string]*thread.Attempt // by the ID of an end that is owed
	doubtful map[session.Key]time.Time  // trees that are compared with the table, and when
	disowned []disowned                 // what is owed and could not be recorded
	creating int                        // commands under way that create a thread
	// created is closed when there are none and none can begin; nil before stop.
	created chan struct{}
}

// A disowned is what is owed for a binding that has not come about, and that this process alone
// knows of. If it is unsure, the table may come to have it: then it is that of the table.
type disowned struct {
	binding.Unbound

	unsure bool
}

func newBindings(ctx context.Context, rt *Runtime) *bindings {
	b := &bindings{
		rt: rt, opening: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		tried: make(map[string]*thread.Attempt), doubtful: make(map[session.Key]time.Time),
	}
	b.opening <- struct{}{}
	b.life, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	b.alive, b.died = context.WithCancelCause(context.WithoutCancel(ctx))
	b.calls = thread.NewCalls(b.life, ErrShutdown)              //nolint:contextcheck // they end with it
	b.shared = thread.NewSharing(b.life, rt.cfg().Store.Owners) //nolint:contextcheck // as above
	return b
}

// endWith has the calls outside end with a context.
func (b *bindings) endWith(work context.Context) {
	b.work, b.outside = work, thread.NewCalls(work, ErrShutdown)
}

// whole returns a context that ends with ctx, and when the hard phase of a shutdown begins.
func (b *bindings) whole(ctx context.Context) (context.Context, context.CancelFunc) {
	return thread.EndingWith(ctx, b.work)
}

// waitFor waits for a call of the store whose context is derived from ctx. The caller leaves when
// ctx ends, and with [ErrShutdown] when the Runtime does, also if the store does not return.
func (b *bindings) waitFor(ctx context.Context, call *thread.Call) error {
	ctx, cancel := thread.EndingWith(ctx, b.life)
	defer cancel()
	return call.WaitFor(ctx)
}

// cut returns ErrShutdown once the hard phase of a shutdown has begun, which ends what is outside.
func (b *bindings) cut() error {
	if b.work.Err() != nil {
		return ErrShutdown
	}
	return nil
}

// inStore calls f, which asks the store for a caller, in a goroutine that the caller can leave: it
// does so when ctx ends, and when the hard phase of a shutdown begins. What the store does beyond
// that is one of the calls that stop waits for. The error of a caller that leaves is the cause.
func (b *bindings) inStore(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := b.whole(ctx)
	defer cancel()
	return b.outside.Start(ctx, session.Key{}, false, 0, func(ctx context.Context) error {
		return attempt(func() error { return f(ctx) })
	}).WaitFor(ctx)
}

// open returns the table, which it reads at the first call. It returns when ctx ends, also if the
// store does not. The error is the cause of ctx, [ErrShutdown] or [ErrUnreadable].
func (b *bindings) open(ctx context.Context) (*binding.Table, error) {
	b.mu.Lock()
	table, over := b.table, b.over
	b.mu.Unlock()
	switch {
	case over:
		return nil, ErrShutdown
	case table != nil:
		return table, nil
	}
	if err := b.readError(ctx, b.waitFor(ctx, b.apart(ctx, b.read))); err != nil {
		return nil, err
	}
	return b.opened(), nil
}

// current is open, and has the table know what other processes have recorded by now.
func (b *bindings) current(ctx context.Context) (*binding.Table, error) {
	table, err := b.open(ctx)
	if err == nil {
		err = b.confirm(ctx, table)
	}
	return table, err
}

// confirm has the table know what other processes have recorded by now. The error is as of open.
func (b *bindings) confirm(ctx context.Context, table *binding.Table) error {
	if !b.shared.Among() {
		return nil
	}
	patient := thread.NewCommand(true)
	return b.readError(ctx, b.waitFor(ctx, b.apart(patient.Under(ctx), table.Confirm)))
}

// readError returns the error of a call that reads the bindings.
func (b *bindings) readError(ctx context.Context, err error) error {
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case b.ended() != nil: // the end of the Runtime has cut it off
		return cutOff(err)
	}
	return fmt.Errorf("%w: reading which conversations are bound: %w", ErrUnreadable, err)
}

// onDuty reports whether this process does what is to be done once, now.
func (b *bindings) onDuty() bool {
	if b.shared.Among() && b.work.Err() != nil { // what it claimed now would outlast it
		return false
	}
	return b.shared.OnDuty()
}

// errOffDuty is why a process leaves to another one what is owed.
var errOffDuty = errors.New("agent: another process looks after bindings that have ended")

// read opens the table, unless another call has.
func (b *bindings) read(ctx context.Context) error {
	select {
	case <-b.opening:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { b.opening <- struct{}{} }()
	if b.opened() != nil {
		return nil
	}
	open := binding.Open
	if b.shared.Among() {
		open = binding.OpenShared
	}
	table, err := open(ctx, thread.Journal{
		Journal: b.rt.cfg().Store.Journal, Dead: b.died, Shared: b.shared.Among(),
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.table = table
	return nil
}

// opened returns the table, or nil before it was read.
func (b *bindings) opened() *binding.Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table
}

// apart calls f, which asks the store, in a goroutine that a caller can leave: what the store does
// beyond ctx is then one of the calls that stop waits for. It is of no session.
func (b *bindings) apart(ctx context.Context, f func(context.Context) error) *thread.Call {
	return b.calls.Start(ctx, session.Key{}, false, 0, func(ctx context.Context) error {
		return attempt(func() error { return f(ctx) })
	})
}

// onTable returns what f returns, which changes the table by one command. It returns when ctx ends,
// also if the store does not. The error is that of the command, or says what the store has kept of
// it: [ErrNotRecorded] or [ErrUnconfirmed]. One that is patient is tried again for a moment, as a
// command of a tree is.
func onTable[T any](
	ctx context.Context, b *bindings, patient bool,
	f func(ctx context.Context, t *binding.Table, now time.Time) (T, error),
) (T, error) {
	var answer, zero T
	table, err := b.open(ctx)
	if err != nil {
		return zero, unrecorded(ctx, err)
	}
	command := thread.NewCommand(patient)
	err = b.waitFor(ctx, b.apart(command.Under(ctx), func(ctx context.Context) (err error) {
		answer, err = f(ctx, table, time.Now())
		return err
	}))
	switch { // after an error answer may still be written to
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return zero, command.Leave(err)
	case b.ended() != nil: // the end of the Runtime has cut it off
		return zero, command.Leave(cutOff(err))
	case errors.Is(err, binding.ErrUnreadable), errors.Is(err, session.ErrConflict):
		return zero, command.Leave(err)
	}
	return zero, err
}

// cutOff returns an error that the end of the Runtime is the reason of.
func cutOff(err error) error {
	if errors.Is(err, ErrShutdown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShutdown, err)
}

// change is onTable for a command that is patient, and has the goroutine look at what has changed.
func change[T any](
	ctx context.Context, b *bindings,
	f func(ctx context.Context, t *binding.Table, now time.Time) (T, error),
) (T, error) {
	defer b.look()
	return onTable(ctx, b, true, f)
}

// atLast calls f, which has to be done also if ctx has ended, within the timeout. A caller whose
// ctx ends does not wait for it.
func (b *bindings) atLast(ctx context.Context, f func(context.Context)) {
	_ = b.waitFor(ctx, b.calls.Start(context.WithoutCancel(ctx), session.Key{}, false, b.timeout(),
		func(ctx context.Context) error { f(ctx); return nil }))
}

// look has the goroutine look what there is to do.
func (b *bindings) look() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// doubt has the goroutine compare a tree with the table.
func (b *bindings) doubt(root session.Key) {
	b.mu.Lock()
	b.doubtful[root] = time.Now()
	b.mu.Unlock()
	b.look()
}

// release ends the binding of a conversation to a session, also if ctx has ended. If the store
// fails, the tree is compared with the table later.
func (b *bindings) release(
	ctx context.Context, root, target session.Key, at session.Route, why binding.Reason,
) {
	b.atLast(ctx, func(ctx context.Context) {
		b.doubtAfter(b.releaseOne(ctx, target, at, why), root, target, why)
	})
}

// doubtAfter has a tree compared with the table if the end of a binding has failed with an error.
func (b *bindings) doubtAfter(err error, root, target session.Key, why binding.Reason) {
	if err == nil {
		return
	}
	b.rt.log.Warn("offshoot: the end of a binding could not be recorded",
		"session", target.String(), "reason", why.String(), "error", redact(err).Error())
	b.doubt(root)
}

// releaseOne ends the binding of a conversation to a session, if there is one.
func (b *bindings) releaseOne(
	ctx context.Context, target session.Key, at session.Route, why binding.Reason,
) error {
	_, err := change(ctx, b, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) ([]binding.Unbound, error) {
		return t.ReleaseOne(ctx, target, at, why, now)
	})
	return err
}

// unbind ends a binding that the tree of its session wants to end. It is the Unbind of the
// Supervisor. It waits for a Focus, which the tree may have accepted before it wanted that.
func (b *bindings) unbind(ctx context.Context, u spawn.UnbindRequest) error {
	unlock, err := b.shared.Lock(ctx, u.Route, nil)
	if err != nil {
		return err
	}
	defer unlock()
	return b.releaseOne(ctx, u.Session, u.Route, thread.ReasonOf(u.Reason))
}

// holds reports whether the tree of a binding has it.
func (b *bindings) holds(ctx context.Context, of binding.Binding) (bool, error) {
	root, err := b.rootOf(ctx, of)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return b.rt.sup.IsBound(ctx, root, of.Target, of.Conversation)
}

// rootOf returns the tree of a binding. One of an earlier version does not say it.
func (b *bindings) rootOf(ctx context.Context, of binding.Binding) (session.Key, error) {
	if of.Root.IsValid() {
		return of.Root, nil
	}
	return b.rt.sup.RootOf(ctx, of.Target)
}

// of returns the conversation of a message to a session, and whether it may be bound.
func (b *bindings) of(s *Session, m *Incoming) (at session.Route, ok bool) {
	if s.key.IsSubagent() || len(b.rt.cfg().Threads.Channels) == 0 {
		return at, false
	}
	at = m.Route
	if at.IsZero() {
		at = s.key.Route().Clean()
	}
	return at, at.Complete() && b.rt.cfg().Threads.policy(at).Enabled
}

// A postFunc posts a message to a session of a tree.
type postFunc func(ctx context.Context, root, to session.Key, m Incoming) error

// post posts a message of a conversation: to the session that is bound there, else to the
// conversation's own session s. A message with a known ID goes to the session that knows it,
// whatever is bound now.
//
// Two messages of one conversation are posted one after the other, unless post waits for an answer,
// too.
func (b *bindings) post(
	ctx context.Context, s *Session, root session.Key, m Incoming, waits bool, post postFunc,
) error {
	at, ok := b.of(s, &m)
	if !ok {
		return post(ctx, root, s.key, m)
	}
	table, err := b.open(ctx)
	if err != nil {
		return unrecorded(ctx, err)
	}
	unlock, err := b.shared.Lock(ctx, at, nil)
	if err != nil {
		return unrecorded(ctx, err)
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if err := b.confirm(ctx, table); err != nil {
		return unrecorded(ctx, err)
	}
	now := time.Now()
	to, bound := table.Find(at, now)
	if m.ID != "" {
		own := binding.Binding{Conversation: at, Target: s.key, Root: root}
		for _, of := range thread.SeenBy(to, bound, own, table.Former(at, now), now) {
			asked := Incoming{ID: m.ID, Route: at, Thread: true}
			if of.Target == s.key {
				asked.Route, asked.Thread = m.Route, false
			}
			knows, err := b.knows(ctx, of, asked)
			if err != nil {
				return unrecorded(ctx, err)
			}
			if knows {
				to, bound = of, true
				break
			}
		}
	}
	if waits {
		unlock()
	}
	if bound && to.Target != s.key {
		taken, err := b.postBound(ctx, s.key, root, to, m, waits, post)
		if taken || err != nil {
			return err
		}
	}
	return post(ctx, root, s.key, m)
}

// knows reports whether a session has seen a message. A tree that cannot be read for good counts as
// one that has not: else no message could be told in the conversation until it is repaired.
func (b *bindings) knows(ctx context.Context, of binding.Binding, m Incoming) (bool, error) {
	root, err := b.rootOf(ctx, of)
	if err != nil {
		return false, unlessGone(err)
	}
	knows, err := b.rt.sup.Knows(ctx, root, of.Target, m)
	return knows, unlessGone(err)
}

func unlessGone(err error) error {
	if errors.Is(err, ErrNotFound) || session.IsPermanent(err) {
		return nil
	}
	return err
}

// postBound posts a message to the session that its conversation is bound to. It reports false if
// that does not take it, because it is not there any more or about to go. It is called under the
// lock of the conversation, unless post waits for an answer.
func (b *bindings) postBound(
	ctx context.Context, own, ownRoot session.Key, to binding.Binding, m Incoming, waits bool,
	post postFunc,
) (taken bool, err error) {
	root, err := b.rootOf(ctx, to)
	err = unrecorded(ctx, err)
	if err == nil {
		m.Route, m.Thread = to.Conversation, true
		if root == ownRoot {
			m.Own = own
		}
		err = post(ctx, root, to.Target, m)
	}
	switch {
	case err == nil:
		b.touch(ctx, to.Conversation)
		return true, nil
	case errors.Is(err, spawn.ErrStopping): // its end unbinds it
		return false, nil
	case errors.Is(err, spawn.ErrNotBound), errors.Is(err, ErrEnded), errors.Is(err, ErrArchived),
		errors.Is(err, ErrNotFound):
		b.releaseStale(ctx, root, to, !waits)
		return false, nil
	}
	return false, err
}

// releaseStale ends the binding of a conversation to a session that has refused a message of it,
// also if ctx has ended. A session that has the conversation still is about to lose it: then its
// tree ends the binding, for a reason that only the tree knows, see [bindings.unbind]. With locked
// the caller has the lock of the conversation.
func (b *bindings) releaseStale(
	ctx context.Context, root session.Key, of binding.Binding, locked bool,
) {
	b.atLast(ctx, func(ctx context.Context) {
		if !locked {
			unlock, err := b.shared.Lock(ctx, of.Conversation, nil)
			if err != nil {
				b.doubt(root)
				return
			}
			defer unlock()
		}
		holds, err := b.holds(ctx, of)
		if err == nil && !holds {
			err = b.releaseOne(ctx, of.Target, of.Conversation, binding.ReasonStaleSession)
		}
		b.doubtAfter(err, root, of.Target, binding.ReasonStaleSession)
	})
}

// touchWithin is how long a message waits until it is on record that it was written. A binding
// whose touch comes later, or not at all, expires the sooner, and nothing else.
const touchWithin = time.Second

// touch notes that something was written in a conversation.
func (b *bindings) touch(ctx context.Context, at session.Route) {
	soon, cancel := context.WithTimeout(ctx, touchWithin)
	defer cancel()
	_, err := onTable(soon, b, false, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) (struct{}, error) {
		return struct{}{}, t.Touch(ctx, at, now)
	})
	if err != nil && !errors.Is(err, session.ErrNotFound) && ctx.Err() == nil {
		b.rt.log.Warn("offshoot: a message in a conversation that is bound could not be noted",
			"error", redact(err).Error())
	}
}

// replied notes that a session has written in its conversation.
func (b *bindings) replied(ctx context.Context, r *Reply) {
	if len(b.rt.cfg().Threads.Channels) == 0 || !r.Route.Complete() {
		return
	}
	soon, cancel := context.WithTimeout(ctx, touchWithin)
	defer cancel()
	table, err := b.current(soon)
	if err != nil {
		return
	}
	if found, ok := table.Find(r.Route, time.Now()); ok && found.Target == r.From {
		b.touch(ctx, r.Route)
	}
}

func (b *bindings) timeout() time.Duration {
	return cmp.Or(b.rt.cfg().DeliverTimeout, spawn.DefaultDeliverTimeout)
}

// call calls a ThreadHost on behalf of a session. field is its place in the Config. With says the
// call is a delivery.
func (b *bindings) call(
	ctx context.Context, of session.Key, says bool, field string,
	f func(context.Context) error,
) *thread.Call {
	return b.outside.Start(ctx, of, says, b.timeout(), func(ctx context.Context) error {
		return protect(field, func() error { return f(ctx) })
	})
}

// start starts the goroutine, unless there is nothing that it could do. Only the first call counts.
func (b *bindings) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != nil || b.over || len(b.rt.cfg().Threads.Channels) == 0 {
		return
	}
	b.running = make(chan struct{})
	go b.run(b.running)
}

// lateGrace is what is left for a [ThreadHost] and for the store of the bindings to return in after
// a shutdown of the trees that has taken the grace period: they are not given a second one.
const lateGrace = 100 * time.Millisecond

// stop ends the goroutine and the calls under way. It returns what has not returned within the
// grace period, or nil. Under the context of a call, stop does not wait for that one.
func (b *bindings) stop(ctx context.Context, grace time.Duration) *StillRunningError {
	running, created := b.closes()
	own := thread.Of(ctx)
	own.Quit()
	b.end(ErrShutdown)
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	hangs := false
	if running != nil {
		select {
		case <-running:
		case <-soon.Done():
			hangs = true
		}
	}
	select { // they leave now, and say what they have created
	case <-created:
	case <-soon.Done():
	}
	b.shared.LeaveDuty() //nolint:contextcheck // also after the end of ctx
	said := b.lastWords(soon)
	deliveries, sessions := b.outside.Left(soon, own != nil)
	_, table := b.calls.Left(soon, own != nil)
	sessions = slices.Concat(sessions, table, b.shared.Left(soon, own != nil))
	unsaid, _ := said.Left(soon, false)
	deliveries = append(deliveries, unsaid...)
	if !hangs && len(deliveries)+len(sessions) == 0 {
		return nil
	}
	sessions = slices.DeleteFunc(sessions, func(k session.Key) bool { return !k.IsValid() })
	still := &StillRunningError{Deliveries: distinct(deliveries), Sessions: distinct(sessions)}
	return still // with both lists empty, the store
}

// creates notes a command that creates a thread, until leave. After the end of the Runtime none can
// begin.
func (b *bindings) creates() (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil, ErrShutdown
	}
	b.creating++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.creating--; b.creating == 0 && b.over {
			close(b.created)
		}
	}, nil
}

// closes notes the end of the Runtime. It returns what is closed when the goroutine has ended, nil
// if there is none, and when no command is under way that creates a thread.
func (b *bindings) closes() (running, created <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.over, b.created = true, make(chan struct{})
		if b.creating == 0 {
			close(b.created)
		}
	}
	return b.running, b.created
}

// lastWords says in threads that nothing comes of them, where this process alone knows that: the
// store has not answered, and may keep nothing. If it does after all, the next process says the
// same under the same key.
func (b *bindings) lastWords(ctx context.Context) *thread.Calls {
	calls, table := thread.NewCalls(ctx, ErrShutdown), b.opened()
	b.mu.Lock()
	list := b.disowned
	b.disowned = nil
	b.mu.Unlock()
	for _, u := range list {
		host, field, what := b.farewellOf(&u.Unbound, 1)
		if host == nil || table.Owes(u.ID) {
			continue
		}
		calls.Start(ctx, u.Binding.Target, true, b.timeout(), func(ctx context.Context) error {
			err := protect(field, func() error { return host.Farewell(ctx, what) })
			if err != nil {
				b.rt.log.Warn("offshoot: a farewell failed", append(boundAttrs(&u.Binding),
					"error", redact(err).Error())...)
			}
			return err
		})
	}
	return calls
}

// isCall reports whether ctx is that of a call of a ThreadHost, or derived from one.
func (b *bindings) isCall(ctx context.Context) bool { return thread.Of(ctx) != nil }

// ended returns ErrShutdown after the end of the Runtime.
func (b *bindings) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return ErrShutdown
	}
	return nil
}

// atOnce is how many things are done at the same time at most: farewells, probes and trees.
const atOnce = 8

// run does what there is to do until the Runtime ends.
func (b *bindings) run(done chan struct{}) {
	defer close(done)
	var work errgroup.Group
	defer func() { _ = work.Wait() }()
	if !b.shared.Among() {
		work.Go(func() error { b.lookAround(); return nil })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := b.step(&work)
		timer.Reset(max(0, time.Until(due)))
		select {
		case <-b.life.Done():
			return
		case <-b.wake:
		case <-timer.C:
		}
	}
}

// storePause is how long after a failure of the store it is asked again.
const storePause = 15 * time.Second

// nothingDue is how long the goroutine waits for a signal.
const nothingDue = 24 * time.Hour

// step starts what there is to do now, and returns when the next step is due.
func (b *bindings) step(work *errgroup.Group) (due time.Time) {
	duty := b.onDuty()
	if b.shared.BeginsDuty() {
		work.Go(func() error { b.lookAround(); return nil })
	}
	now, last := time.Now(), b.shared.Every(duty, nothingDue)
	table, err := b.open(b.life)
	if err == nil && duty {
		err = b.confirm(b.life, table)
	}
	if err == nil && duty {
		if at := table.Next(); !at.IsZero() && !now.Before(at) {
			err = attempt(func() error { _, err := table.Expire(b.life, now); return err })
		}
	}
	if err != nil {
		b.logFailure("what has become of bindings is not known", err, nil)
		return now.Add(storePause)
	}
	var expiry time.Time
	if duty {
		expiry = table.Next()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !duty {
		b.forgetTried()
	}
	begin, due := thread.Plan(now, expiry, b.owed(table, duty), b.tried, atOnce)
	for _, u := range begin {
		tried := b.tried[u.ID]
		work.Go(func() error { b.settle(table, u, tried); return nil })
	}
	for root, at := range b.doubtful {
		if at.After(now) {
			due = thread.Sooner(due, at)
			continue
		}
		b.doubtful[root] = now.Add(nothingDue) // while it is under way
		work.Go(func() error { b.compare(table, root, table.All(now)); return nil })
	}
	return thread.Sooner(due, now.Add(last))
}

// forgetTried forgets what was tried for ends that another process looks after now. It is called
// under b.mu.
func (b *bindings) forgetTried() {
	maps.DeleteFunc(b.tried, func(id string, a *thread.Attempt) bool {
		return !a.Busy && !slices.ContainsFunc(b.disowned, func(x disowned) bool {
			return x.ID == id
		})
	})
}

// logFailure logs what has failed and is tried again, with the binding that it is for; nil: none.
func (b *bindings) logFailure(what string, err error, of *binding.Binding) {
	if b.life.Err() != nil || errors.Is(err, ErrShutdown) { // the next process does it
		return
	}
	attrs := []any{"error", redact(err).Error()}
	if of != nil {
		attrs = append(attrs, boundAttrs(of)...)
	}
	b.rt.log.Warn("offshoot: "+what, attrs...)
}

// disown has it said in a conversation that was created for a binding that nothing comes of it. The
// store has not kept that it is owed, so that this process says it or none does, unless it is
// unsure what the store has kept.
func (b *bindings) disown(q binding.Request, why binding.Reason, unsure bool) {
	if !q.Created {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disowned = append(b.disowned, disowned{unsure: unsure, Unbound: binding.Unbound{
		ID: cmp.Or(q.Begun, q.End, session.NewID()), Reason: why, At: time.Now(), Begun: true,
		Binding: binding.Binding{
			Conversation: q.Conversation, Target: q.Target, Root: q.Root, Label: q.Label,
			By: q.By, Created: true,
		},
	}})
	b.look()
}

// unclaimed has it said in a thread that was created for a session, and could not be bound because
// of err, that nothing comes of it. One that is bound to another session is left alone. Where the
// request has a Begun, the end in the table has the same ID, and is said once with this one.
func (b *bindings) unclaimed(q binding.Request, why binding.Reason, err error) {
	if _, taken := errors.AsType[*binding.Error](err); !taken {
		b.disown(q, why, q.Begun == "" && errors.Is(err, ErrUnconfirmed))
	}
}

// isKept reports whether the table has what a claim was to bind that could not be confirmed: then
// the end of that is said for it. It ends what is still bound.
func (b *bindings) isKept(table *binding.Table, u *binding.Unbound) (bool, error) {
	soon, cancel := context.WithTimeout(b.life, b.timeout())
	defer cancel()
	if err := b.apart(soon, table.Confirm).WaitFor(soon); err != nil {
		return false, err
	}
	of := &u.Binding
	if found, ok := table.Find(of.Conversation, time.Now()); ok && found.Target == of.Target {
		return true, b.releaseOne(soon, of.Target, of.Conversation, u.Reason)
	}
	return slices.ContainsFunc(table.Former(of.Conversation, time.Now()),
		func(x binding.Unbound) bool { return x.Binding.Target == of.Target }), nil
}

// owed returns what is owed: what this process alone knows of, and if it is on duty what the table
// has. It is called under b.mu.
func (b *bindings) owed(table *binding.Table, duty bool) iter.Seq[binding.Unbound] {
	return func(yield func(binding.Unbound) bool) {
		for _, u := range b.disowned {
			if !yield(u.Unbound) {
				return
			}
		}
		if duty {
			table.EachOwed(yield)
		}
	}
}

// settle does what is owed for a binding that has ended, or has not come about: its tree is told,
// then its conversation.
func (b *bindings) settle(table *binding.Table, u binding.Unbound, tried *thread.Attempt) {
	is := func(x disowned) bool { return x.ID == u.ID }
	b.mu.Lock()
	i := slices.IndexFunc(b.disowned, is) // the tree was not asked
	unsure := i >= 0 && b.disowned[i].unsure
	b.mu.Unlock()
	say := func() error {
		if i < 0 && !b.onDuty() {
			return errOffDuty
		}
		return b.farewell(table, &u, tried)
	}
	var over bool
	var err error
	switch {
	case i < 0:
		over, err = b.leave(b.life, table, &u)
	case b.shared.Among() && !b.onDuty() && b.confirm(b.life, table) == nil && table.Owes(u.ID):
		over = true // the table came to have it, and another process says it
	case unsure:
		if over, err = b.isKept(table, &u); err != nil && tried.Over(time.Now()) {
			err = nil // the store does not say: it is said once too often rather than not at all
		}
	}
	switch {
	case err != nil && unsure:
		b.logFailure("what the store has kept of a thread is not known", err, &u.Binding)
	case err != nil:
		b.logFailure("a session could not be told that its conversation is not bound any more", err,
			&u.Binding)
		if permanent(err) { // people do not wait for a repair of the tree, which is still owed it
			err = errors.Join(err, say())
		}
	case over:
	default:
		if err = say(); err == nil {
			err = attempt(func() error { return table.Settle(b.life, u.ID, time.Now()) })
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.tried, u.ID)
		b.disowned = slices.DeleteFunc(b.disowned, is)
	} else {
		tried.Failed(time.Now())
	}
	b.look()
}

// leave has the tree of a session know that a conversation is not bound any more, unless it is
// bound to the same session again. It reports whether the end is not owed any more, as a begin is
// that has come about.
func (b *bindings) leave(
	ctx context.Context, table *binding.Table, u *binding.Unbound,
) (over bool, err error) {
	unlock, err := b.shared.Lock(ctx, u.Binding.Conversation, nil)
	if err != nil {
		return false, err
	}
	defer unlock()
	if !table.Owes(u.ID) {
		return true, nil
	}
	return false, b.leaveHeld(ctx, table, &u.Binding, u.Reason)
}

// leaveHeld is leave under the lock of the conversation.
func (b *bindings) leaveHeld(
	ctx context.Context, table *binding.Table, of *binding.Binding, why binding.Reason,
) error {
	if err := attempt(func() error { return table.Confirm(ctx) }); err != nil {
		return err
	}
	if found, ok := table.Find(of.Conversation, time.Now()); ok && found.Target == of.Target {
		return nil
	}
	root, err := b.rootOf(ctx, *of)
	if err == nil {
		err = b.rt.sup.Unbind(ctx, root, of.Target, of.Conversation, why.String())
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// lookAround compares, when Run begins or the process comes on duty, the bindings with the trees of
// their sessions and with the channels.
func (b *bindings) lookAround() {
	table, err := b.current(b.life)
	for err != nil {
		select {
		case <-time.After(storePause):
		case <-b.life.Done():
			return
		}
		table, err = b.current(b.life)
	}
	var work errgroup.Group
	work.SetLimit(atOnce)
	all := table.All(time.Now())
	ofRoot := make(map[session.Key][]binding.Binding)
	for _, of := range all {
		if of.Root.IsValid() {
			ofRoot[of.Root] = append(ofRoot[of.Root], of)
		}
	}
	for _, of := range all {
		if list := ofRoot[of.Root]; list != nil {
			delete(ofRoot, of.Root)
			work.Go(func() error { b.compare(table, of.Root, list); return nil })
		}
		work.Go(func() error { b.probe(of); return nil })
	}
	_ = work.Wait()
}
