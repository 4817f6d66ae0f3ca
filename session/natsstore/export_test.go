package natsstore

import "time"

// MayPass reports whether a request that has failed so is sent again.
func MayPass(err error) bool { return mayPass(err) }

// Attempt returns how long a request is waited for of which n attempts were not answered.
func Attempt(brief, large bool, n int, timeout time.Duration) time.Duration {
	switch {
	case brief:
		return paceBrief.attempt(n, timeout)
	case large:
		return paceLarge.attempt(n, timeout)
	}
	return paceUsual.attempt(n, timeout)
}
