package spawn_test

import (
	"math/rand/v2"
	"testing"
)

// skipUnderRace skips a test that has nothing to race with and takes long under the race detector.
// The step large of .ci/run plays it: a test of the repository sees to that.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("it takes long under the race detector, which has nothing to find in it")
	}
}

// playsOneOf reports whether to play a case of a table. Under the race detector it is one of n, and
// another each time; the step large of .ci/run plays them all.
func playsOneOf(n int) bool { return !underRace || rand.IntN(n) == 0 }
