//go:build race

package tree

// underRace says that the race detector is on, which takes several times as long over all work. A
// tree has no goroutine: the step plain of .ci/run plays what is left out here.
const underRace = true
