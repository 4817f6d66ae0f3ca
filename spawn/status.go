package spawn

import "github.com/offshoot-sdk/offshoot/internal/enum"

// A Status is where a run stands. The zero Status is no status: no run has it.
//
// The names are stable: they are the text form, in JSON too.
type Status uint8

const (
	// StatusQueued runs are admitted and wait for a slot in the lane; no turn of theirs has started.
	StatusQueued Status = iota + 1
	// StatusRunning runs have a turn under way.
	StatusRunning
	// StatusWaiting runs have no turn under way and hold no slot: they wait for children or for a slot.
	StatusWaiting
	// StatusStopping runs have a cause to end and wait for their turn or their descendants to be back.
	StatusStopping
	// StatusOK runs ended by themselves.
	StatusOK
	// StatusFailed runs ended because their Runner returned an error or panicked.
	StatusFailed
	// StatusTimedOut runs ran out of their time.
	StatusTimedOut
	// StatusCancelled runs were stopped by someone.
	StatusCancelled
	// StatusInterrupted runs had a turn under way when the process that ran it died.
	StatusInterrupted
	// StatusIncomplete runs were ended by a limit, such as a budget, with what they had.
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
