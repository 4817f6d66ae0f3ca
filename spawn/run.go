package spawn

import (
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// A RunID names a run. It is a UUID and stays the same over restarts.
type RunID string

// A RunRef says which run of a session is meant.
type RunRef struct {
	Session session.Key `json:"session"`
	// Run is the id of the run. Empty: the present run of the session, which is the last one if
	// that has ended.
	Run RunID `json:"run,omitempty"`
}

func (r RunRef) String() string {
	if r.Run == "" {
		return r.Session.String()
	}
	return r.Session.String() + ", run " + string(r.Run)
}

// RunInfo is what is known of a run at one moment. It is a value: a later change of the run does
// not show in it.
//
// A session may have several runs, one after the other: a message to a sub-agent that has ended
// begins the next one. What a run says of ID, Status, Result, Error, Created, Started, Deadline and
// Ended is of that run alone. A run that another one has followed never changes any more. The rest
// is of the session, and the same for all its runs.
type RunInfo struct {
	ID        RunID        `json:"id"`
	Key       session.Key  `json:"key"`
	Root      session.Key  `json:"root"`
	Parent    session.Key  `json:"parent"`
	SessionID string       `json:"sessionId,omitempty"`
	Depth     int          `json:"depth"`
	Role      session.Role `json:"role"`
	Agent     string       `json:"agent"`
	Label     string       `json:"label,omitempty"`
	// Name is what the requester calls the session, see [Request].Name. It is empty if the
	// requester has given the name to another session since, or the session was archived. So it is
	// that of one session of the requester at most.
	Name   string `json:"name,omitempty"`
	Task   string `json:"task"`
	Status Status `json:"status"`
	Result Result `json:"result,omitzero"`
	// Announcement is what the run said in its announce step, which its requester is told in place
	// of the Result, see [TurnInput].Announces. It has at most 65,536 bytes. Empty: there was none,
	// or it said nothing.
	Announcement string `json:"announcement,omitempty"`
	// Missed is how many messages of [Supervisor.Steer] the run has not read: they came when its
	// last turn was at its end, or no turn took them and none followed. It is 0 before the end of
	// the run.
	Missed int `json:"missed,omitempty"`
	// Error says why the run did not end well. It is empty for a run that did, and for one that has
	// no cause to end.
	Error string `json:"error,omitempty"`
	// Refused says why the last answer of a run was refused that has failed for that, see
	// [TurnResult.Refused]; empty in all others. Result has the answer.
	Refused  string    `json:"refused,omitempty"`
	Model    ModelInfo `json:"model,omitzero"`
	Thinking string    `json:"thinking,omitempty"`
	// Tools are the names of the tools that the run may use under the present rules and for its
	// Senders: those that policy granted at the spawn, without the Revoked ones. A turn never gets
	// more.
	Tools []string `json:"tools,omitempty"`
	// Revoked are the names of the tools that were granted and that the present rules take away,
	// from the run or from a session above it, or that its Senders may not use.
	Revoked []string `json:"revoked,omitempty"`
	// Sandboxed says that the run is in a sandbox: it was granted so, or the present rules want it
	// for the run or for a session above it.
	Sandboxed bool      `json:"sandboxed,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Created   time.Time `json:"created"`           // when the run was asked for
	Started   time.Time `json:"started,omitzero"`  // when the first turn did
	Deadline  time.Time `json:"deadline,omitzero"` // set with Started, if the run has a timeout
	Ended     time.Time `json:"ended,omitzero"`
	// Turns is how many turns of the session have started, up to the end of the run.
	Turns    int `json:"turns"`
	Children int `json:"children"` // how many are active
	// FollowUp says that a message to the session, which had ended, began the run. The Task is that
	// of the first run.
	FollowUp bool `json:"followUp,omitempty"`
	// From is the session that sent the message of a FollowUp. Zero: a person or the program did.
	From session.Key `json:"from,omitzero"`
	// Thread says that the message of a FollowUp was said in a conversation that is bound to the
	// session. What the run answers is said there.
	Thread bool `json:"thread,omitempty"`
	// Persistent says that the session stays open for what people write in its conversation when a
	// run has ended, as [Request].Session has asked for it.
	Persistent bool `json:"persistent,omitempty"`
	// Delete says that the session is archived as soon as the end of a run was read, as
	// [Request].Delete has asked for it, and not some time after that.
	Delete bool `json:"delete,omitempty"`
	// Conversations are those that are bound to the session now, the oldest first: what people
	// write there goes to it. All runs of a session have the same.
	Conversations []session.Route `json:"conversations,omitempty"`
	// Senders are the people for whom the run has worked so far, and the runs of the session
	// before it: see [TurnInput.Senders]. Who is told of the end of the run works for them,
	// too. Nil: for no person, as far as is known.
	Senders []policy.Sender `json:"senders,omitempty"`
}

// Ref returns the name of the run.
func (r RunInfo) Ref() RunRef { return RunRef{Session: r.Key, Run: r.ID} }

// Elapsed returns how long the run has worked at the time now: from its first turn to its end, or
// to now if it has not ended. It is zero for a run that never started, and where the clock was set
// back meanwhile.
func (r RunInfo) Elapsed(now time.Time) time.Duration {
	switch {
	case r.Started.IsZero():
		return 0
	case r.Ended.IsZero():
		return max(now.Sub(r.Started), 0)
	}
	return max(r.Ended.Sub(r.Started), 0)
}

// ModelInfo names the model of a run at three stages. Each name may be empty.
type ModelInfo struct {
	Requested string `json:"requested,omitempty"` // what the requester asked for
	Resolved  string `json:"resolved,omitempty"`  // what policy chose
	Actual    string `json:"actual,omitempty"`    // what the Runner says it called
}

// A Status says how a run stands. The zero Status is not one that a run has.
//
// The names are stable: they are the text form, in JSON too.
type Status uint8

// The statuses. The package doc has the transitions.
const (
	// StatusQueued runs are admitted and wait for a slot of the lane. None of their turns has
	// started.
	StatusQueued Status = iota + 1
	// StatusRunning runs have a turn under way.
	StatusRunning
	// StatusWaiting runs have no turn under way and hold no slot. They wait for children or a slot.
	StatusWaiting
	// StatusStopping runs have a cause to end. They wait for their turn to return, or for their
	// descendants to end.
	StatusStopping
	// StatusOK runs ended without a cause: their work was done.
	StatusOK
	// StatusFailed runs ended because their Runner returned an error or panicked.
	StatusFailed
	// StatusTimedOut runs had no time left.
	StatusTimedOut
	// StatusCancelled runs were stopped, by a call of Stop or with a run above them.
	StatusCancelled
	// StatusInterrupted runs had a turn under way when the process that ran it died.
	StatusInterrupted
	// StatusIncomplete runs were ended by a limit, such as a budget. What they had is kept.
	StatusIncomplete
)

var statusNames = [...]string{
	"unknown", "queued", "running", "waiting", "stopping",
	"ok", "failed", "timed_out", "cancelled", "interrupted", "incomplete",
}

// Terminal reports whether a run with this status has ended.
func (s Status) Terminal() bool { return s >= StatusOK && s <= StatusIncomplete }

// String returns the name, such as "timed_out". That of the zero Status is "unknown".
func (s Status) String() string { return enum.String(statusNames[:], "Status", s) }

// MarshalText returns the name. A value that is not a Status is an error.
func (s Status) MarshalText() ([]byte, error) {
	return enum.Marshal(statusNames[:], "spawn", "status", s)
}

// UnmarshalText sets s to the Status of that name, in any letter case of ASCII.
func (s *Status) UnmarshalText(text []byte) error {
	return enum.Unmarshal(statusNames[:], "spawn", "status", text, s)
}
