//go:build unix

package enginetest

import "testing"

// Evidence returns what the logs in a directory say of turns that were given up and that were cut.
func Evidence(t testing.TB, dir string) (givenUp []string, cut map[int]int) {
	t.Helper()
	return fleetLogs{dir}.evidence(t)
}
