package binding

import (
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/session"
)

// SystemOwner is the owner of a binding that no person made, such as that of a spawn. Every owner
// may change it.
const SystemOwner = "system"

// A Binding says that what people write in a conversation goes to a session other than the one that
// its chat would have. A conversation has at most one binding; a session may have many.
type Binding struct {
	Conversation session.Route `json:"conversation"`     // which has a channel and whom to; with its account and thread it is the binding's name
	Target       session.Key   `json:"target"`           // the session
	Label        string        `json:"label,omitempty"`  // for people
	By           string        `json:"by"`               // who made it, as the channel names people, or SystemOwner
	Bound        time.Time     `json:"bound"`            // when
	Touched      time.Time     `json:"touched"`          // when a message was last written there
	Idle         time.Duration `json:"idle,omitempty"`   // how long it lasts without a message; 0: for ever
	MaxAge       time.Duration `json:"maxAge,omitempty"` // how long it lasts at most; 0: for ever
}

var (
	// ErrBound is what an *[Error] is when the conversation is bound to another session already.
	ErrBound = errors.New("binding: conversation is bound")

	// ErrNotOwner is what an *[Error] is when another owner made the binding.
	ErrNotOwner = errors.New("binding: binding belongs to another owner")
)

// An Error says which binding could not be changed, and what stands in the way. It wraps [ErrBound]
// or [ErrNotOwner].
type Error struct {
	Binding Binding // as it stands
	By      string  // the owner who asked
	Err     error
}

// Error names the conversation, its session, the owner and who asked.
func (e *Error) Error() string {
	return fmt.Sprintf("%v: %q of %q on %q goes to %q, bound by %q, asked by %q", e.Err, e.Binding.Conversation.Thread,
		e.Binding.Conversation.To, e.Binding.Conversation.Channel, e.Binding.Target, e.Binding.By, e.By)
}

// Unwrap returns [ErrBound] or [ErrNotOwner].
func (e *Error) Unwrap() error { return e.Err }

// validate returns an error that names the field that cannot be.
func (b Binding) validate() error {
	reason := ""
	switch {
	case !b.Conversation.Complete():
		reason = fmt.Sprintf("conversation %+v has no channel or no recipient", b.Conversation)
	case b.Conversation != b.Conversation.Clean():
		reason = fmt.Sprintf("conversation %+v is not clean", b.Conversation)
	case !b.Target.IsValid():
		reason = fmt.Sprintf("target %q is not a session", b.Target)
	case b.By == "":
		reason = "by is empty"
	case b.Bound.IsZero() || b.Touched.Before(b.Bound):
		reason = fmt.Sprintf("touched %v, bound %v", b.Touched, b.Bound)
	case b.Idle < 0:
		reason = fmt.Sprintf("idle %v is negative", b.Idle)
	case b.MaxAge < 0:
		reason = fmt.Sprintf("max age %v is negative", b.MaxAge)
	}
	if reason != "" {
		return fmt.Errorf("binding: %s", reason)
	}
	return nil
}

// Expiry returns when b ends by itself and why, the earlier of the two limits; ok is false if it
// has none.
func (b Binding) Expiry() (at time.Time, why Reason, ok bool) {
	if b.Idle > 0 {
		at, why, ok = b.Touched.Add(b.Idle), ReasonIdle, true
	}
	if end := b.Bound.Add(b.MaxAge); b.MaxAge > 0 && (!ok || end.Before(at)) {
		at, why, ok = end, ReasonMaxAge, true
	}
	return at, why, ok
}

// expired reports whether b has ended by itself at now, and why. A binding that lasts an hour has
// ended when the hour is over.
func (b Binding) expired(now time.Time) (why Reason, expired bool) {
	at, why, ok := b.Expiry()
	if !ok || now.Before(at) {
		return ReasonManual, false
	}
	return why, true
}

// mayChange reports whether the owner called by may move, limit or end b. The owner who made b may,
// and so may [SystemOwner]. Every owner may if SystemOwner made b. The empty name may change
// nothing that a person made.
func (b Binding) mayChange(by string) bool {
	return b.By == SystemOwner || by == SystemOwner || by != "" && by == b.By
}

// A Reason is why a binding ended. Its word is what events and logs say.
type Reason uint8

// The reasons for which bindings end.
const (
	ReasonManual          Reason = iota // its owner asked for it
	ReasonIdle                          // no message for too long
	ReasonMaxAge                        // it lasted as long as it may
	ReasonReplaced                      // the conversation was bound to another session
	ReasonThreadArchived                // the channel closed the thread
	ReasonThreadDeleted                 // the thread is gone
	ReasonStaleSession                  // the session is not there any more
	ReasonSpawnFailed                   // the session never began
	ReasonSessionReset                  // the session began anew
	ReasonSessionDeleted                // the session was deleted
	ReasonSubagentOK                    // the sub-agent ended well
	ReasonSubagentError                 // the sub-agent failed
	ReasonSubagentStopped               // the sub-agent was stopped
)

var reasonNames = [...]string{
	ReasonManual: "manual", ReasonIdle: "idle-expired", ReasonMaxAge: "max-age-expired", ReasonReplaced: "replaced",
	ReasonThreadArchived: "thread-archived", ReasonThreadDeleted: "thread-delete", ReasonStaleSession: "stale-session",
	ReasonSpawnFailed: "spawn-failed", ReasonSessionReset: "session-reset", ReasonSessionDeleted: "session-delete",
	ReasonSubagentOK: "subagent-complete", ReasonSubagentError: "subagent-error", ReasonSubagentStopped: "subagent-killed",
}

// String returns the word for r, such as "idle-expired".
func (r Reason) String() string { return enum.String(reasonNames[:], "Reason", r) }

// MarshalText returns the word for r. A value that is not a Reason is an error.
func (r Reason) MarshalText() ([]byte, error) {
	return enum.Marshal(reasonNames[:], "binding", "reason", r)
}

// UnmarshalText sets r to the Reason that text is the word for.
func (r *Reason) UnmarshalText(text []byte) error {
	return enum.Unmarshal(reasonNames[:], "binding", "reason", text, r)
}

// An Unbound is a binding that ended, and why. It is what a farewell is made of.
type Unbound struct {
	Binding Binding
	Reason  Reason
}
