package spawn

import (
	"context"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// An Event is something that the program has a top-level session know: no message of a person and
// no end of a run, such as that a job of the program is over.
type Event struct {
	// ID names the event in its session. The ids of messages are others.
	ID string `json:"id"`
	// Text says what has happened, in a form of the caller's.
	Text string `json:"text"`
	// Origin is the Request.Origin of what a session that the caller runs spawns in answer. It is
	// set in a Delivery alone.
	Origin string `json:"origin,omitempty"`
}

// Announce has the top-level session to know of an event, and returns when that is durable. A
// session run by Offshoot finds it in its inbox, as an InputEvent that starts a turn, and what it
// says goes where its last answer went. One that the caller runs is handed it by Deliver, in order
// with the completions for that session.
//
// An event whose ID the session has had in the last seven days is accepted and changes nothing: the
// Receipt says so. So each event arrives once for its ID, however often Announce is called.
//
// The error is an *[InputError] for an ID that is empty or not UTF-8, a blank Text or a sub-agent,
// a *[LimitError] for what is too long, or one that every command can return. After
// [ErrUnconfirmed] announce the event again; after every other one it is not recorded.
func (s *Supervisor) Announce(
	ctx context.Context, to session.Key, e Event,
) (receipt Receipt, err error) {
	switch {
	case e.ID == "":
		return Receipt{}, &InputError{Field: "id", Reason: "it is empty"}
	case !isTree(to):
		return Receipt{}, &InputError{
			Field: "to", Reason: strconv.Quote(to.String()) + " is not a top-level session",
		}
	}
	cmd := &tree.Post{To: to, ID: e.ID, Text: tree.Text(e.Text), Event: true}
	err = s.do(ctx, to, cmd, func(_ *tree.Tree, r tree.Reply) {
		receipt = Receipt{Session: r.Ref, Existing: r.Existing}
	})
	return receipt, repeatable(err, repeatByID)
}

// programEvent returns the event that an entry of the outbox is.
func programEvent(e *tree.Entry) *Event {
	return &Event{
		ID: e.RunID, Text: string(e.Text), Origin: "e:" + strconv.FormatUint(uint64(e.Ord), 10),
	}
}
