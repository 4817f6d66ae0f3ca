package spawn

import "github.com/offshoot-sdk/offshoot/internal/enum"

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
