package session

import (
	"fmt"
	"time"
)

// A Record describes a session to a process that starts again: where the session stands in its
// tree, where its transcript is, where its replies go, and with which settings it was made.
//
// A Record is a value for callers to keep. Nothing in Offshoot stores one yet: the type fixes the
// form in which a registry of sessions will keep them.
type Record struct {
	Lineage
	SessionID string    `json:"sessionId"`           // name of the transcript
	Route     Route     `json:"route,omitzero"`      // where its replies went when it was made
	Label     string    `json:"label,omitempty"`     // a name for people
	Model     string    `json:"model,omitempty"`     // as resolved; empty: the caller's default
	Thinking  string    `json:"thinking,omitempty"`  // level of thinking, as resolved
	Workdir   string    `json:"workdir,omitempty"`   // where tools work; empty: agent's workspace
	Sandboxed bool      `json:"sandboxed,omitempty"` // whether its tools run in a sandbox
	Created   time.Time `json:"created"`
	Ended     time.Time `json:"ended,omitzero"`    // zero: it has not ended
	Archived  time.Time `json:"archived,omitzero"` // zero: its transcript is not archived
}

// Ref returns the name of the transcript.
func (r Record) Ref() Ref { return Ref{Key: r.Key, SessionID: r.SessionID} }

// Validate returns the error of [Lineage.Validate] or of [Ref.Validate], or an error that says
// which of the times contradicts another.
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
		return fmt.Errorf("session: record of %q: ended %v before it was created %v",
			r.Key, r.Ended, r.Created)
	case !r.Archived.IsZero() && (r.Ended.IsZero() || r.Archived.Before(r.Ended)):
		return fmt.Errorf("session: record of %q: archived %v before it ended %v",
			r.Key, r.Archived, r.Ended)
	}
	return nil
}
