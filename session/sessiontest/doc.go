// Package sessiontest says, rule by rule, whether an implementation of a storage seam of package session is one.
//
//	    fresh(t) -> open                     one place that is empty, and a way to open it again and again
//	         |
//	+--------+---------+
//	|  rule 1: ...     |  subtest "01_order"       each rule has a number, a name, and the sentence that it checks,
//	|  rule 2: ...     |  subtest "02_after"       and a failure quotes that sentence
//	|  ...             |
//	+------------------+
//
// A test of an adapter is a few lines:
//
//	func TestJournal(t *testing.T) {
//		sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
//			dir := t.TempDir()
//			return func() (session.Journal, error) { return myjournal.Open(dir) }
//		})
//	}
//
// The kits import nothing but the standard library and Offshoot. They assert no time, but call an implementation hung that answers
// nothing for a minute. Every rule has been seen to fail on an implementation that breaks it and nothing else.
package sessiontest
