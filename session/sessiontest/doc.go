// Package sessiontest tests implementations of the storage interfaces of package session.
// [TestJournal] tests a [session.Journal], [TestTranscripts] a [session.Transcripts], [TestFiles] a
// [session.Files], and [TestOwners] a [session.Owners], rule by rule. [TestCarrier] tests a
// Transcripts that is a [session.Carrier], over crashes. [Cluster] is an engine in memory that
// several processes of one test share.
//
//	    fresh(t) -> open                     an empty store, and a way to open it again and again
//	         |
//	+--------+---------+
//	|  rule 1: ...     |  subtest "01_empty"       each rule has a number, a name and a sentence,
//	|  rule 2: ...     |  subtest "02_order"       and a failure quotes the sentence
//	|  ...             |
//	+------------------+
//
// The rules stand in tables with their sentences, which are the promises of the interface:
// journalRules in journal.go, transcriptRules in transcripts.go, fileRules in files.go,
// ownersRules in owners.go and carrierRules in carrier.go. Begin there.
// "go test -run TestJournal/16_reset_durable" runs one rule.
//
// A store is tested by a few lines:
//
//	func TestJournal(t *testing.T) {
//		sessiontest.TestJournal(t, func(t *testing.T) sessiontest.OpenFunc {
//			dir := t.TempDir()
//			return func() (session.Journal, error) { return myjournal.Open(dir) }
//		})
//	}
//
// The rules import only the standard library and Offshoot. They do not measure time, but for those
// of Owners, which wait for leases. A rule fails if the implementation does not answer for a
// minute. The tests of this package run every rule against an implementation that breaks that rule,
// and no other one but for Owners, and see it fail.
package sessiontest
