// Package spare keeps the memory of what is over for what comes next, where a profile has shown
// that a child allocates less often for it.
//
//	Keep(old) ──▶ List ──▶ Take() ──▶ old, all zero
package spare
