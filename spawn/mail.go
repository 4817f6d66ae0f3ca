package spawn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// An Incoming is a message to a session, for [Supervisor.Post] and [Supervisor.Steer]. It is passed
// by value. Steer reads its ID, Text and Senders alone.
type Incoming struct {
	// ID is the transport's name for the message. A message whose ID the session has seen in the
	// last seven days is accepted and changes nothing, whatever else it has: transports hand an
	// edited message over under its old ID. Empty: the message is always new.
	//
	// The ID is unique in its conversation. Messages of several conversations that lead to one
	// session may share one: they differ in the channel, the recipient or the thread of their
	// Route, and those of bound conversations in any part of it. A message without a Route, or with
	// one that lacks a part, is taken for the one that has come under its ID: to a sub-agent also
	// for one of a conversation that is bound to it, and to a top-level session, which has a
	// conversation of its own, not for such a one.
	ID string
	// Text is what the session is told, byte for byte. It may be blank beside Parts.
	Text string
	// Parts are what the message has beside its text. The bytes of each are in Data, or behind a
	// URL, or in a File of the session's transcript.
	//
	// Data is put into the Files of the Store, before the message is recorded. What the Kind and
	// MediaType say of it is not looked at: package agent does.
	Parts []session.Part
	// From is who says it. In a group, in a channel, and of what is said to a sub-agent, package
	// agent tells the model: without From it cannot tell people apart. Its ID has only characters
	// that are drawn, and no space at an end: else it would pass for another. Of its Name the first
	// 200 bytes are kept, on one line, without characters that are not drawn.
	From session.Sender
	// Route is where a posted message came from, and so where the answer goes. What it lacks is
	// filled in from that of the message before, as [session.Route.Or] does. Zero: where the one
	// before went, or where the key of the session says. Each part has at most
	// [session.MaxKeyLen] bytes of UTF-8.
	Route session.Route
	// Thread says that the message comes from the conversation Route, which [Supervisor.Bind] has
	// bound to the session: it is answered there. A message to a session that the conversation is
	// not bound to is refused with [ErrNotBound].
	Thread bool
	// Own, beside Thread, is the conversation's own session: the one that the message would go to
	// if the conversation was not bound. It matters if that is in the same tree. Then a message
	// whose ID either of the two has seen is a repeat, so that a conversation may be bound or
	// unbound between two attempts of a transport. Zero: there is none.
	Own session.Key
	// Meta is the caller's own. It is kept with the message and handed back with the reply.
	Meta map[string]string
	// At is when it was said, from 1678 to 2262. Zero: when it is posted.
	At time.Time
	// Senders are the people who bind the turn that reads the message, see
	// [policy.Rules.ForSenders], and what comes of it. They are recorded with it. Empty: the person
	// that [policy.SenderOf] makes of From and the Route, if it is one; a message that a session
	// sends binds nothing then. Of more than [policy.MaxSenders] only their conversations are kept.
	Senders []policy.Sender
}

// A Receipt says what became of a message that was posted.
type Receipt struct {
	// Session is the session that has the message.
	Session session.Key `json:"session"`
	// Run is the run of a sub-agent that takes the message: the one that is under way, or the one
	// that the message begins. It is empty for a top-level session. [Supervisor.Wait] takes it.
	Run RunID `json:"run,omitempty"`
	// Began says that the message has begun the Run: the one before it had ended.
	Began bool `json:"began,omitempty"`
	// Existing says that the session had seen the ID of the message: this call changed nothing. Run
	// is the run that took the message then.
	Existing bool `json:"existing,omitempty"`
	// Pending says that the message is in the outbox of the sender, and that the caller does not
	// know whether it has arrived, see [Supervisor.SendOut].
	Pending bool `json:"pending,omitempty"`
}

// Ref returns the name of the run that takes the message.
func (r Receipt) Ref() RunRef { return RunRef{Session: r.Session, Run: r.Run} }

// Post puts a message into the inbox of the session to and returns when the message is durable. A
// message with a known ID is accepted and changes nothing: its Receipt says so.
//
// A message to a run that has ended begins another run of the same session: with an id of its own,
// the transcript and the authority of the session, and under the rules of this moment, as a spawn
// is. No session is told of its end: the caller waits for the run of the Receipt. It takes from the
// budget of the session, which is one over all its runs, and has the timeout of the session anew.
//
// The error is an *[InputError] for a text that is blank without Parts, an ID, From.ID or Meta that
// is not UTF-8, a From.ID that could pass for another or an At that is out of range, a
// *[LimitError] for what is too long or too much, a *[session.PartError] for a part that cannot be
// kept or whose File the store does not have, [session.ErrNoFiles] for one with bytes if the store
// has no Files, the error of these Files beside [ErrNotRecorded], [ErrNotFound] for a session that
// is not on record, [session.ErrArchived] for one that is being archived, or one that every command
// can return. It is [ErrStopping] for a run that is to end, or below one that is. For one that has
// ended it is an *[EndedError] below another that has, [ErrEnded] if its first turn never started,
// and a *[policy.Refusal] if a rule refuses another run.
//
// After [ErrUnconfirmed] post the message again with the same ID. After [ErrNotRecorded] it may be
// posted as it is. After every other error the message is not recorded. Bytes that were put for it
// stay with the transcript.
func (s *Supervisor) Post(
	ctx context.Context, root, to session.Key, m Incoming,
) (Receipt, error) {
	return s.post(ctx, root, to, &m, nil, s.asker(root))
}

// asker returns how a caller outside of turns asks the owner of a tree.
func (s *Supervisor) asker(root session.Key) askFunc {
	return func(
		ctx context.Context, cmd tree.Command, read func(*tree.Tree, tree.Reply),
	) error {
		return s.do(ctx, root, cmd, read)
	}
}

// post posts a message, of which change, unless it is nil, says more. It asks the owner with ask.
func (s *Supervisor) post(
	ctx context.Context, root, to session.Key, m *Incoming, change func(*tree.Post), ask askFunc,
) (receipt Receipt, err error) {
	read := func(_ *tree.Tree, r tree.Reply) { receipt = receiptOf(r) }
	for {
		cmd, err := s.postOf(ctx, root, to, m)
		if err == nil && change != nil {
			change(cmd)
		}
		for err == nil {
			if err = ask(ctx, cmd, read); err == nil {
				return receipt, nil
			}
			err = s.answerAll(ctx, to, err, &cmd.Answers)
		}
		if !errors.Is(err, tree.ErrMoved) {
			return Receipt{}, repeatable(err, m.repeat())
		} // the bytes are put again, where the conversation is now
	}
}

// SetRoute sets where the answers of a top-level session go, and those to the sub-agents that it
// spawns from now on, until a message with a route of its own comes. A zero Route sets none. It
// returns when that is durable.
//
// The error is [ErrNoConversation] for a sub-agent, [ErrNotFound] for one that is not on record, a
// *[LimitError] or *[InputError] for a part of the route that is too long or not UTF-8, or one that
// every command can return.
func (s *Supervisor) SetRoute(ctx context.Context, root, to session.Key, r session.Route) error {
	return repeatable(s.do(ctx, root, tree.SetRoute{Run: to, Route: r.Clean()}, nil), repeatAsIs)
}

// PostAndWait posts a message to a top-level session, or one of a bound conversation to a
// sub-agent, as [Supervisor.Post] does, and returns the reply with which a turn ends that answers
// it: one whose Reply.InReplyTo has its ID. Deliver gets the reply, too, if the Config has Replies.
// A turn that failed gives a Reply with Failed, or with the Apology, and so does a run of a
// sub-agent that ended otherwise than well before it answered. What a turn says before its end,
// with [TurnInput.Say], is returned only if nothing follows: then it is the last such text, and
// Reply.Interim is set.
//
// A message whose turn ends with nothing to say is answered by a later turn that no message starts,
// such as one over the end of a sub-agent that is told. If none is to come, and nothing was said
// before either, the error is [ErrSilent]. It is [ErrTurnCancelled] or [ErrStopped] if a person
// ends the turn, or does not let it begin, and [ErrTimedOut] if the time of a run is up and there
// is no Apology.
//
// A message with a known ID is waited for likewise, as long as it is unread, its turn is under way,
// or a later turn is to answer it. A reply to it that is in the outbox is returned. Else the error
// is [ErrAnswered]. What was said and delivered before such a call is known only until its turn has
// ended.
//
// A message that comes before that later turn is read with those of its place that are not answered
// yet, the route that its answer goes to: its reply answers all of them, and none of another place.
//
// Before [Supervisor.Run] has been called PostAndWait waits for that too. Under the context of a
// Runner it gives the slot of the turn back. A journal that fails is waited for. The error is
// [ErrNoConversation] for a message to a sub-agent without [Incoming.Thread], whose answer goes to
// its requester, an *[InputError] for the session whose own turn calls it, or one of Post. It is
// [ErrUnconfirmed] beside the cause of ctx or [ErrShutdown] if that ends the wait, and if another
// owner takes the tree meanwhile: then a message that was recorded is answered all the same.
func (s *Supervisor) PostAndWait(
	ctx context.Context, root, to session.Key, m Incoming,
) (Reply, error) {
	got, err := s.postAndWait(ctx, root, to, &m, nil, 0)
	return got.reply, err
}

// postAndWait posts a message, of which change, unless it is nil, says more, and waits for the
// reply: from when the message is recorded, and unless within is 0 at most so long. The receipt is
// zero if the message is not recorded, or it is not known whether it is.
func (s *Supervisor) postAndWait(
	ctx context.Context, root, to session.Key, m *Incoming, change func(*tree.Post),
	within time.Duration,
) (got answered, err error) {
	if to.IsSubagent() && !m.Thread {
		return got, fmt.Errorf("%w: %q", ErrNoConversation, to)
	}
	if t := turnOf(ctx); t != nil && t.Session.Key == to {
		return got, &InputError{
			Field: "session", Reason: "its own turn would wait for the one after it",
		}
	}
	for {
		cmd, err := s.postOf(ctx, root, to, m)
		if err == nil && change != nil {
			change(cmd)
		}
		for err == nil {
			got, err = s.postAndWaitHere(ctx, root, cmd, within)
			if s.elsewhere(ctx, root, err) {
				got, err = s.postAndWaitThere(ctx, root, cmd, within, got, err)
			}
			if t := turnOf(ctx); t != nil && err == nil {
				if err = t.Hear(ctx, got.reply.Senders...); err != nil {
					got.reply, err = Reply{}, cmp.Or(context.Cause(ctx), err)
				} // the message is recorded
			}
			if err == nil {
				return got, nil
			}
			err = s.answerAll(ctx, to, err, &cmd.Answers)
		}
		if !errors.Is(err, tree.ErrMoved) {
			return got, repeatable(err, m.repeat())
		}
	}
}

// postAndWaitHere is postAndWait of a command for a tree of this process.
func (s *Supervisor) postAndWaitHere(
	ctx context.Context, root session.Key, cmd *tree.Post, within time.Duration,
) (answered, error) {
	return withShell(s, root, func(sh *treeShell) (answered, error) {
		return sh.postAndWait(ctx, cmd, within)
	})
}

// postOf returns the command that posts a message, whose bytes are in the store then.
func (s *Supervisor) postOf(
	ctx context.Context, root, to session.Key, m *Incoming,
) (*tree.Post, error) {
	mail, err := m.mail(redactBy(s.cfg.Redact))
	if err != nil {
		return nil, err
	}
	cmd := &tree.Post{
		To: to, ID: s.messageID(*m), Text: tree.Text(m.Text), Mail: mail,
		Senders: sendersIn(ctx, m.Senders),
	}
	if to != root {
		cmd.RunID = s.ids.newID() // should it begin another run
	}
	if route := m.Route.Clean(); !route.IsZero() {
		cmd.Route = &route
	}
	if m.Thread {
		cmd.Thread, cmd.Own = true, m.Own
	}
	inStore := func(p session.Part) bool { return len(p.Data) > 0 || !p.File.IsZero() }
	if mail != nil && slices.ContainsFunc(mail.Parts, inStore) {
		err = s.storeParts(ctx, root, cmd)
	}
	return cmd, err
}

// Validate returns the error that [Supervisor.Post] returns for m whatever is on record, under the
// Limits of a [Config], unless the ID of m is known: an *[InputError] for a field that cannot be
// accepted, which is a *[LimitError] for one that is too long, or a *[session.PartError]. It
// returns nil if the tree, the rules and the store decide.
func (m Incoming) Validate(l Limits) error {
	mail, err := m.mail(func(s string) string { return s })
	if err != nil {
		return err
	}
	cmd := tree.Post{ID: m.ID, Text: tree.Text(m.Text), Mail: mail, Senders: m.Senders}
	if route := m.Route.Clean(); !route.IsZero() {
		cmd.Route = &route
	}
	if err := l.Check(tree.Ensure{ID: m.ID}); err != nil {
		return err
	}
	return l.CheckPost(&cmd, session.Part.ValidateNew)
}

// ValidateSteer is Validate for [Supervisor.Steer], which reads the ID, the Text and the Senders.
// The errors are the same.
func (m Incoming) ValidateSteer(l Limits) error {
	return l.Check(&tree.Steer{ID: m.ID, Text: tree.Text(m.Text), Senders: m.Senders})
}

// maxGivenName is how many bytes of the name of a sender are read, of which a line is made.
const maxGivenName = 16 << 10

// mail returns what the message has beside its text, or nil for nothing. Its parts are a copy and
// may still have Data. The name of the sender is masked where making one line of it would hide a
// secret.
func (m *Incoming) mail(mask func(string) string) (*tree.Mail, error) {
	mail := &tree.Mail{Parts: slices.Clone(m.Parts), Sender: m.From, Meta: maps.Clone(m.Meta)}
	name := secret.Line(mask, text.Cut(m.From.Name, maxGivenName))
	mail.Sender.Name = text.Line(secret.Cut(mask, name, tree.MaxSenderName))
	if !m.At.IsZero() {
		if mail.Sent = m.At.UnixNano(); mail.Sent == 0 || !time.Unix(0, mail.Sent).Equal(m.At) {
			return nil, &InputError{
				Field: "at", Reason: "the year is " + m.At.Format("2006") + ": want 1678 to 2262",
			}
		}
	}
	if mail.Sent == 0 && mail.Sender.IsZero() && len(mail.Parts) == 0 && len(mail.Meta) == 0 {
		return nil, nil
	}
	return mail, nil
}

// sendersIn returns a list of people as the journal keeps it, with those for whom the turn works
// under whose context ctx is.
func sendersIn(ctx context.Context, list []policy.Sender) []policy.Sender {
	var turn []policy.Sender
	if t := turnOf(ctx); t != nil {
		turn = t.Senders()
	}
	if len(list) == 0 {
		return turn
	}
	return policy.MergeSenders(turn, slices.Clone(list))
}

// storeParts puts the bytes of the parts of a message into the store, in their place, and looks
// whether the store has the files that they name, unless the message is known. The bytes come
// before the fact that names them; so the session has to be on record already.
func (s *Supervisor) storeParts(ctx context.Context, root session.Key, cmd *tree.Post) error {
	to, known := cmd.To, false
	ref := session.Ref{Key: to}
	read := func(_ *tree.Tree, r tree.Reply) {
		if known = r.Existing; r.Run != nil {
			ref.SessionID = r.Run.Spec.SessionID
		}
	}
	err := s.cfg.Limits.CheckPost(cmd, session.Part.ValidateNew)
	if ensure := (tree.Ensure{Run: to, ID: cmd.ID, Of: cmd}); err == nil {
		err = repeatable(s.do(ctx, root, ensure, read), repeatAsIs)
	}
	files := s.cfg.Store.Files
	cmd.SessionID = ref.SessionID
	switch {
	case err != nil || known:
		return err
	case files == nil:
		return fmt.Errorf("spawn: posting to %q: %w", to, session.ErrNoFiles)
	}
	for i := range cmd.Mail.Parts {
		p := &cmd.Mail.Parts[i]
		var err error
		switch {
		case len(p.Data) > 0:
			p.File, err = s.putFile(ctx, ref, bytes.NewReader(p.Data), nil)
			p.Data = nil
		case !p.File.IsZero():
			file := p.File
			err = s.inStore(ctx, func(ctx context.Context) error {
				return checkFile(ctx, files, ref, i, file)
			}, nil)
		}
		if errors.Is(err, session.ErrArchived) && !to.IsSubagent() {
			// A reset has begun a new conversation meanwhile, unless the store is wrong.
			before := ref.SessionID
			moved := s.do(ctx, root, tree.Ensure{Run: to, ID: cmd.ID}, read)
			if moved == nil && ref.SessionID != before {
				err = tree.ErrMoved
			}
		}
		if err != nil {
			return fmt.Errorf("spawn: part %d of a message to %q: %w", i, to, failedStore(err))
		}
	}
	return nil
}

// putFile puts bytes into the files of a transcript for a command, see [Supervisor.inStore].
func (s *Supervisor) putFile(
	ctx context.Context, ref session.Ref, r io.Reader, over func(),
) (f session.File, err error) {
	put := make(chan session.File, 1)
	err = s.inStore(ctx, func(ctx context.Context) error {
		f, err := s.cfg.Store.Files.Put(ctx, ref, r, session.File{})
		put <- f
		return err
	}, over)
	if err == nil {
		f = <-put
	}
	return f, err
}

// failedStore is the error of the Files or the Transcripts of the store, which a command asks
// before anything is recorded: one that is not an answer says so.
func failedStore(err error) error {
	for _, answer := range []error{
		ErrNotRecorded, ErrNotFound, ErrNoRecord, tree.ErrMoved, session.ErrArchived,
	} {
		if errors.Is(err, answer) {
			return err
		}
	}
	if _, ok := errors.AsType[*session.PartError](err); ok {
		return err
	}
	return unrecordedAnyway(err)
}

// unrecordedAnyway adds to an error, which may be nil, that nothing was recorded.
func unrecordedAnyway(err error) error {
	if err == nil || errors.Is(err, ErrNotRecorded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotRecorded, err)
}

// contained calls f in a goroutine of its own, so that a store that panics or ends its goroutine
// has failed and nothing else.
func contained(f func() error) error {
	return contain.Call(f, errStoreExited, func(value any, stack []byte) error {
		return &PanicError{Value: value, Stack: stack}
	})
}

// checkFile returns a *session.PartError unless the store has a file, and why it cannot be read
// whole.
func checkFile(
	ctx context.Context, files session.Files, ref session.Ref, part int, f session.File,
) error {
	_, err := session.ReadFile(ctx, files, ref, f)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return &session.PartError{
			Index: part, Field: "File", Reason: "the transcript of the session has no such file",
		}
	case errors.Is(err, session.ErrCorrupt):
		return &session.PartError{
			Index: part, Field: "File", Reason: "the file has not these bytes: " + err.Error(),
		}
	}
	return err
}

// An answerWaiter is a caller that waits for the reply to a message. It is told of every batch that
// is durable, and looks at the tree then. The lock of the shell guards it.
type answerWaiter struct {
	run   session.Key
	of    *tree.Post  // the message
	ended error       // why the turn under way ends, if a person has said so
	said  *tree.Entry // what was said last before the end of a turn; may be nil
	reply Reply
	err   error
	ready chan struct{} // closed when reply and err are set; nil then
}

// finish ends the wait.
func (w *answerWaiter) finish(e *tree.Entry, err error) {
	var reply Reply
	if e != nil && w.ready != nil {
		reply = *replyOf(e)
	}
	w.end(reply, err)
}

// end is finish for a reply that is there.
func (w *answerWaiter) end(reply Reply, err error) {
	if w.ready == nil {
		return
	}
	w.reply, w.err = reply, err
	close(w.ready)
	w.ready = nil
}

// answered is what became of a message whose sender waits for the reply.
type answered struct {
	receipt Receipt
	reply   Reply
}

// receiptOf returns what became of a message that was posted.
func receiptOf(r tree.Reply) Receipt {
	return Receipt{Session: r.Ref, Run: RunID(r.RunID), Began: r.Began, Existing: r.Existing}
}

// postAndWait posts a message and waits for the reply, see [Supervisor.postAndWait].
func (sh *treeShell) postAndWait(
	ctx context.Context, cmd *tree.Post, within time.Duration,
) (got answered, err error) {
	ready := make(chan struct{})
	w := &answerWaiter{run: cmd.To, of: cmd, ready: ready}
	defer sh.removeAnswerWaiter(w)
	err = sh.owner.Await(ctx, cmd, func(t *tree.Tree, r tree.Reply) {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		got.receipt = receiptOf(r)
		few.Put(&sh.answerWaiters, w, struct{}{})
		if !r.Existing || !sh.takeKept(w) {
			w.begin(t, r)
		}
	})
	if err != nil {
		return answered{}, err
	}
	defer turnOf(ctx).pause()()
	var over <-chan time.Time
	if within > 0 {
		timer := time.NewTimer(within)
		defer timer.Stop()
		over = timer.C
	}
	return sh.awaitAnswer(ctx, w, ready, over, got)
}

// begin has w wait for the answer to a message that is recorded in the batch of which r is.
func (w *answerWaiter) begin(t *tree.Tree, r tree.Reply) {
	w.run = r.Ref // the conversation's own session may have the message
	_, aside := t.Waiting(w.run, w.of)
	if aside && !r.Existing {
		w.finish(nil, ErrTurnCancelled) // in the batch of the message
	}
	w.look(t)
}

// awaitAnswer waits until ready is closed, or over says that the time is up. What is known of the
// message before the answer is in got.
func (sh *treeShell) awaitAnswer(
	ctx context.Context, w *answerWaiter, ready <-chan struct{}, over <-chan time.Time,
	got answered,
) (answered, error) {
	late := false
	select {
	case <-ready:
	case <-ctx.Done():
	case <-sh.sup.closed:
	case <-over:
		late = true
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case w.ready == nil && w.err == nil:
		got.reply = w.reply
		return got, nil
	case w.ready == nil:
		return got, fmt.Errorf("%w: message %s to %q", w.err, text.Quote(w.of.ID), w.run)
	case ctx.Err() != nil:
		return got, sh.unconfirmed(context.Cause(ctx))
	case late:
		return got, context.DeadlineExceeded
	}
	return got, sh.unconfirmed(ErrShutdown)
}

func (sh *treeShell) removeAnswerWaiter(w *answerWaiter) {
	sh.mu.Lock()
	delete(sh.answerWaiters, w)
	sh.mu.Unlock()
	sh.sup.forget(sh)
}

// look ends the wait if the message is answered in the outbox, or does not wait for an answer any
// more: what was said meanwhile is not known.
func (w *answerWaiter) look(t *tree.Tree) {
	final, interim := t.ReplyTo(w.run, w.of)
	if final != nil {
		w.finish(final, nil)
	}
	if w.said = interim; interim == nil {
		w.said = t.LastSaid(w.run, w.of)
	}
	w.endUnless(t, ErrAnswered)
}

// endUnless ends the wait with err unless the message waits for an answer.
func (w *answerWaiter) endUnless(t *tree.Tree, err error) {
	waiting, _ := t.Waiting(w.run, w.of)
	switch {
	case waiting:
	case w.said != nil && w.ended == nil:
		w.finish(w.said, nil)
	default:
		w.finish(nil, err)
	}
}

// tellAnswerWaiters has those who wait for replies take a batch into account. The caller holds the
// lock.
func (sh *treeShell) tellAnswerWaiters(t *tree.Tree, facts []tree.Fact) {
	if len(sh.answerWaiters)+len(sh.kept) == 0 {
		return
	}
	spoken := t.TakeSpoken()
	for w := range sh.answerWaiters {
		w.hear(t, spoken)
		w.tell(t, facts)
	}
	for _, k := range sh.kept {
		k.hear(t, spoken)
		k.tell(t, facts)
	}
}

// hear takes what was said in a batch into account.
func (w *answerWaiter) hear(t *tree.Tree, spoken []*tree.Entry) {
	for _, e := range spoken {
		switch {
		case !t.Answers(e, w.run, w.of):
		case e.Interim:
			w.said = e
		default:
			w.finish(e, nil)
		}
	}
}

// endedBy returns the error of what waits for an answer that a cause ends; nil: no person has said
// so, and the end of the run tells.
func endedBy(c tree.Cause) error {
	switch c {
	case tree.Stopped:
		return ErrStopped
	case tree.Timeout:
		return ErrTimedOut
	default:
		return nil
	}
}

// tell takes the facts of a batch into account, after what was said in it.
func (w *answerWaiter) tell(t *tree.Tree, facts []tree.Fact) {
	opened, aside := false, false
	var ended error // why a turn ended that is over now
	for i := range facts {
		f := &facts[i]
		if f.Kind == tree.TurnEnded && f.Run == w.run {
			ended = w.ended
		}
		switch {
		case f.Kind == tree.Opened:
			opened = true
		case f.Run != w.run:
		case f.Kind == tree.StopRequested:
			w.ended = endedBy(f.Cause)
		case f.Kind == tree.TurnCancelled && w.ended == nil:
			w.ended = ErrTurnCancelled
		case f.Kind == tree.SetAside:
			aside = true
		case f.Kind == tree.TurnEnded && f.Flags&tree.FlagAside != 0:
			_, aside = t.Waiting(w.run, w.of) // it may have been posted since, and start a turn
		case f.Kind == tree.TurnStarted:
			w.ended = nil // it ended the turn before, over which the message may wait on
		}
	}
	ended = cmp.Or(ended, w.ended)
	switch {
	case aside:
		w.finish(nil, cmp.Or(ended, ErrTurnCancelled))
	case ended != nil:
		if waiting, _ := t.Waiting(w.run, w.of); !waiting {
			w.finish(nil, ended)
		}
	case opened:
		w.look(t)
	default:
		w.endUnless(t, ErrSilent)
	}
}

// A Saying is something that a turn tells people before it has ended.
type Saying struct {
	// ID names it within the inputs that the turn consumes. Empty: it is named by its number among
	// those of the turn without an ID, in the order of the calls.
	ID string
	// Text is what people are to read. A long one is cut as a Result.Text is.
	Text string
	// ReplyTo and Voice are as in a [TurnResult].
	ReplyTo string
	Voice   bool
}

// Say tells people something before the turn has ended. It returns when that is durable, and
// Deliver gets it as it gets the reply of the turn, before that. Without Config.Replies it only has
// its event, and answers [Supervisor.PostAndWait].
//
// What is said has a name: the ID, or its number. Under the same name the same session says one
// thing until the inputs are consumed. So a turn that repeats one that a crash interrupted says it
// once, as long as it gives the same names: Say returns nil and sends nothing for a name that is
// known, whatever the Text is. TurnInput.Said is what was said before.
//
// The error is [ErrNoConversation] in a turn without ForPeople, an *[InputError] for a Text that is
// blank or an ID that is not UTF-8, a *[LimitError] for an ID that is too long and for more than
// Limits.Says texts, [ErrStale], or one that every command can return. After [ErrUnconfirmed] say
// it again under an ID: by its number the next one counts as another.
func (t *TurnInput) Say(ctx context.Context, what Saying) error {
	limits := t.shell.sup.cfg.Limits
	out := TurnResult{Reply: what.Text, ReplyTo: what.ReplyTo, Voice: what.Voice}
	_ = t.shell.sup.boundResult(&out, limits) // it has neither JSON nor files
	answer := t.shell.sup.answerOf(out)
	cmd := &tree.Say{Run: t.run.Key(), N: uint32(t.N), ID: what.ID, Answer: answer}
	if err := t.Err(); err != nil {
		return err
	}
	if cmd.ID == "" && !text.IsBlank(what.Text) {
		t.mu.Lock()
		t.says++
		cmd.Num = t.says
		t.mu.Unlock()
	}
	how := repeatAsIs
	if cmd.ID == "" {
		how = repeatWithNoName
	}
	return repeatable(t.do(ctx, cmd, nil), how)
}
