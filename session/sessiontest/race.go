//go:build race

package sessiontest

// underRace divides the largest sizes in a build with the race detector, which takes ten times as
// long over each byte.
const underRace = 8
