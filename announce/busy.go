package announce

import (
	"time"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// ErrBusy is what a receiver of deliveries returns, itself or wrapped, when the requester cannot
// take a completion now because a turn of it is under way. It is not a failure. The completion is
// handed over again when the requester is free, which [spawn.Supervisor.Ready] says, at its next
// post, or after 15 seconds. After any other error it is handed over again with a growing delay,
// unless that is a [Permanent] or a [RetryAfter]. [errors.Is] reports ErrBusy as [spawn.ErrBusy] as
// well.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "announce: requester is busy" }

func (busyError) Is(target error) bool { return target == spawn.ErrBusy }

// Permanent returns an error for a receiver of deliveries to return: err, which says why this one
// can never arrive. It is blocked at once, and those behind it are tried. See [spawn.Permanent].
func Permanent(err error) error { return spawn.Permanent(err) }

// RetryAfter returns an error for a receiver of deliveries to return: err, with the pause after
// which the delivery is to be tried again. See [spawn.RetryAfter].
func RetryAfter(pause time.Duration, err error) error { return spawn.RetryAfter(pause, err) }
