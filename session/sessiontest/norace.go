//go:build !race

package sessiontest

// underRace is 1: only a build with the race detector makes the largest batches smaller.
const underRace = 1
