package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent/internal/thread"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
)

// A FocusRequest is the argument of [Runtime.Focus].
//
// Focus does not ask whether By may speak to the Session: the program decides who may focus what,
// before it calls Focus. The Session keeps the rules, the tools and the rights that it has, and
// from then on all people who may write in the Conversation speak to it. What Rules.Chats say of
// the Conversation binds each turn that works for a person who has written there, see
// [policy.Chat]. For a sub-agent that stays so after Unfocus.
type FocusRequest struct {
	// Conversation is what is bound, or where the thread is created that is: a channel and a
	// recipient, and an account and a thread if there are any.
	Conversation session.Route
	// Session is the session that gets what is said there: a sub-agent or a top-level session of
	// any tree.
	Session session.Key
	// By is the owner: who asks for it, as the channel names people, or [binding.SystemOwner] if
	// the program does. Only the owner may move or end the binding later. Every owner may do so
	// with what SystemOwner has bound, and SystemOwner with all. A transport on which a person can
	// choose an id like that of SystemOwner puts something before the ids. As the ID of
	// Incoming.From it has only characters that are drawn, and no space at an end: else it would
	// pass for another.
	By string
	// Label is the name of the session for people, of at most 200 characters. Empty: the label of
	// the sub-agent, if it has one.
	Label string
	// NewThread creates a thread in the Conversation and binds that.
	NewThread bool
	// ID is the transport's name for the request, so that a repeated one creates no second thread.
	// It is unique in the Conversation, and bound as the ID of an Incoming is: UTF-8 of at most
	// Limits.ID bytes. Empty: it is always new.
	ID string
}

// An UnfocusRequest is the argument of [Runtime.Unfocus].
type UnfocusRequest struct {
	Conversation session.Route
	By           string // who asks for it, as in a FocusRequest
	// Reason is why, for the farewell. A transport that learns that a thread was closed or deleted
	// says so as [binding.SystemOwner], with [binding.ReasonThreadArchived] or
	// [binding.ReasonThreadDeleted]. Zero: a person asked for it.
	Reason binding.Reason
}

// Focus binds a conversation to a session: what is posted to the conversation's own session from
// then on goes to that one, and is answered in the conversation. It returns the binding when that
// is durable. A binding that the conversation has to another session ends.
//
// Focus does all of that or nothing: if it fails, the conversation stays bound as it was. A store
// that fails at once is asked again for a moment. What cannot be undone at once, because the store
// fails or ctx ends, is undone as soon as it can be, by the next process too; until then a
// [RunInfo] of the Session may list the conversation. A thread that was created cannot be taken
// back: it is said there that nothing came of it, and a Focus with the same ID uses it again. If
// the store keeps nothing at all, this process alone knows that it has to be said: it does so at
// once, a Shutdown at the latest, and where the process dies before, the thread is left without a
// word.
//
// The limits of the binding are those of [Threads]. They can be changed with [Runtime.LimitFocus].
//
// What the Session would refuse as a message of the Conversation, under the rules of this moment,
// Focus refuses likewise, with the same error and before anything exists: a run that is to end, and
// one that has ended and that no other may follow.
//
// The error is a [*policy.Refusal] with [RuleThread] if Threads do not allow it, a *[binding.Error]
// that is [binding.ErrNotOwner] if another owner has bound the conversation, [ErrNotFound],
// [ErrArchived] or [ErrEnded] for a sub-agent that is not on record, was archived, or has ended
// for good, an *[InputError] for a request that cannot be, which is a *[LimitError] for a By, a
// Label, an ID or a part of the Conversation that is too long, a *[CallbackError] if the thread
// cannot be created, or one that every command can return.
func (rt *Runtime) Focus(ctx context.Context, q FocusRequest) (binding.Binding, error) {
	at := q.Conversation.Clean()
	root, err := rt.focusRoot(ctx, &q, at)
	if err == nil {
		err = endedBefore(ctx)
	}
	if err != nil {
		return binding.Binding{}, unrecorded(ctx, err)
	}
	b, limits := rt.bindings, rt.cfg().Threads.policy(at)
	asked := binding.Request{
		Conversation: at, Target: q.Session, Root: root, By: q.By,
		Label: secret.Line(rt.maskKept, q.Label),
		Idle:  limits.Idle, MaxAge: limits.MaxAge, Replace: true,
		Created: q.NewThread && q.ID == "", // else a former call may have created it
		Begun:   session.NewID(),
	}
	if q.NewThread {
		leave, err := b.creates()
		if err != nil {
			return binding.Binding{}, unrecorded(ctx, err)
		}
		defer leave()
		label := rt.shownLine(q.Label)
		at, err = b.create(ctx, NewThread{
			Key: threadKey(q.Session, strings.Join([]string{
				"focus", at.Channel, at.Account, at.To, cmp.Or(q.ID, session.NewID()),
			}, "\x00")),
			In: at, Session: q.Session,
			Name:  thread.Name(label, q.Session.Agent()),
			Intro: thread.Intro(label, q.Session.Agent(), limits.Idle, limits.MaxAge),
		}, func(made session.Route) {
			asked.Conversation, asked.Created = made, true
			b.atLast(ctx, func(ctx context.Context) {
				if err := b.begin(ctx, asked); err != nil {
					b.unclaimed(asked, binding.ReasonBindFailed, err)
				}
			})
		})
		if err != nil {
			return binding.Binding{}, unrecorded(ctx, err)
		}
		asked.Conversation = at
	}
	made, err := b.focus(ctx, asked, q.NewThread)
	return made, rt.commandOrArchived(ctx, q.Session, err)
}

// focus binds a conversation by hand. The tree of the session comes before the table here, so that
// a store which fails in between leaves the conversation to the session that it had. What the tree
// may have then is owed in the table from before. Creates says that the conversation was created
// for it: people there are told if it does not come about.
func (b *bindings) focus(
	ctx context.Context, q binding.Request, creates bool,
) (made binding.Binding, err error) {
	defer b.look()
	asked := q
	asked.Created = creates
	unlock, err := b.shared.Lock(ctx, q.Conversation, func() { b.doubt(q.Root) })
	if err != nil {
		b.unclaimed(asked, binding.ReasonBindFailed, err)
		return made, unrecorded(ctx, err)
	}
	defer unlock()
	if err = b.begin(ctx, asked); err != nil {
		b.unclaimed(asked, binding.ReasonBindFailed, err)
		return made, err
	}
	if err = b.rt.sup.Bind(ctx, q.Root, q.Target, q.Conversation); err != nil {
		return made, err
	}
	if made, err = b.bind(ctx, q); err != nil {
		soon, cancel := context.WithTimeout(ctx, treeToldWithin)
		defer cancel()
		_ = b.leaveHeld(soon, b.opened(), &binding.Binding{ // after an error, settle does it
			Conversation: q.Conversation, Target: q.Target, Root: q.Root,
		}, binding.ReasonBindFailed)
	}
	return made, err
}

// begin has the table owe an end of what may come about, or may have: see [binding.Table.Begin].
func (b *bindings) begin(ctx context.Context, asked binding.Request) error {
	_, err := change(ctx, b, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) (struct{}, error) {
		return struct{}{}, t.Begin(ctx, asked, binding.ReasonBindFailed, now)
	})
	return err
}

// focusRoot checks a request, gives it the label of the run if it has none, and returns the tree of
// its session.
func (rt *Runtime) focusRoot(
	ctx context.Context, q *FocusRequest, at session.Route,
) (root session.Key, err error) {
	switch {
	case !at.Complete():
		return root, &InputError{
			Field: "Conversation", Reason: "it has no channel or no recipient",
		}
	case checkBound(at) != nil:
		return root, checkBound(at)
	case checkOwner(q.By) != nil:
		return root, checkOwner(q.By)
	case !q.NewThread && isOwn(q.Session, at):
		return root, &InputError{
			Field: "Conversation", Reason: "it is the session's own: what is written there goes " +
				"to it without a binding",
		}
	case rt.cfg().Limits.checkID(q.ID) != nil:
		return root, rt.cfg().Limits.checkID(q.ID)
	case utf8.RuneCountInString(q.Label) > binding.MaxLabel:
		return root, &LimitError{
			Field: "Label", Size: utf8.RuneCountInString(q.Label), Limit: binding.MaxLabel,
			Unit: "characters", Path: "binding.MaxLabel",
		}
	case q.NewThread && at.Thread != "":
		return root, &InputError{
			Field: "Conversation", Reason: "it is a thread, in which none can be created",
		}
	}
	if root, err = rt.Session(q.Session).tree(ctx); err != nil {
		return root, rt.commandOrArchived(ctx, q.Session, err)
	}
	if err := rt.cfg().Threads.refuse(at, "focus", q.NewThread); err != nil {
		return root, err
	}
	rt.expectRun()
	// What forbids it is found before a thread exists, and before another binding has to go.
	if q.Session.IsSubagent() {
		label, err := rt.sup.LabelOf(ctx, root, q.Session)
		if err != nil {
			return root, rt.commandOrArchived(ctx, q.Session, err)
		}
		if q.Label == "" {
			q.Label = rt.threadLabel(label)
		}
		err = rt.sup.CanBind(ctx, root, q.Session)
		return root, rt.commandOrArchived(ctx, q.Session, inOurWords(err))
	}
	return root, inOurWords(rt.cfg().Rules.CheckAgent(q.Session))
}

// Unfocus ends the binding of a conversation and returns it when that is durable. What is posted to
// the conversation's own session from then on is that session's. A store that fails at once is
// asked again for a moment.
//
// The conversation gets a farewell, for which Unfocus does not wait. It may be said before or after
// what the program answers to who has asked for the end.
//
// No [RunInfo] lists it any more, unless the tree of the session cannot record that within a
// second: then it does as soon as it can.
//
// The error is [ErrNotFound] if the conversation is not bound, a *[binding.Error] that is
// [binding.ErrNotOwner] if another owner has bound it, an *[InputError] for a By that is empty or
// could pass for another, which is a *[LimitError] for one that is too long, and for a Reason that
// is not one, or one that every command can return.
func (rt *Runtime) Unfocus(
	ctx context.Context, q UnfocusRequest,
) (ended binding.Unbound, err error) {
	if err := cmp.Or(rt.checked(ctx), checkOwner(q.By)); err != nil {
		return ended, err
	}
	if _, err := q.Reason.MarshalText(); err != nil {
		return ended, &InputError{Field: "Reason", Reason: "it is not one of package binding"}
	}
	if err := endedBefore(ctx); err != nil {
		return ended, err
	}
	rt.expectRun()
	ended, err = change(ctx, rt.bindings, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) (binding.Unbound, error) {
		return t.Unbind(ctx, q.Conversation, q.By, q.Reason, now)
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, treeToldWithin)
		defer cancel()
		// After an error, settle does it.
		_, _ = rt.bindings.leave(ctx, rt.bindings.opened(), &ended)
	}
	return ended, unboundError(err)
}

// treeToldWithin is how long Unfocus waits until the tree of a session knows of the end.
const treeToldWithin = time.Second

// isOwn reports whether a conversation is the one that the key of a session names.
func isOwn(key session.Key, at session.Route) bool {
	own := key.Route()
	return own.Complete() && own.Channel == at.Channel && own.Account == at.Account &&
		strings.EqualFold(own.To, at.To) && strings.EqualFold(own.Thread, at.Thread)
}

// checkOwner returns an *InputError for the owner of a binding that is empty or could pass for
// another, and a *LimitError for one that is too long.
func checkOwner(by string) error {
	if by == "" {
		return &InputError{
			Field: "By", Reason: "it is empty: name who asks for it, or binding.SystemOwner",
		}
	}
	if fault := text.IDFault(by); fault != "" {
		return &InputError{Field: "By", Reason: fault}
	}
	if n := len(by); n > session.MaxKeyLen {
		return &LimitError{
			Field: "By", Size: n, Limit: session.MaxKeyLen, Unit: "bytes", Path: "session.MaxKeyLen",
		}
	}
	return nil
}

// checkFocusLimit returns an *[InputError] for a limit of a binding that cannot be.
func checkFocusLimit(limit binding.Limit) error {
	for _, f := range []struct {
		name  string
		value *time.Duration
	}{{"Limit.Idle", limit.Idle}, {"Limit.MaxAge", limit.MaxAge}} {
		if f.value != nil && *f.value < 0 {
			return &InputError{
				Field: f.name, Reason: fmt.Sprintf("%v is negative; 0: no limit", *f.value),
			}
		}
	}
	return nil
}

// unboundError adds our own [ErrNotFound] to that of the table, and says what was not found.
func unboundError(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("%w: the conversation is not bound to a session: %w", ErrNotFound, err)
	}
	return err
}

// LimitFocus gives the binding of a conversation new limits, which count from now, and those of the
// same session on the same channel and account that the owner by may change. It returns the changed
// bindings, of which all have the new limits or none has. A store that fails at once is asked again
// for a moment. The errors are those of [Runtime.Unfocus], with a *[LimitError] for a By that is
// too long and an *[InputError] for a limit that is negative.
func (rt *Runtime) LimitFocus(
	ctx context.Context, conversation session.Route, by string, limit binding.Limit,
) (changed []binding.Binding, err error) {
	if err := cmp.Or(rt.checked(ctx), checkOwner(by), checkFocusLimit(limit)); err != nil {
		return nil, err
	}
	if err := endedBefore(ctx); err != nil {
		return nil, err
	}
	changed, err = change(ctx, rt.bindings, func(
		ctx context.Context, t *binding.Table, now time.Time,
	) ([]binding.Binding, error) {
		return t.SetLimit(ctx, conversation, by, limit, now)
	})
	return changed, unboundError(err)
}

// Bindings returns the bindings that have not expired, of all trees, in the order of their
// conversations. The error is one that every call that only reads can return.
func (rt *Runtime) Bindings(ctx context.Context) (list []binding.Binding, err error) {
	if err := rt.checked(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	table, err := rt.bindings.current(ctx)
	if err != nil {
		return nil, err
	}
	return table.All(time.Now()), nil
}

// unrecorded is the error of what a command asks before it is sent: if that cannot be read, or ctx
// or a shutdown ends it, it says that nothing was recorded. An input that is wrong stays that, also
// if ctx has ended.
func unrecorded(ctx context.Context, err error) error {
	ended := ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
	switch {
	case err == nil, errors.Is(err, ErrNotRecorded), errors.Is(err, ErrUnconfirmed):
		return err
	case ended, errors.Is(err, ErrUnreadable), errors.Is(err, ErrShutdown):
		return fmt.Errorf("agent: %w: %w", ErrNotRecorded, err)
	}
	return err
}

// orWrong returns what wrong says of the arguments of a command, unless that is nil, in the place
// of an error that says whether the command was recorded: it never is, and the same command would
// fail again. Any other err it returns as it is.
func orWrong(err error, wrong func() error) error {
	if errors.Is(err, ErrNotRecorded) || errors.Is(err, ErrUnconfirmed) {
		return cmp.Or(wrong(), err)
	}
	return err
}

// endedBefore returns why a command is not recorded whose ctx has ended before the call, or nil. It
// is for commands that do something outside first.
func endedBefore(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("agent: %w: %w", ErrNotRecorded, context.Cause(ctx))
}
