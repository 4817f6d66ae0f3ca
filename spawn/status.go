package spawn

import "fmt"

// A Status is where a run stands. The zero Status is no status: no run has it.
//
// The names are stable: they are the text form, in JSON too.
type Status uint8

const (
	// Queued runs are admitted and wait for a slot in the lane; no turn of theirs has started.
	Queued Status = iota + 1
	// Running runs have a turn under way.
	Running
	// Waiting runs have no turn under way and hold no slot: they wait for children or for a slot.
	Waiting
	// Stopping runs have a cause to end and wait for their turn or their descendants to be back.
	Stopping
	// OK runs ended by themselves.
	OK
	// Failed runs ended because their Runner returned an error or panicked.
	Failed
	// TimedOut runs ran out of their time.
	TimedOut
	// Cancelled runs were stopped by someone.
	Cancelled
	// Interrupted runs had a turn under way when the process that ran it died.
	Interrupted
	// Incomplete runs were ended by a limit, such as a budget, with what they had.
	Incomplete
)

var statusNames = [...]string{
	"unknown", "queued", "running", "waiting", "stopping",
	"ok", "failed", "timed_out", "cancelled", "interrupted", "incomplete",
}

// Terminal reports whether a run with this status has ended.
func (s Status) Terminal() bool { return s >= OK && s <= Incomplete }

// String returns the name, such as "timed_out", and "unknown" for what is no status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return statusNames[0]
}

// MarshalText returns the name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts what MarshalText returns.
func (s *Status) UnmarshalText(text []byte) error {
	for i, name := range statusNames {
		if name == string(text) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("spawn: unknown status %q", text)
}
