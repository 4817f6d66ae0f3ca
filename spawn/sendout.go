package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A SentMessage is a message of a session to the top-level session of another tree, on its way
// there.
type SentMessage struct {
	From session.Key `json:"from"`
	// Turn is the number of the turn of From that sends it; 0: no turn does.
	Turn int `json:"turn,omitempty"`
	// ID is the one by which the receiver knows the message.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Senders are the people for whom From works, see [Incoming].Senders.
	Senders []policy.Sender `json:"senders,omitempty"`
}

// sentOf returns the message of an entry. It shares nothing with the tree.
func sentOf(e *tree.Entry) *SentMessage {
	return &SentMessage{
		From: e.Run, Turn: int(e.Turn), ID: e.RunID, Text: string(e.Text),
		Senders: slices.Clone(e.Senders),
	}
}

// SendOut sends a message from a session to the top-level session of another tree, by the outbox of
// its own tree: root is that of the sender. SendOut returns when the message is durable there. From
// then on the Supervisor posts it, one message to a session after the other, as often as it takes,
// and the receiver has it once. Of m only the ID, the Text and the Senders are read.
//
// An ID names the message among those of the sender. While a message waits in the outbox, another
// one under its ID is that message, whatever else it has. After that the receiver knows the ID for
// seven days.
//
// If within is positive, SendOut waits at most so long for the reply with which a turn of the
// receiver ends that answers the message. People get that reply, too. Under the context of a Runner
// it gives the slot of the turn back while it waits. It waits for [Supervisor.Run], too.
//
// The Receipt is zero if the message is not recorded, or it is not known whether it is. The error
// is then [ErrNotFound] for a sender or a receiver that is not on record, where the main session of
// an agent always is a receiver, an *[InputError] for a receiver that is not the top-level session
// of another tree, [session.ErrArchived] for a sender that is being archived, or one that
// [Supervisor.Post] returns for the message.
//
// Any other Receipt has Pending set unless the message has arrived while SendOut waited. An error
// beside it says why there is no reply: [context.DeadlineExceeded] if none has come in time,
// [ErrUndelivered] if the delivery is blocked, or one of [Supervisor.PostAndWait]. What the
// receiver refuses for good blocks the delivery at once. It is listed by [Supervisor.Blocked], with
// [Delivery].Sent, and waits for [Supervisor.Retry] or [Supervisor.Dismiss].
func (s *Supervisor) SendOut(
	ctx context.Context, root, from, to session.Key, m Incoming, within time.Duration,
) (Receipt, Reply, error) {
	return s.sendOut(ctx, root, from, to, &m, within, nil)
}

// SendOut sends a message from this session to the top-level session of another tree, as
// [Supervisor.SendOut] does. It works for those for whom the turn works. The errors are [ErrStale],
// [ErrAnnouncing] and those of Supervisor.SendOut.
func (t *TurnInput) SendOut(
	ctx context.Context, to session.Key, m Incoming, within time.Duration,
) (Receipt, Reply, error) {
	if err := t.Err(); err != nil {
		return Receipt{}, Reply{}, err
	}
	ctx, done := t.Within(context.WithValue(ctx, turnKey{}, t))
	defer done()
	return t.shell.sup.sendOut(ctx, t.Session.Root, t.Session.Key, to, &m, within, t)
}

// sendOut is SendOut on behalf of the turn by, which may be nil.
func (s *Supervisor) sendOut(
	ctx context.Context, root, from, to session.Key, m *Incoming, within time.Duration,
	by *TurnInput,
) (receipt Receipt, reply Reply, err error) {
	m = m.sentBy(from)
	cmd := &tree.SendOut{
		From: from, To: to, ID: s.messageID(*m), Text: tree.Text(m.Text),
		Senders: sendersIn(ctx, m.Senders),
	}
	if err := unrecorded(ctx, s.lookAt(ctx, to)); err != nil {
		return receipt, reply, orWrong(err, func() error { return s.cfg.Limits.Check(cmd) })
	}
	begun := time.Now()
	got, err := s.sendOutHere(ctx, root, cmd, within, by)
	if by == nil && s.elsewhere(ctx, root, err) {
		left := within
		if within > 0 {
			left = max(within-time.Since(begun), time.Nanosecond)
		}
		known := got.receipt // the tree may have gone while the caller waited
		if got, err = s.sendOutThere(ctx, root, cmd, left, err); got.receipt.Session.IsZero() {
			got.receipt = known
		}
	}
	switch {
	case err != nil && got.receipt.Session.IsZero():
		err = repeatable(err, m.repeat())
	case err == nil && within > 0 && by != nil:
		if err = by.Hear(ctx, got.reply.Senders...); err != nil {
			got.reply, err = Reply{}, cmp.Or(context.Cause(ctx), err)
		}
	}
	return got.receipt, got.reply, err
}

// sendOutHere is sendOut of a command for a tree of this process.
func (s *Supervisor) sendOutHere(
	ctx context.Context, root session.Key, cmd *tree.SendOut, within time.Duration, by *TurnInput,
) (got answered, err error) {
	begun := time.Now()
	w, err := withShell(s, root, func(sh *treeShell) (*sendWaiter, error) {
		return sh.sendOut(ctx, cmd, within, by)
	})
	if err != nil {
		return got, err
	}
	receipt := Receipt{Session: cmd.To, Pending: true}
	if within <= 0 {
		return answered{receipt: receipt}, nil
	}
	defer w.leave()
	got, err = w.wait(ctx, within)
	if errors.Is(err, errArrived) { // the post did not know of the wait
		receipt.Pending = false
		left := within - time.Since(begun)
		got, err = s.answerWithin(ctx, cmd.From, cmd.To, w.repeats(), left)
	}
	if got.receipt.Session.IsZero() {
		got.receipt = receipt
	}
	return got, err
}

// answerWithin waits for the answer to a message that has arrived, at most so long. The journal of
// the receiver holds the sender up no longer.
func (s *Supervisor) answerWithin(
	ctx context.Context, from, to session.Key, m *Incoming, left time.Duration,
) (got answered, err error) {
	left = max(left, time.Nanosecond)
	short, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	got, err = s.postAndWait(short, to, to, m, func(p *tree.Post) { p.From = from }, left)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = context.DeadlineExceeded
	}
	return got, err
}

// mayReceive returns an error that is [ErrNotFound] for a receiver of messages that never was,
// unless it is the main session of an agent.
func (s *Supervisor) mayReceive(ctx context.Context, to session.Key) error {
	if !to.IsValid() || to.IsSubagent() || to.IsMain() {
		return nil // the tree refuses what it must
	}
	return s.onRecord(ctx, to)
}

// lookLimit is how long SendOut looks at most whether a receiver was ever there.
const lookLimit = time.Second

// lookAt is mayReceive for a message that is not recorded yet. The journal of the receiver holds
// the sender up no longer than lookLimit. Where it does not say in that time whether the receiver
// was ever there, lookAt returns nil: the post decides. A look that is left goes on as what
// [Supervisor.inStore] calls. The error is ErrNotFound, the cause of ctx or ErrShutdown.
func (s *Supervisor) lookAt(ctx context.Context, to session.Key) error {
	short, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	err := s.inStore(short, func(ctx context.Context) error { return s.mayReceive(ctx, to) }, nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrShutdown):
		return err
	}
	return nil
}

// errArrived is the error of a wait for a message that has left the outbox unseen.
var errArrived = errors.New("spawn: the message has left the outbox")

// A sendWaiter is a caller that waits until a message to another tree has arrived, and for the
// answer. The lock of the shell guards it.
type sendWaiter struct {
	shell    *treeShell
	cmd      *tree.SendOut
	ord      uint32        // of the entry of the outbox; 0: it is not recorded yet
	ready    chan struct{} // closed when what follows is set; nil then
	over     <-chan struct{}
	err      error // why it is not waited for any more
	there    *treeShell
	answer   *answerWaiter // in the shell there
	answered <-chan struct{}
	receipt  Receipt
}

// sendOut records a message. If the caller waits for the answer, it returns that wait, which the
// caller must leave.
func (sh *treeShell) sendOut(
	ctx context.Context, cmd *tree.SendOut, within time.Duration, by *TurnInput,
) (w *sendWaiter, err error) {
	var read func(*tree.Tree, tree.Reply)
	if within > 0 {
		ready := make(chan struct{})
		w = &sendWaiter{shell: sh, cmd: cmd, ready: ready, over: ready}
		sh.mu.Lock()
		few.Put(&sh.sendWaiters, w, struct{}{})
		sh.mu.Unlock()
		read = func(t *tree.Tree, _ tree.Reply) {
			sh.mu.Lock()
			defer sh.mu.Unlock()
			if e := t.SentTo(cmd.To, cmd.ID); e == nil { // it has left in this batch
				w.finish(errArrived)
			} else if w.ord = e.Ord; e.Blocked > 0 {
				w.finish(w.undelivered(e))
			}
		}
	}
	if by != nil {
		err = by.do(ctx, cmd, read)
	} else {
		err = sh.owner.Do(ctx, cmd, read)
	}
	if err != nil && w != nil {
		w.leave()
	}
	return w, err
}

// finish ends the wait for the arrival.
func (w *sendWaiter) finish(err error) {
	if w.ready != nil {
		w.err = err
		close(w.ready)
		w.ready = nil
	}
}

// undelivered returns the error of a wait for a message that is blocked.
func (w *sendWaiter) undelivered(e *tree.Entry) error {
	return fmt.Errorf("%w: message %s to %q: %s", ErrUndelivered, text.Quote(w.cmd.ID), w.cmd.To,
		e.Error)
}

// tellSendWaiters has those who wait for messages to arrive take a batch into account. The caller
// holds the lock.
func (sh *treeShell) tellSendWaiters(t *tree.Tree, facts []tree.Fact) {
	for w := range sh.sendWaiters {
		if w.ord == 0 {
			continue
		}
		if e := t.Entry(w.ord); e != nil && e.Blocked > 0 {
			w.finish(w.undelivered(e))
		}
		for i := range facts {
			switch f := &facts[i]; {
			case f.Ord != w.ord:
			case f.Kind == tree.Delivered:
				w.finish(errArrived)
			case f.Kind == tree.Dismissed:
				w.finish(ErrUndelivered)
			}
		}
	}
}

// leave ends the wait, and the wait for the answer.
func (w *sendWaiter) leave() {
	w.shell.mu.Lock()
	delete(w.shell.sendWaiters, w)
	there, answer := w.there, w.answer
	w.shell.mu.Unlock()
	if answer != nil {
		there.removeAnswerWaiter(answer)
	}
	w.shell.sup.forget(w.shell)
}

// wait waits until the message has arrived, and then for the answer, in all at most so long.
func (w *sendWaiter) wait(ctx context.Context, within time.Duration) (got answered, err error) {
	defer turnOf(ctx).pause()()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.over:
	case <-timer.C:
		return got, context.DeadlineExceeded
	case <-ctx.Done():
		return got, w.shell.unconfirmed(context.Cause(ctx))
	case <-w.shell.sup.closed:
		return got, w.shell.unconfirmed(ErrShutdown)
	}
	if w.err != nil { // nothing changes what is ready
		return got, w.err
	}
	got.receipt = w.receipt
	return w.there.awaitAnswer(ctx, w.answer, w.answered, timer.C, got)
}

// repeats returns the message as it was posted.
func (w *sendWaiter) repeats() *Incoming {
	return &Incoming{ID: w.cmd.ID, Text: string(w.cmd.Text), Senders: w.cmd.Senders}
}

// postSent posts a message to the session of another tree. What that refuses, it refuses for good.
// The goroutine of a sender calls it, which holds no lock: two trees that write to each other do
// not wait for each other.
func (sh *treeShell) postSent(ctx context.Context, out Delivery) error {
	to, m := out.To, out.Sent
	err := unrecorded(ctx, sh.sup.mayReceive(ctx, to))
	if err == nil {
		said := &Incoming{ID: m.ID, Text: m.Text, Senders: m.Senders}
		from := func(cmd *tree.Post) { cmd.From = m.From }
		_, err = sh.sup.post(ctx, to, to, said, from, func(
			ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
		) error {
			return sh.postWatched(ctx, cmd, m.ID, read)
		})
	}
	_, refused := errors.AsType[*policy.Refusal](err)
	_, wrong := errors.AsType[*InputError](err)
	_, tooLong := errors.AsType[*LimitError](err)
	if refused || wrong || tooLong || errors.Is(err, ErrNotFound) {
		return Permanent(err)
	}
	return err
}

// postWatched has the owner of another tree record a message. Those who wait for the answer to it
// do so from the batch on that records it.
func (sh *treeShell) postWatched(
	ctx context.Context, cmd tree.Command, id string, read func(*tree.Tree, tree.Reply),
) error {
	post, ok := cmd.(*tree.Post)
	if !ok {
		return errors.New("spawn: a message is posted")
	}
	_, err := withShell(sh.sup, post.To, func(there *treeShell) (_ struct{}, err error) {
		return struct{}{}, there.owner.Do(ctx, post, func(t *tree.Tree, r tree.Reply) {
			read(t, r)
			for _, w := range sh.waitersOf(post, id) {
				there.watchAnswer(w, post, t, r)
			}
		})
	})
	if sh.sup.elsewhere(ctx, post.To, err) {
		asks := *post
		asks.Asks = len(sh.waitersOf(post, id)) > 0
		return sh.sup.doThere(ctx, post.To, &asks, read, err)
	}
	return err
}

// waitersOf returns the callers that wait for the arrival of a message.
func (sh *treeShell) waitersOf(post *tree.Post, id string) (list []*sendWaiter) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.sendWaiters {
		if w.cmd.To == post.To && w.cmd.ID == id && w.ready != nil {
			list = append(list, w)
		}
	}
	return list
}

// watchAnswer has a caller wait for the answer to a message that is recorded in the tree of sh.
func (sh *treeShell) watchAnswer(w *sendWaiter, post *tree.Post, t *tree.Tree, r tree.Reply) {
	ready := make(chan struct{})
	answer := &answerWaiter{run: post.To, of: post, ready: ready}
	sh.mu.Lock()
	few.Put(&sh.answerWaiters, answer, struct{}{})
	answer.begin(t, r)
	sh.mu.Unlock()
	w.shell.mu.Lock()
	_, waits := w.shell.sendWaiters[w]
	if waits = waits && w.ready != nil; waits {
		w.there, w.answer, w.answered, w.receipt = sh, answer, ready, receiptOf(r)
		w.finish(nil)
	}
	w.shell.mu.Unlock()
	if !waits { // the caller has left meanwhile
		sh.mu.Lock()
		delete(sh.answerWaiters, answer)
		sh.mu.Unlock()
	}
}

// A message from a tree of another process arrives in one request, and its sender asks for the
// answer in the next one, when it knows that the message is there. A session may have answered by
// then, and people may have the reply. So the process that has the session keeps the answer for a
// moment.

// keptFor is how long an answer is kept for the process that asks for it, from the arrival of the
// message on, and maxKept is for how many messages of a tree.
const (
	keptFor = time.Minute
	maxKept = 16
)

// A keptAnswer is what waits for the answer to a message in place of its sender.
type keptAnswer struct {
	answerWaiter
	until time.Time
}

// postKept is doHere for a message whose sender asks for the answer later.
func (s *Supervisor) postKept(
	ctx context.Context, post *tree.Post, read func(*tree.Tree, tree.Reply),
) error {
	_, err := withShell(s, post.To, func(sh *treeShell) (_ struct{}, err error) {
		return struct{}{}, sh.owner.Do(ctx, post, func(t *tree.Tree, r tree.Reply) {
			read(t, r)
			if !r.Existing {
				sh.keepAnswer(post, t, r)
			}
		})
	})
	return err
}

// keepAnswer keeps the answer to a message that a batch has just recorded.
func (sh *treeShell) keepAnswer(post *tree.Post, t *tree.Tree, r tree.Reply) {
	now := time.Now()
	k := &keptAnswer{until: now.Add(keptFor)}
	k.run, k.of, k.ready = post.To, post, make(chan struct{})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.kept = slices.DeleteFunc(sh.kept, func(k *keptAnswer) bool { return now.After(k.until) })
	if over := len(sh.kept) - maxKept + 1; over > 0 {
		sh.kept = slices.Delete(sh.kept, 0, over)
	}
	sh.kept = append(sh.kept, k)
	k.begin(t, r)
}

// takeKept gives w the answer to its message, if there is one that was kept, and reports whether
// there is. The caller holds the lock.
func (sh *treeShell) takeKept(w *answerWaiter) bool {
	i := slices.IndexFunc(sh.kept, func(k *keptAnswer) bool {
		return k.of.To == w.of.To && k.of.From == w.of.From && k.of.ID == w.of.ID
	})
	if i < 0 || sh.kept[i].ready != nil {
		return false
	}
	w.end(sh.kept[i].reply, sh.kept[i].err)
	return true
}
