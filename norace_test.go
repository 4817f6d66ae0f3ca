//go:build !race

package offshoot_test

const underRace = false
