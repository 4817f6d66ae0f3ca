package spawn

import (
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A RunID names a run. It is a UUID and stays the same over restarts.
type RunID string

// RunInfo is what is known of a run at one moment. It is a value: a later change of the run does not show in it.
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
	// Error says why a run did not end well; empty for one that did or that has not ended.
	Error    string    `json:"error,omitempty"`
	Model    ModelInfo `json:"model,omitzero"`
	Thinking string    `json:"thinking,omitempty"`
	// Tools are the names that policy granted at the spawn. What a turn gets is never more.
	Tools     []string  `json:"tools,omitempty"`
	Sandboxed bool      `json:"sandboxed,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	Created   time.Time `json:"created"`
	Started   time.Time `json:"started,omitzero"`  // of the first turn
	Deadline  time.Time `json:"deadline,omitzero"` // set with Started, if the run has a timeout
	Ended     time.Time `json:"ended,omitzero"`
	Turns     int       `json:"turns"`
	Children  int       `json:"children"` // active now
}

// Elapsed returns how long the run has worked at now: from its first turn to its end. Zero if it never started.
func (r RunInfo) Elapsed(now time.Time) time.Duration {
	switch {
	case r.Started.IsZero():
		return 0
	case r.Ended.IsZero():
		return now.Sub(r.Started)
	}
	return r.Ended.Sub(r.Started)
}

// ModelInfo is which model was asked for, which one policy chose, and which one really ran.
type ModelInfo struct {
	Requested string `json:"requested,omitempty"`
	Resolved  string `json:"resolved,omitempty"`
	Actual    string `json:"actual,omitempty"`
}

// A Completion is the end of a run on its way to whoever asked for it. It is frozen when the run ends.
type Completion struct {
	Run RunInfo `json:"run"`
	// Fallback is what to announce where Run.Result.Text is blank: the last visible text of the run, else its last
	// tool text, else how far it came; empty if there is nothing at all.
	Fallback string `json:"fallback,omitempty"`
	// Nonce was drawn when the run ended. It makes the fence of the announcement one that no text of the child can hold.
	Nonce string `json:"nonce"`
	// Requester is the session that is told: the one that spawned the run, or one above it if that one has ended.
	Requester session.Key `json:"requester"`
	// Siblings counts the runs of the same requester that were still active when this one ended.
	Siblings int `json:"siblings,omitempty"`
}

// An Delivery is an entry of a tree's outbox: something that leaves the tree.
//
// It is handed over at least once, always under the same Key. Attempt counts from 1; Epoch grows with each owner of the
// tree, so what carries an older Epoch comes from a former owner; Maybe says that an earlier attempt may already have
// arrived, because its acknowledgement was lost or the process that made it died.
type Delivery struct {
	Key       string `json:"key"`
	Attempt   int    `json:"attempt"`
	Epoch     uint64 `json:"epoch"`
	MayRepeat bool   `json:"maybe,omitempty"`
	// Completion is set for the end of a run that a session run by the caller asked for.
	Completion *Completion `json:"completion,omitempty"`
	// Reply is set for what a session run by Offshoot says to people.
	Reply *Reply `json:"reply,omitempty"`
	// To is the session that the entry concerns: the requester of a completion, the conversation of a reply.
	To session.Key `json:"to"`
	// Blocked says since when delivery has been given up until somebody retries or dismisses it; zero if it has not.
	Blocked time.Time `json:"blocked,omitzero"`
	// Error is what the last attempt failed with.
	Error string `json:"error,omitempty"`
}

// A Reply is the visible text of a managed turn, and where it goes.
type Reply struct {
	From session.Key `json:"from"`
	Text string      `json:"text"`
	// StatusFailed says that the turn failed: Text is an apology, not an answer.
	Failed bool          `json:"failed,omitempty"`
	Route  session.Route `json:"route,omitzero"` // of the input that the turn answers
}
