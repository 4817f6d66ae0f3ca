// Package lease decides what the engine of a cluster decides: which process has which tree, which
// of them handles a request, which ticket of a lane has a slot, and when a process looks at an
// orphan. It is for implementations of session.Owners.
//
// Everything here is a value with methods that take the present time, by the clock of the engine.
// Nothing waits, starts or calls anything, and nothing is safe for concurrent use: the caller has a
// lock, or a transaction.
//
//	State   leases, claims and requests: Beat, Claim, Release, Leave; Ask, Take, Answer, Outcome
//	Lane    the tickets of one lane, as one document: Sync, Pause, Next
//	Lookout what one process has seen of the orphans: Look
//
// Begin in state.go. The rules are those of session.Owners.
package lease
