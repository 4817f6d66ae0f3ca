//go:build race

package sessiontest

// underRace divides the size of the largest batches in a build with the race detector, which takes
// ten times as long over each byte.
const underRace = 8
