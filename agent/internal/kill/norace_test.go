//go:build !race

package kill

const underRace = false
