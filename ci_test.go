package offshoot_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a test leaves out under the race detector, the steps plain and large of .ci/run play. One
// test has larger inputs there, which take longer than what they would show is worth.
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
	fewer := `skipUnderRace|playsOneOf|raced|playHistories|bothWays|forEveryWait` +
		`|verifyFaults|failEverywhere|breakEach|plays`
	begins := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n` +
		`(?:\t.*\n|\n)*?\t.*\b(?:(?:` + fewer + `)\(|underRace\b)`)
	skipped := 0
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, "_test.go") {
			files = append(files, name)
		}
		return err
	}))
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range begins.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "TestHostileFilesAreLinear" {
				continue
			}
			skipped++
			var played bool
			for _, e := range plays[filepath.Dir(name)] {
				played = played || e.MatchString(m[1])
			}
			assert.True(t, played, "%s: no command of the steps plain and large plays %s", name, m[1])
		}
	}
	require.NotZero(t, skipped)
}
