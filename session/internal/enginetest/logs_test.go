//go:build unix

package enginetest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
)

// TestEvidence reads the logs of three processes: a turn that was given up is told with what each
// process and the test have said of its session in the minute before, in order.
func TestEvidence(t *testing.T) {
	const cut = " WARN offshoot: a turn was cut, because its process is gone session="
	dir := t.TempDir()
	for name, lines := range map[string][]string{
		"test.log": {"2026/11/30 10:00:00 TEST kill p2", "2026/11/30 10:02:01 TEST kill p0"},
		"p0.log": {
			"2026/11/30 10:02:00" + cut + "agent:main:one turn=7", "goroutine 1 [running]:", "",
			"2026/11/30 10:02:00" + cut + "agent:main:two turn=3",
		},
		"p1.log": {
			"2026/11/30 10:02:05" + cut + "agent:main:one turn=8",
			"2026/11/30 10:02:05" + cut + "agent:main:subagent:x run=x turn=1",
		},
		"p2.log": {
			"2026/11/30 10:02:09" + cut + "agent:main:one turn=9",
			"2026/11/30 10:02:09 ERROR offshoot: messages are given up, because the process was gone " +
				"after each attempt at them session=agent:main:one turn=9 attempts=3",
		},
	} {
		text := strings.Join(lines, "\n") + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	givenUp, delays := enginetest.Evidence(t, dir)
	assert.Equal(t, map[int]int{120: 2, 4: 2, 8: 1}, delays)
	require.Len(t, givenUp, 1)
	var told []string
	for line := range strings.Lines(givenUp[0]) {
		told = append(told, strings.TrimSpace(line)[:min(len(strings.TrimSpace(line)), 32)])
	}
	assert.Equal(t, []string{
		"agent:main:one turn 9 was given ",
		"p0.log: 2026/11/30 10:02:00 WARN", "test.log: 2026/11/30 10:02:01 TE",
		"p1.log: 2026/11/30 10:02:05 WARN", "p2.log: 2026/11/30 10:02:09 WARN",
		"p2.log: 2026/11/30 10:02:09 ERRO",
	}, told)
}
