package spawn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// A Completion is the end of a run on its way to the session that asked for the run. It is frozen
// when the run ends.
type Completion struct {
	Run RunInfo `json:"run"`
	// Fallback is what to announce where Run.Result.Text is blank: the last visible text of the
	// run, else its last tool text, else how far it came. It is empty if there is nothing at all.
	Fallback string `json:"fallback,omitempty"`
	// Nonce was drawn at random when the run ended. It makes the fence of the announcement one that
	// no text of the child can hold.
	Nonce string `json:"nonce"`
	// Requester is the session that is told: the one that spawned the run, or one above it if that
	// one has ended.
	Requester session.Key `json:"requester"`
	// Siblings counts the runs of the same requester that were active when this one ended, and
	// still are when the Completion is made. One that is stopped is not: its end comes at once.
	Siblings int `json:"siblings,omitempty"`
	// Origin is the Request.Origin of what a session that the caller runs spawns in answer: so it
	// counts against the limit of the message of a person that all this began with.
	Origin string `json:"origin,omitempty"`
}

// A Delivery is something that leaves a tree: a completion or an event for a session that the
// caller runs, a reply for people, the end of a run for [Config.Ended], or a message to a session
// of another tree. Exactly one of Completion, Event, Reply, Ended and Sent is set. Config.Deliver
// gets the first three.
//
// It is handed over at least once, always under the same Key and with the same content. A receiver
// that acts only on keys it has not seen acts once. A later attempt differs in Attempt, Epoch,
// MayRepeat, Mode, More, Late and Error alone, and in the Siblings of a Completion, of which fewer
// may be active by then.
//
// Each attempt gets a Delivery of its own: the receiver may keep it, and what Completion and Reply
// point to.
type Delivery struct {
	// Key names the delivery. It stays the same over attempts and restarts, and two deliveries
	// never share one, also after a repair of the store that has lost some of them: what comes
	// after it has the ID of the repair in its key, see [session.RepairMark].
	Key string `json:"key"`
	// Attempt counts from 1: one more than the attempts that are on record as failed. An attempt
	// that ended in ErrBusy is not one of them.
	Attempt int `json:"attempt"`
	// Epoch grows with each owner of the tree, and jumps with a repair of the store. A delivery
	// with an Epoch below one that the receiver has seen for the same tree comes from a former
	// owner.
	Epoch uint64 `json:"epoch"`
	// MayRepeat says that an earlier attempt may already have arrived: it failed, whatever its
	// error, its acknowledgement was lost, or the process that made it died. Attempts are not
	// recorded before they are made, so after a process that died it is set for all that was
	// pending. A [Supervisor.Shutdown] after which nothing still runs records what was not tried.
	MayRepeat bool `json:"mayRepeat,omitempty"`
	// Completion is the end of a run that a session run by the caller asked for; nil in all others.
	Completion *Completion `json:"completion,omitempty"`
	// Reply is what a session run by Offshoot says to people; nil in all others.
	Reply *Reply `json:"reply,omitempty"`
	// Ended is the end of a run as Config.Ended gets it; nil in all others.
	Ended *EndedRun `json:"ended,omitempty"`
	// Event is what the program has a session know that the caller runs, see [Supervisor.Announce];
	// nil in all others.
	Event *Event `json:"event,omitempty"`
	// Sent is a message to the session To of another tree, see [Supervisor.SendOut]; nil in all
	// others. The Supervisor posts it by itself, so that no function of the Config gets it.
	Sent *SentMessage `json:"sent,omitempty"`
	// To is the session that the delivery concerns: the requester of a completion or of a run that
	// has ended, the conversation of a reply, the session that is to know an event, the receiver of
	// a message.
	To session.Key `json:"to"`
	// Update says that the Completion is for people, as Request.Update asks: what it came to is to
	// be said at Route.
	Update bool `json:"update,omitempty"`
	// Route is where what is said goes: of a Reply its Route, of a Completion where its requester
	// was answering when it spawned the run, or what Request.Route said. Zero: that is not known.
	Route session.Route `json:"route,omitzero"`
	// Mode is what Config.Queue says of the session To, of a Completion or an Event; else zero.
	//
	// With QueueFollowup and QueueCollect a receiver whose session is at work returns ErrBusy. With
	// QueueSteer it puts the text into the turn under way, if its loop can, and with QueueInterrupt
	// it ends that turn first; a session at rest begins a turn with either.
	Mode QueueMode `json:"mode,omitempty"`
	// More are further deliveries for the same session in the same call, in their order, at most
	// MaxCollected-1; only with QueueCollect. What the call returns counts for all of them: nil
	// says that all have arrived, and after an error each may be tried again, under its own Key and
	// with other companions. So a receiver that acts once acts once for each Key, see
	// [Delivery.All]. Their own More are empty.
	More []Delivery `json:"more,omitempty"`
	// Late says that the delivery was blocked, and is tried because a person asked for it: later
	// ones for the same destination may have arrived before it.
	Late bool `json:"late,omitempty"`
	// Blocked is when the attempts were given up; the delivery then waits for Retry or Dismiss.
	// Zero while attempts go on, and so always zero in a call to Deliver.
	Blocked time.Time `json:"blocked,omitzero"`
	// Error is what the last attempt failed with, ErrBusy included, with its credentials masked and
	// in at most 10,000 bytes; empty before the first one that failed.
	Error string `json:"error,omitempty"`
}

// A Reply is what a session run by Offshoot says to people, and where it goes.
type Reply struct {
	// From is the session that speaks: the To of the delivery, or a sub-agent that is bound to its
	// thread.
	From session.Key `json:"from"`
	// Text is what people are to read.
	Text string `json:"text"`
	// ReplyTo is the ID of the message that the text answers as a native reply or quote: one that
	// was posted, or one that the model named, which need not exist. Empty: the text answers none
	// in particular.
	ReplyTo string `json:"replyTo,omitempty"`
	// Voice says that the model asked for a voice message.
	Voice bool `json:"voice,omitempty"`
	// Interim says that the turn said this before its end, with [TurnInput.Say], and that another
	// reply to the same messages may follow.
	Interim bool `json:"interim,omitempty"`
	// Turn is the number of the turn of From that says it. A transport that has shown the deltas of
	// that turn finishes what it has shown. Zero in replies that an earlier version recorded.
	Turn int `json:"turn,omitempty"`
	// InReplyTo are the IDs of the messages of people that the text answers, oldest first: those
	// that the turn had read when it said this, and those of the same Route that earlier turns have
	// read without saying anything in the end. Messages that came without an ID are left out.
	InReplyTo []string `json:"inReplyTo,omitempty"`
	// Meta is that of the last of these messages, also of one without an ID.
	Meta map[string]string `json:"meta,omitempty"`
	// Failed says that the turn failed. Text is an apology then, or what the Runner returned beside
	// its error.
	Failed bool `json:"failed,omitempty"`
	// Err is why the turn failed, for logs and for what a program decides on it. It is not for
	// people. Its credentials are masked, as in each Error. It is empty if Failed is not set, if a
	// turn of a top-level session was given up after three crashes, and in replies that an earlier
	// version recorded.
	Err string `json:"err,omitempty"`
	// Route is where the input came from that the turn answers; zero if that is not known.
	Route session.Route `json:"route,omitzero"`
	// Senders are the people for whom the turn worked that says this, see [TurnInput.Senders]. They
	// are not those who read it. Nil: no one, or a reply that an earlier version recorded.
	Senders []policy.Sender `json:"senders,omitempty"`
}

// Blocked returns the blocked deliveries of all trees on record: those that are not tried again
// until [Supervisor.Retry] or [Supervisor.Dismiss] is called. A tree that is not in memory is read
// and not opened. The list beside an error lacks the deliveries of the trees that cannot be read:
// one that does not answer in ten seconds is one of them.
// The error joins those of the trees, each [ErrUnreadable], as is that of a journal that cannot
// list them.
func (s *Supervisor) Blocked(ctx context.Context) (list []Delivery, err error) {
	err = s.eachTree(ctx, func(t *tree.Tree) bool {
		t.Outbox(func(e *tree.Entry) {
			if e.Blocked > 0 {
				list = append(list, deliveryOf(t, e))
			}
		})
		return true
	})
	return list, err
}

// Permanent returns an error for Deliver and Ended to return: err, which says why this delivery can
// never arrive, such as a chat that is gone or a text that the transport refuses. It is
// [ErrPermanent], and wraps err. The delivery is blocked at once, as others are after half an hour:
// it waits for [Supervisor.Retry] or [Supervisor.Dismiss], and those behind it are tried. A nil err
// gives ErrPermanent itself.
//
// [ErrBusy] in the same error comes first, and then a Permanent before a [RetryAfter].
func Permanent(err error) error {
	if err == nil {
		return ErrPermanent
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() + " (no later attempt would arrive)" }

func (e *permanentError) Unwrap() []error { return []error{e.err, ErrPermanent} }

// MaxRetryAfter is the longest pause that a [RetryAfter] gets.
const MaxRetryAfter = tree.LongestWait

// RetryAfter returns an error for Deliver and Ended to return: err, with the pause that the
// receiver asks for, as one does whose rate limit was reached. It wraps err. The delivery is tried
// again when the pause is over, and at most 15 seconds later. That time does not count to the half
// hour after which a delivery is blocked, so that a receiver which always asks for a pause is asked
// for ever. With [ErrBusy] the requester is busy for so long, unless it is free before that, see
// [Supervisor.Ready].
//
// A pause of more than [MaxRetryAfter] is cut to that, and one of less than a second takes a
// second, because they may go on for ever. One that is not positive has the delivery tried again as
// after any other error. A nil err is taken for one that says that nothing more is known.
func RetryAfter(pause time.Duration, err error) error {
	if err == nil {
		err = errLater
	}
	return &RetryAfterError{Pause: pause, Err: err}
}

var errLater = errors.New("spawn: the receiver takes nothing now")

// RetryAfterError is the error that [RetryAfter] returns.
type RetryAfterError struct {
	Pause time.Duration // as the receiver has asked for it
	Err   error
}

// Error implements error.
func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("%v (to be tried again after %v)", e.Err, e.Pause)
}

// Unwrap returns Err.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// pauseOf returns the pause that an error of a receiver asks for, or 0.
func pauseOf(err error) time.Duration {
	if e, ok := errors.AsType[*RetryAfterError](err); ok {
		return max(e.Pause, 0)
	}
	return 0
}

// Ready says that a session which the caller runs is free: a completion that its receiver was too
// busy for, see [ErrBusy], is handed over now, instead of up to 15 seconds later. Call it when a
// turn of the session has ended. It returns when that is durable. If the receiver is being called
// meanwhile, and says that it is busy, it is called again at once. For a session that nothing waits
// for, or that never was, it does nothing. The error is one that every command can return.
func (s *Supervisor) Ready(ctx context.Context, root session.Key) error {
	waits := false
	err := s.readTree(ctx, root, func(t *tree.Tree) { waits = t.WaitsFor(root) })
	if err != nil || !waits { // a session that never was gets no journal
		return unrecorded(ctx, err)
	}
	return repeatable(s.do(ctx, root, tree.Ready{To: root}, nil), repeatAsIs)
}

// Retry makes the blocked delivery with a key due again. It opens no tree except that of the
// delivery. The error is [ErrNotFound] if no tree has the delivery or it is not blocked; if it may
// be in a tree that cannot be read, [ErrNotRecorded] beside those of such trees, each
// [ErrUnreadable]; or one that every command can return.
func (s *Supervisor) Retry(ctx context.Context, key string) error {
	return s.settleBlocked(ctx, key, SettleRetry)
}

// Dismiss gives the blocked delivery with a key up. It opens no tree except that of the delivery.
// The errors are those of [Supervisor.Retry].
func (s *Supervisor) Dismiss(ctx context.Context, key string) error {
	return s.settleBlocked(ctx, key, SettleDismiss)
}

// settleBlocked retries or dismisses a blocked delivery.
func (s *Supervisor) settleBlocked(ctx context.Context, key string, how Settlement) error {
	var root session.Key
	err := s.eachTree(ctx, func(t *tree.Tree) bool {
		if entryWithKey(t, key) != nil {
			root = t.Root().Key()
		}
		return root.IsZero()
	})
	var ord uint32
	if root.IsValid() { // then trees that cannot be read do not matter
		err = s.do(ctx, root, nil, func(t *tree.Tree, _ tree.Reply) {
			if e := entryWithKey(t, key); e != nil {
				ord = e.Ord
			}
		})
	}
	if err != nil {
		return unrecorded(ctx, err)
	}
	if ord == 0 {
		return fmt.Errorf("%w: delivery %s", ErrNotFound, text.Quote(key))
	}
	return repeatable(s.do(ctx, root, how.command(ord), nil), repeatAsIs)
}

// entryWithKey returns the entry of a tree's outbox that has a key, or nil.
func entryWithKey(t *tree.Tree, key string) (found *tree.Entry) {
	t.Outbox(func(e *tree.Entry) {
		if deliveryKey(t, e.Ord) == key {
			found = e
		}
	})
	return found
}
