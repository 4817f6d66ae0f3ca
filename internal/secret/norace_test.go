//go:build !race

package secret_test

const underRace = false
