package session

import (
	"fmt"
	"time"
)

// A Record is what is known of a session when a process starts again: who it is and where it stands, where its conversation is kept,
// where its words go, and what it was made with. It is a value that others keep and return; nothing in this package stores it.
type Record struct {
	Lineage
	SessionID string    `json:"sessionId"`          // the name of its transcript
	Route     Route     `json:"route,omitzero"`     // where its words go, as of when it was made
	Label     string    `json:"label,omitempty"`    // for people
	Model     string    `json:"model,omitempty"`    // as resolved; empty: the caller's default
	Thinking  string    `json:"thinking,omitempty"` // as resolved
	Workdir   string    `json:"workdir,omitempty"`  // where its tools work; empty: the agent's workspace
	Sandboxed bool      `json:"sandboxed,omitempty"`
	Created   time.Time `json:"created"`
	Ended     time.Time `json:"ended,omitzero"`    // zero while it lives
	Archived  time.Time `json:"archived,omitzero"` // zero while it is kept
}

// Ref returns the name of the session's transcript.
func (r Record) Ref() Ref { return Ref{Key: r.Key, SessionID: r.SessionID} }

// Validate returns the error of [Lineage.Validate] or [Ref.Validate], or one that names the field that cannot be.
func (r Record) Validate() error {
	if err := r.Lineage.Validate(); err != nil {
		return err
	}
	if err := r.Ref().Validate(); err != nil {
		return err
	}
	switch {
	case r.Created.IsZero():
		return fmt.Errorf("session: record of %q: created is zero", r.Key)
	case !r.Ended.IsZero() && r.Ended.Before(r.Created):
		return fmt.Errorf("session: record of %q: ended %v before it was created %v", r.Key, r.Ended, r.Created)
	case !r.Archived.IsZero() && (r.Ended.IsZero() || r.Archived.Before(r.Ended)):
		return fmt.Errorf("session: record of %q: archived %v before it ended", r.Key, r.Archived)
	}
	return nil
}
