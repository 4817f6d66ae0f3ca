//go:build race

package openclaw_test

// underRace says that the race detector is on, under which no time is measured.
const underRace = true
