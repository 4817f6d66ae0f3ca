// Package thread has what package agent decides on conversations that are bound to sessions: the
// words that people read there, what is said at an end, and when a farewell is tried again. It has
// no clock and no state but [Locks].
package thread
