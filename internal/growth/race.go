//go:build race

package growth

// Measures says whether times mean something: with the race detector they do not.
const Measures = false
