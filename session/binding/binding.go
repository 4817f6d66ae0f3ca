package binding

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// SystemOwner is the owner of a binding that Offshoot made by itself, for example for a sub-agent.
// Every owner may change such a binding.
const SystemOwner = "system"

// MaxLabel is how many characters a label has at most, as one of a run unless that is set.
const MaxLabel = 200

// A Binding says that messages in a conversation go to a session other than the one that the chat
// would have. A conversation has at most one binding. A session may have many.
type Binding struct {
	// Conversation is the name of the binding: a channel and a recipient, and an account and a
	// thread if there are any.
	Conversation session.Route `json:"conversation"`

	Target  session.Key   `json:"target"`           // the session
	Root    session.Key   `json:"root,omitzero"`    // of its tree; zero: not on record
	Label   string        `json:"label,omitempty"`  // a name for people
	By      string        `json:"by"`               // owner, as the channel names people
	Bound   time.Time     `json:"bound"`            // when it was made, or MaxAge was set anew
	Touched time.Time     `json:"touched"`          // when the last message was written
	Idle    time.Duration `json:"idle,omitempty"`   // lifetime without a message; 0: no limit
	MaxAge  time.Duration `json:"maxAge,omitempty"` // greatest lifetime; 0: no limit
	// Created says that the conversation was created for the binding: nothing was said in it
	// before.
	Created bool `json:"created,omitempty"`
	// End is the ID that the end of the binding will have, see [Unbound]; empty: a new one.
	End string `json:"end,omitempty"`
}

var (
	// ErrBound is wrapped by an [Error] if the conversation is bound to another session.
	ErrBound = errors.New("binding: conversation is bound")

	// ErrNotOwner is wrapped by an [Error] if another owner made the binding.
	ErrNotOwner = errors.New("binding: binding belongs to another owner")

	// ErrUnreadable is wrapped by an error that says why the log of bindings cannot be read.
	ErrUnreadable = errors.New("binding: the log cannot be read")
)

// An Error says which binding could not be changed, and what prevents it. It wraps [ErrBound] or
// [ErrNotOwner].
type Error struct {
	Binding Binding // the binding, which is unchanged
	By      string  // the owner who asked for the change
	Err     error   // ErrBound or ErrNotOwner
}

// Error names the conversation, its session, the owner, and the owner who asked for the change.
func (e *Error) Error() string {
	return fmt.Sprintf("%v: %s goes to %q, bound by %s, asked by %s", e.Err,
		describe(e.Binding.Conversation), e.Binding.Target, text.Quote(e.Binding.By),
		text.Quote(e.By))
}

// describe names a conversation in an error.
func describe(r session.Route) string {
	var parts []string
	for _, part := range [...]struct{ name, value string }{
		{"thread", r.Thread}, {"recipient", r.To}, {"account", r.Account}, {"channel", r.Channel},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+text.Quote(part.value))
		}
	}
	if len(parts) == 0 {
		return "the empty conversation"
	}
	return strings.Join(parts, " of ")
}

// Unwrap returns [ErrBound] or [ErrNotOwner].
func (e *Error) Unwrap() error { return e.Err }

// validate returns an error that names the first field which is not valid.
func (b Binding) validate() error {
	reason := ""
	switch {
	case !b.Conversation.Complete():
		reason = describe(b.Conversation) + " has no channel or no recipient"
	case b.Conversation != b.Conversation.Clean():
		reason = describe(b.Conversation) + " has space around a part, or a channel in capitals"
	case !b.Target.IsValid():
		reason = fmt.Sprintf("target %q is not a session", b.Target)
	case !b.Root.IsZero() && (!b.Root.IsValid() || b.Root.IsSubagent()):
		reason = fmt.Sprintf("root %q is not a top-level session", b.Root)
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

// overBound returns an error for a text of b that is too long, or is not UTF-8. The log keeps UTF-8
// alone: a part that it changed would be that of another conversation or owner. A binding of an
// earlier version may be over a bound, and stays.
func (b Binding) overBound() error {
	for _, f := range [...]struct{ name, value string }{
		{"conversation.channel", b.Conversation.Channel},
		{"conversation.account", b.Conversation.Account},
		{"conversation.to", b.Conversation.To},
		{"conversation.thread", b.Conversation.Thread},
		{"by", b.By},
		{"end", b.End},
	} {
		switch {
		case len(f.value) > session.MaxKeyLen:
			return fmt.Errorf("binding: %s has %d bytes, the limit is %d", f.name, len(f.value),
				session.MaxKeyLen)
		case !utf8.ValidString(f.value):
			return fmt.Errorf("binding: %s is not UTF-8: %s", f.name, text.Quote(f.value))
		}
	}
	if n := utf8.RuneCountInString(b.Label); n > MaxLabel {
		return fmt.Errorf("binding: label has %d characters, the limit is %d", n, MaxLabel)
	}
	return nil
}

// Expiry returns when b ends by itself and for which reason. It is the earlier of the two limits.
// ok is false if b does not have a limit.
func (b Binding) Expiry() (at time.Time, why Reason, ok bool) {
	if b.Idle > 0 {
		at, why, ok = b.Touched.Add(b.Idle), ReasonIdle, true
	}
	if end := b.Bound.Add(b.MaxAge); b.MaxAge > 0 && (!ok || end.Before(at)) {
		at, why, ok = end, ReasonMaxAge, true
	}
	return at, why, ok
}

// expired reports whether b has ended by itself at now, and for which reason. A binding with a
// limit of an hour has ended when the hour is over, not after it.
func (b Binding) expired(now time.Time) (why Reason, expired bool) {
	at, why, ok := b.Expiry()
	if !ok || now.Before(at) {
		return ReasonManual, false
	}
	return why, true
}

// mayChange reports whether the owner by may move, limit or end b: the owner who made b, or
// [SystemOwner]. If SystemOwner made b, every owner may. The empty name is not an owner; it may
// change nothing but what SystemOwner made.
func (b Binding) mayChange(by string) bool {
	return b.By == SystemOwner || by == SystemOwner || by != "" && by == b.By
}

// A Reason says why a binding ended. The zero Reason is ReasonManual. Events and logs have its
// word.
type Reason uint8

// The reasons for which bindings end.
const (
	ReasonManual          Reason = iota // its owner asked for it
	ReasonIdle                          // the conversation was idle for too long
	ReasonMaxAge                        // the binding reached its greatest age
	ReasonReplaced                      // the conversation was bound to another session
	ReasonThreadArchived                // the channel closed the thread
	ReasonThreadDeleted                 // the thread was deleted
	ReasonStaleSession                  // the session does not exist any more
	ReasonSpawnFailed                   // the session never began
	ReasonSessionReset                  // the session began anew
	ReasonSessionDeleted                // the session was deleted
	ReasonSubagentOK                    // the sub-agent succeeded
	ReasonSubagentError                 // the sub-agent failed
	ReasonSubagentStopped               // the sub-agent was stopped
	ReasonBindFailed                    // what was begun did not come about, see [Table.Begin]
)

var reasonNames = [...]string{
	ReasonManual: "manual", ReasonIdle: "idle-expired", ReasonMaxAge: "max-age-expired",
	ReasonReplaced: "replaced", ReasonThreadArchived: "thread-archived",
	ReasonThreadDeleted: "thread-delete", ReasonStaleSession: "stale-session",
	ReasonSpawnFailed: "spawn-failed", ReasonSessionReset: "session-reset",
	ReasonSessionDeleted: "session-delete", ReasonSubagentOK: "subagent-complete",
	ReasonSubagentError: "subagent-error", ReasonSubagentStopped: "subagent-killed",
	ReasonBindFailed: "bind-failed",
}

// String returns the word for r, such as "idle-expired".
func (r Reason) String() string { return enum.String(reasonNames[:], "Reason", r) }

// MarshalText returns the word for r. A value that is not a Reason is an error.
func (r Reason) MarshalText() ([]byte, error) {
	return enum.Marshal(reasonNames[:], "binding", "reason", r)
}

// UnmarshalText sets r to the Reason whose word is text, in any letter case of ASCII. Other text is
// an error and leaves r as it is.
func (r *Reason) UnmarshalText(text []byte) error {
	return enum.Unmarshal(reasonNames[:], "binding", "reason", text, r)
}

// An Unbound is a binding that has ended, and why. Its conversation is owed a farewell, and its
// session is to be told, until [Table.Settle] says that both have happened.
type Unbound struct {
	ID      string    `json:"id"` // stays the same over restarts; no two ends share one
	Binding Binding   `json:"binding"`
	Reason  Reason    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	Settled bool      `json:"settled,omitempty"`
	// Begun says that the binding was begun, see [Table.Begin], and has not come about: the
	// conversation was never bound by it.
	Begun bool `json:"begun,omitempty"`
}

// Remembered is how long a [Table] knows of a binding that has ended and is settled: as long as a
// session recognises a message that it is sent again.
const Remembered = 7 * 24 * time.Hour

// forgotten reports whether u is of no use any more at now.
func (u *Unbound) forgotten(now time.Time) bool {
	return u.Settled && now.Sub(u.At) >= Remembered
}
