//go:build !race

package announce_test

const underRace = false
