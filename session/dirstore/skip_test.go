package dirstore_test

import "math/rand/v2"

// onward returns the number of the next case to play after the case at. It is the next one; under
// the race detector it is one of the next 2n-1, so that one of n is played, and another each time.
// The step large of .ci/run plays them all.
func onward(at, n int) int {
	if !underRace {
		return at + 1
	}
	return at + 1 + rand.IntN(2*n-1)
}
