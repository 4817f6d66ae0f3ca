//go:build race

package dirstore_test

// underRace says that the race detector is on, which takes ten times as long over each byte.
const underRace = true
