package announce

import "github.com/offshoot-sdk/offshoot/spawn"

// ErrBusy is what a receiver of deliveries returns, itself or wrapped, when the requester cannot
// take a completion now because a turn of it is under way. It is not a failure: the completion is
// handed over again at the requester's next post, or after 15 seconds. Any other error is retried
// with a growing delay. It is spawn.ErrBusy as well, so that a Deliver of package spawn may return
// it.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "announce: requester is busy" }

func (busyError) Is(target error) bool { return target == spawn.ErrBusy }
