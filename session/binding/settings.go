package binding

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Settings is one level of configuration of thread bindings: that of an account, of a channel, or
// of all sessions. A nil field is one that the level does not set. The names in JSON are those of
// the object threadBindings.
type Settings struct {
	Enabled               *bool    `json:"enabled,omitempty"`
	IdleHours             *float64 `json:"idleHours,omitempty"`   // 0..1,000,000; 0: no limit
	MaxAgeHours           *float64 `json:"maxAgeHours,omitempty"` // 0..1,000,000; 0: no limit
	SpawnSubagentSessions *bool    `json:"spawnSubagentSessions,omitempty"`
}

// maxHours is the most hours that a limit may have, more than a century: what is greater is a
// mistake.
const maxHours = 1_000_000

// Validate returns an error that names every field that is out of range, under the path of
// configuration at which s stands.
func (s Settings) Validate(path string) error {
	var errs []error
	for _, f := range []struct {
		name  string
		hours *float64
	}{{"idleHours", s.IdleHours}, {"maxAgeHours", s.MaxAgeHours}} {
		if f.hours != nil && !validHours(*f.hours) {
			errs = append(errs, fmt.Errorf("binding: %s.%s: %v is not in 0..%d", path, f.name, *f.hours, maxHours))
		}
	}
	return errors.Join(errs...)
}

// validHours reports whether h is in range, which what is not a number is not.
func validHours(h float64) bool { return h >= 0 && h <= maxHours && !math.IsNaN(h) }

// A Policy is what holds for the bindings of one account of one channel.
type Policy struct {
	Enabled bool          // whether conversations there can be bound at all
	Spawn   bool          // whether a spawn may bind one for its sub-agent; never without Enabled
	Idle    time.Duration // what new bindings get; 0: no limit
	MaxAge  time.Duration // what new bindings get; 0: no limit
}

// Resolve returns the policy that the levels of configuration give, the most specific first: those
// of the account, of the channel, and of all sessions. What no level sets is built in: enabled,
// with spawns, 24 hours idle, no greatest age. A number that is out of range counts as not set, at
// each level by itself.
func Resolve(levels ...Settings) Policy {
	enabled, spawn, idle, maxAge := true, true, 24.0, 0.0
	for _, l := range slices.Backward(levels) {
		override(&enabled, l.Enabled, true)
		override(&spawn, l.SpawnSubagentSessions, true)
		override(&idle, l.IdleHours, l.IdleHours != nil && validHours(*l.IdleHours))
		override(&maxAge, l.MaxAgeHours, l.MaxAgeHours != nil && validHours(*l.MaxAgeHours))
	}
	return Policy{Enabled: enabled, Spawn: enabled && spawn, Idle: hours(idle), MaxAge: hours(maxAge)}
}

// override sets *to to *set, if there is one that is valid.
func override[T any](to, set *T, valid bool) {
	if set != nil && valid {
		*to = *set
	}
}

// hours returns h hours as a duration; a limit never rounds to none.
func hours(h float64) time.Duration {
	d := time.Duration(h * float64(time.Hour))
	if h > 0 {
		return max(d, 1)
	}
	return d
}
