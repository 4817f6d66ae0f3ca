package announce

import "github.com/offshoot-sdk/offshoot/spawn"

// ErrBusy is what a receiver of deliveries returns, itself or wrapped, when the requester cannot
// take a completion now because a turn of it is under way. It is not a failure. The completion is
// handed over again at the requester's next post, or after 15 seconds. After any other error it is
// handed over again with a growing delay. [errors.Is] reports ErrBusy as [spawn.ErrBusy] as well.
var ErrBusy error = busyError{}

type busyError struct{}

func (busyError) Error() string { return "announce: requester is busy" }

func (busyError) Is(target error) bool { return target == spawn.ErrBusy }
