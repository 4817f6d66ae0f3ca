package binding

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Settings is one level of the configuration of thread bindings: that of an account, of a channel,
// or of all sessions. A level does not set a field that is nil, so the zero Settings sets nothing.
// The names in JSON are those of the object threadBindings.
type Settings struct {
	Enabled     *bool    `json:"enabled,omitempty"`     // conversations can be bound
	IdleHours   *float64 `json:"idleHours,omitempty"`   // 0..1,000,000; 0: no limit
	MaxAgeHours *float64 `json:"maxAgeHours,omitempty"` // 0..1,000,000; 0: no limit

	// SpawnSubagentSessions says that a spawn may bind a conversation for its sub-agent.
	SpawnSubagentSessions *bool `json:"spawnSubagentSessions,omitempty"`
}

// maxHours is the greatest limit in hours. It is more than a century: a greater number is a
// mistake.
const maxHours = 1_000_000

// A SettingError is a field of [Settings] that is out of range.
type SettingError struct {
	Field string // the Go field, such as "IdleHours"
	Path  string // its place in the JSON configuration, such as "session.threadBindings.idleHours"
	Value float64
}

// Error names the place, the value and the range.
func (e *SettingError) Error() string {
	return fmt.Sprintf("binding: %s: %v is not in 0..%d", e.Path, e.Value, maxHours)
}

// Validate returns an error that joins a *[SettingError] for every field of s that is out of range.
// path is the place of s in the configuration, such as "session.threadBindings".
func (s Settings) Validate(path string) error {
	var errs []error
	for _, f := range []struct {
		field, name string
		hours       *float64
	}{{"IdleHours", "idleHours", s.IdleHours}, {"MaxAgeHours", "maxAgeHours", s.MaxAgeHours}} {
		if f.hours != nil && !validHours(*f.hours) {
			errs = append(errs, &SettingError{f.field, path + "." + f.name, *f.hours})
		}
	}
	return errors.Join(errs...)
}

// validHours reports whether h is in range. NaN is not.
func validHours(h float64) bool { return h >= 0 && h <= maxHours && !math.IsNaN(h) }

// A Policy holds the rules for the bindings of one account of one channel. The zero Policy allows
// none.
type Policy struct {
	Enabled bool          // conversations can be bound
	Spawn   bool          // a spawn may bind one for its sub-agent; never without Enabled
	Idle    time.Duration // idle limit of new bindings; 0: no limit
	MaxAge  time.Duration // greatest age of new bindings; 0: no limit
}

// Resolve returns the policy that levels of configuration give, from the most specific level on:
// those of the account, of the channel, and of all sessions. Where no level sets a field, bindings
// and spawns are enabled, the idle limit is 24 hours, and the age is not limited. A number that is
// out of range counts as not set, at each level by itself.
func Resolve(levels ...Settings) Policy {
	enabled, spawn, idle, maxAge := true, true, 24.0, 0.0
	for _, l := range slices.Backward(levels) {
		override(&enabled, l.Enabled, true)
		override(&spawn, l.SpawnSubagentSessions, true)
		override(&idle, l.IdleHours, l.IdleHours != nil && validHours(*l.IdleHours))
		override(&maxAge, l.MaxAgeHours, l.MaxAgeHours != nil && validHours(*l.MaxAgeHours))
	}
	return Policy{
		Enabled: enabled, Spawn: enabled && spawn, Idle: hours(idle), MaxAge: hours(maxAge),
	}
}

// override sets *to to *set if the level sets it to a valid value.
func override[T any](to, set *T, valid bool) {
	if set != nil && valid {
		*to = *set
	}
}

// hours returns h hours as a duration. A positive h never rounds to 0, which would take the limit
// away.
func hours(h float64) time.Duration {
	d := time.Duration(h * float64(time.Hour))
	if h > 0 {
		return max(d, 1)
	}
	return d
}
