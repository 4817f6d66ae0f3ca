package storecopytest_test

import (
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
)

// openEmpty is what your module has: it opens a Store that has nothing.
var openEmpty func(t *testing.T) *session.Store

// The test of a Store: what it is a copy of, and what is a copy of it, are the same.
func ExampleTestHistories() {
	_ = func(t *testing.T) { // func TestHistories(t *testing.T)
		storecopytest.TestHistories(t, openEmpty)
	}
}
