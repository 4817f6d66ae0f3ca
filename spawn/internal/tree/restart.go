package tree

import (
	"github.com/offshoot-sdk/offshoot/session"
)

// A session may have several runs, one after the other. The Spec of a session says what its first
// run began with, and holds for all of them: key, agent, authority, budget. A Begin says what a
// later run began with.

// A Begin is what a later run of a session began with. It never changes.
type Begin struct {
	ID  string `json:"id"`  // of the run
	Ord uint32 `json:"ord"` // of the input that it began with
	// From is the session that asked for it, which is above. Zero: a person or the program did.
	From     session.Key    `json:"from,omitzero"`
	Announce bool           `json:"announce,omitempty"` // its requester is told of the end
	Thread   bool           `json:"thread,omitempty"`   // a conversation that is bound began it
	Request  string         `json:"request,omitempty"`  // see requestOf; empty: the run is its own
	ByModel  bool           `json:"byModel,omitempty"`  // it counts against the limit of its request
	Route    *session.Route `json:"route,omitempty"`    // of what the requester was answering
	Created  int64          `json:"created"`            // Unix nanoseconds
}

// A Past is a run of a session that has ended, and that a later one has followed. It never changes.
// Its Usage is that of the run alone, and Turns is the number of its last turn.
type Past struct {
	Begin    *Begin  `json:"begin,omitempty"` // nil: it was the first run
	State    State   `json:"state"`
	Cause    Cause   `json:"cause,omitempty"`
	Reason   Text    `json:"reason,omitempty"`
	Silent   bool    `json:"silent,omitempty"`
	Quiet    bool    `json:"quiet,omitempty"`
	Announce bool    `json:"announce,omitempty"` // see RunState.Announce
	Answer   *Result `json:"answer,omitempty"`
	Usage    Usage   `json:"usage,omitzero"`
	Nonce    uint64  `json:"nonce,omitempty"`
	Siblings uint32  `json:"siblings,omitempty"`
	Turns    uint32  `json:"turns,omitempty"`
	Started  int64   `json:"started,omitempty"`
	Deadline int64   `json:"deadline,omitempty"`
	Ended    int64   `json:"ended,omitempty"`

	held int // how many inputs and entries of the outbox name it; derived
}

// A Conversation is one that is bound to a session: what is said there goes to the session.
type Conversation struct {
	Route session.Route `json:"route"`
	At    int64         `json:"at"` // since when, in Unix nanoseconds
}
