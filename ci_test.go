package offshoot_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a test leaves out under the race detector, the step large of .ci/run plays without it.
func TestLargePlaysWhatIsSkippedUnderRace(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	plays := map[string][]*regexp.Regexp{}
	for _, m := range regexp.MustCompile(`go test (?:-run '([^']+)' )?(\.(?:/.*)?)`).
		FindAllStringSubmatch(string(script), -1) {
		for _, dir := range regexp.MustCompile(`\.(?:/\S+)?`).FindAllString(m[2], -1) {
			dir = filepath.Clean(dir)
			plays[dir] = append(plays[dir], regexp.MustCompile(m[1]))
		}
	}
	begins := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n\tskipUnderRace\(t\)`)
	skipped := 0
	files, err := filepath.Glob("*/*_test.go")
	require.NoError(t, err)
	here, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	files = append(files, here...)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range begins.FindAllStringSubmatch(string(text), -1) {
			skipped++
			var played bool
			for _, e := range plays[filepath.Dir(name)] {
				played = played || e.MatchString(m[1])
			}
			require.True(t, played, "%s: no command of the step large plays %s", name, m[1])
		}
	}
	require.NotZero(t, skipped)
}
