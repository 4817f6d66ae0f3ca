//go:build !race

package dirstore_test

const underRace = false
