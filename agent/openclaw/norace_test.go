//go:build !race

package openclaw_test

const underRace = false
