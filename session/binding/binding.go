package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/enum"
)

// SystemOwner is the owner of a binding that no person made, such as that of a spawn. Anybody may change it.
const SystemOwner = "system"

// A Binding says that what people write in a conversation goes to a session other than the one that its chat would have. A
// conversation has at most one binding; a session may have many.
type Binding struct {
	Conversation Route         `json:"conversation"`     // which has a channel and whom to; with its account and thread it is the binding's name
	Target       Key           `json:"target"`           // the session
	Label        string        `json:"label,omitempty"`  // for people
	By           string        `json:"by"`               // who made it, as the channel names people, or SystemOwner
	Bound        time.Time     `json:"bound"`            // when
	Touched      time.Time     `json:"touched"`          // when somebody last wrote there
	Idle         time.Duration `json:"idle,omitempty"`   // how long nobody may write there before it ends; 0: for ever
	MaxAge       time.Duration `json:"maxAge,omitempty"` // how long it lasts at most; 0: for ever
}

var (
	// ErrBound is what a *[BindingError] is when the conversation is bound to another session already.
	ErrBound = errors.New("session: conversation is bound")

	// ErrNotOwner is what a *[BindingError] is when somebody else made the binding.
	ErrNotOwner = errors.New("session: binding belongs to somebody else")
)

// A BindingError says which binding could not be changed, and what stands in the way. It wraps [ErrBound] or [ErrNotOwner].
type BindingError struct {
	Binding Binding // as it stands
	By      string  // who asked
	Err     error
}

// Error names the conversation, its session, the owner and who asked.
func (e *BindingError) Error() string {
	return fmt.Sprintf("%v: %q of %q on %q goes to %q, bound by %q, asked by %q", e.Err, e.Binding.Conversation.Thread,
		e.Binding.Conversation.To, e.Binding.Conversation.Channel, e.Binding.Target, e.Binding.By, e.By)
}

// Unwrap returns [ErrBound] or [ErrNotOwner].
func (e *BindingError) Unwrap() error { return e.Err }

// Validate returns an error that names the field that cannot be.
func (b Binding) Validate() error {
	reason := ""
	switch {
	case !b.Conversation.Complete():
		reason = fmt.Sprintf("conversation %+v has no channel or nobody to write to", b.Conversation)
	case b.Conversation != b.Conversation.Clean():
		reason = fmt.Sprintf("conversation %+v is not clean", b.Conversation)
	case !b.Target.IsValid():
		reason = fmt.Sprintf("target %q is no session", b.Target)
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
		return fmt.Errorf("session: binding: %s", reason)
	}
	return nil
}

// Expiry returns when b ends by itself and why, the earlier of the two limits; ok is false if it has none.
func (b Binding) Expiry() (at time.Time, why UnbindReason, ok bool) {
	if b.Idle > 0 {
		at, why, ok = b.Touched.Add(b.Idle), UnbindIdle, true
	}
	if end := b.Bound.Add(b.MaxAge); b.MaxAge > 0 && (!ok || end.Before(at)) {
		at, why, ok = end, UnbindMaxAge, true
	}
	return at, why, ok
}

// Expired reports whether b has ended by itself at now, and why. A binding that lasts an hour has ended when the hour is over.
func (b Binding) Expired(now time.Time) (why UnbindReason, expired bool) {
	at, why, ok := b.Expiry()
	if !ok || now.Before(at) {
		return UnbindManual, false
	}
	return why, true
}

// MayChange reports whether somebody may move, limit or end b: who made it, anybody if the system did, and the system. Nobody, "", may
// change nothing that a person made.
func (b Binding) MayChange(by string) bool {
	return b.By == SystemOwner || by == SystemOwner || by != "" && by == b.By
}

// An UnbindReason is why a binding ended. Its word is what events and logs say.
type UnbindReason uint8

// The reasons for which bindings end.
const (
	UnbindManual          UnbindReason = iota // somebody asked for it
	UnbindIdle                                // nobody wrote for too long
	UnbindMaxAge                              // it lasted as long as it may
	UnbindReplaced                            // the conversation was bound to another session
	UnbindThreadArchived                      // the channel closed the thread
	UnbindThreadDeleted                       // the thread is gone
	UnbindStaleSession                        // the session is not there any more
	UnbindSpawnFailed                         // the session never began
	UnbindSessionReset                        // the session began anew
	UnbindSessionDeleted                      // the session was deleted
	UnbindSubagentOK                          // the sub-agent ended well
	UnbindSubagentError                       // the sub-agent failed
	UnbindSubagentStopped                     // the sub-agent was stopped
)

var unbindReasonNames = [...]string{
	UnbindManual: "manual", UnbindIdle: "idle-expired", UnbindMaxAge: "max-age-expired", UnbindReplaced: "replaced",
	UnbindThreadArchived: "thread-archived", UnbindThreadDeleted: "thread-delete", UnbindStaleSession: "stale-session",
	UnbindSpawnFailed: "spawn-failed", UnbindSessionReset: "session-reset", UnbindSessionDeleted: "session-delete",
	UnbindSubagentOK: "subagent-complete", UnbindSubagentError: "subagent-error", UnbindSubagentStopped: "subagent-killed",
}

// String returns the word for r, such as "idle-expired".
func (r UnbindReason) String() string { return enum.String(unbindReasonNames[:], "UnbindReason", r) }

// MarshalText returns the word for r. A value that is no UnbindReason is an error.
func (r UnbindReason) MarshalText() ([]byte, error) {
	return enum.Marshal(unbindReasonNames[:], "session", "unbind reason", r)
}

// UnmarshalText sets r to the UnbindReason that text is the word for.
func (r *UnbindReason) UnmarshalText(text []byte) error {
	return enum.Unmarshal(unbindReasonNames[:], "session", "unbind reason", text, r)
}

// An Unbound is a binding that ended, and why. It is what a farewell is made of.
type Unbound struct {
	Binding Binding
	Reason  UnbindReason
}
