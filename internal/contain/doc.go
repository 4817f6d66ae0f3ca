// Package contain calls code of the caller's so that whatever it does comes back as an error, and
// reads the errors of the caller's where that is contained.
//
//	Call ── goroutine ── f() ── Read(its error) ──▶ error
//	                      └─ panic ── Value ──▶ panicked(value, stack)
//	                      └─ Goexit ──▶ exited
//
// A region of code that contains calls in a way of its own, such as the sender of a delivery, calls
// [Read] and [Value] itself.
package contain
