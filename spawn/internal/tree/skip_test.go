package tree

import "testing"

// skipUnderRace skips a test that has nothing to race with and takes long under the race detector.
// The step plain of .ci/run plays it: a test of the repository sees to that.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("it takes long under the race detector, which has nothing to find in it")
	}
}

// raced returns how often a test plays something: all times, or fewer under the race detector. The
// step plain of .ci/run plays all.
func raced(all, fewer int) int {
	if underRace {
		return fewer
	}
	return all
}
