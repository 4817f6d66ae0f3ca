//go:build race

package secret_test

// underRace says that the race detector is on, which takes several times as long over all work.
const underRace = true
