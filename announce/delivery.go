package announce

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// ErrBusy is what a receiver of deliveries returns, itself or wrapped, when the requester cannot take a completion now
// because a turn of it is under way. It is no failure: the completion is handed over again at the requester's next post, or
// after 15 seconds. Any other error is retried with a growing delay. It is spawn.ErrBusy as well, so that a Deliver of
// package spawn may return it.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "announce: requester is busy" }

func (busyError) Is(target error) bool { return target == spawn.ErrBusy }

// A Delivery is a completion on its way to a session that the caller runs. It is a value and safe to keep.
//
// It arrives at least once and always under the same Key, so a receiver that acts only on keys it has not seen acts once.
// Attempt counts the attempts from 1. Epoch grows with each owner of the tree: a delivery with an Epoch below one already
// seen for the same tree comes from a former owner. Maybe says that an earlier attempt may have arrived.
type Delivery struct {
	Key       string        `json:"key"`
	Attempt   int           `json:"attempt"`
	Epoch     uint64        `json:"epoch"`
	MayRepeat bool          `json:"maybe,omitempty"`
	To        session.Key   `json:"to"`    // who asked
	Run       spawn.RunInfo `json:"run"`   // what ended; Run.Result.Text is what the Runner returned, byte for byte
	Event     Event         `json:"event"` // what is told of it
	// Blocked says since when nobody tries any more, and Error why the last attempt failed; both are zero in a call to
	// Deliver.
	Blocked time.Time `json:"blocked,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// NewDelivery makes the delivery of an outbox entry that carries a completion. An entry without one gives a delivery
// without a run.
func NewDelivery(o spawn.Delivery) Delivery {
	d := Delivery{
		Key: o.Key, Attempt: o.Attempt, Epoch: o.Epoch, MayRepeat: o.MayRepeat, To: o.To, Blocked: o.Blocked, Error: o.Error,
	}
	if o.Completion != nil {
		d.Run = o.Completion.Run
		d.Event = NewEvent(*o.Completion)
	}
	return d
}

// ForModel returns the fenced text to put before the requester's model, the same on every attempt. See [Event.ForModel].
func (d Delivery) ForModel() string { return d.Event.ForModel() }

// ForPerson returns the result alone, sanitized. See [Event.ForPerson].
func (d Delivery) ForPerson() string { return d.Event.ForPerson() }

// A Reply is what a session run by Offshoot says to people. The promises about Key, Attempt, Epoch and Maybe are those of
// [Delivery].
type Reply struct {
	Key       string        `json:"key"`
	Attempt   int           `json:"attempt"`
	Epoch     uint64        `json:"epoch"`
	MayRepeat bool          `json:"maybe,omitempty"`
	To        session.Key   `json:"to"`               // the conversation
	From      session.Key   `json:"from"`             // who speaks: To itself, or a sub-agent bound to its thread
	Text      string        `json:"text"`             // visible text only; empty if there is nothing to send
	Failed    bool          `json:"failed,omitempty"` // the turn failed: Text is an apology, not an answer
	Route     session.Route `json:"route,omitzero"`
	Blocked   time.Time     `json:"blocked,omitzero"`
	Error     string        `json:"error,omitempty"`
}

// NewReply makes the reply of an outbox entry that carries one. The text is made visible once more, so that no
// path to people goes around [Visible]. An entry without a reply gives one without text.
func NewReply(o spawn.Delivery) Reply {
	r := Reply{
		Key: o.Key, Attempt: o.Attempt, Epoch: o.Epoch, MayRepeat: o.MayRepeat, To: o.To, Blocked: o.Blocked, Error: o.Error,
	}
	if o.Reply != nil {
		r.From, r.Failed, r.Route = o.Reply.From, o.Reply.Failed, o.Reply.Route
		r.Text, _ = Visible(o.Reply.Text)
	}
	return r
}
