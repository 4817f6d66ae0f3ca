package spawn

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A RunID names a run. It is a UUID and stays the same over restarts.
type RunID string

// RunInfo is what is known of a run at one moment. It is a value: a later change of the run does
// not show in it.
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
	Task      string       `json:"task"`
	Status    Status       `json:"status"`
	Result    Result       `json:"result,omitzero"`
	// Error says why the run did not end well. It is empty for a run that did, and for one that has
	// no cause to end.
	Error    string    `json:"error,omitempty"`
	Model    ModelInfo `json:"model,omitzero"`
	Thinking string    `json:"thinking,omitempty"`
	// Tools are the names of the tools that the run may use under the present rules: those that
	// policy granted at the spawn, without the Revoked ones. A turn never gets more.
	Tools []string `json:"tools,omitempty"`
	// Revoked are the names of the tools that were granted and that the present rules take away,
	// from the run or from a session above it.
	Revoked []string `json:"revoked,omitempty"`
	// Sandboxed says that the run is in a sandbox: it was granted so, or the present rules want it
	// for the run or for a session above it.
	Sandboxed bool      `json:"sandboxed,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Created   time.Time `json:"created"`
	Started   time.Time `json:"started,omitzero"`  // when the first turn did
	Deadline  time.Time `json:"deadline,omitzero"` // set with Started, if the run has a timeout
	Ended     time.Time `json:"ended,omitzero"`
	Turns     int       `json:"turns"`    // how many have started
	Children  int       `json:"children"` // how many are active
}

// Elapsed returns how long the run has worked at the time now: from its first turn to its end, or
// to now if it has not ended. It is zero for a run that never started.
func (r RunInfo) Elapsed(now time.Time) time.Duration {
	switch {
	case r.Started.IsZero():
		return 0
	case r.Ended.IsZero():
		return now.Sub(r.Started)
	}
	return r.Ended.Sub(r.Started)
}

// ModelInfo names the model of a run at three stages. Each name may be empty.
type ModelInfo struct {
	Requested string `json:"requested,omitempty"` // what the requester asked for
	Resolved  string `json:"resolved,omitempty"`  // what policy chose
	Actual    string `json:"actual,omitempty"`    // what the Runner says it called
}
