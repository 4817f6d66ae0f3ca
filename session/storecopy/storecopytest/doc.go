// Package storecopytest tests whether a Store can be the source and the target of a copy.
//
//	Fill --> a Store --Copy--> another one --Copy--> a third one
//	             Contents  ==      Contents   ==       Contents
//
// [TestHistories], [TestCutOff] and [TestNotEmpty] are the rules. A Store that has the importers
// and listers of package session is tested by a few lines:
//
//	func TestCopies(t *testing.T) {
//		storecopytest.TestHistories(t, func(t *testing.T) *session.Store { return open(t) })
//	}
//
// Begin in rules.go.
package storecopytest
