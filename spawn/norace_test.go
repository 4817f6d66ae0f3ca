//go:build !race

package spawn_test

const underRace = false
