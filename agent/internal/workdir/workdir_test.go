package workdir_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/workdir"
)

// Whatever is asked for, what comes of it lies below the work directory, and asking for that again
// gives the same.
func FuzzClean(f *testing.F) {
	base := f.TempDir()
	for _, s := range []string{
		"", ".", "a/b", "..", "a/../..", "/", base, base + "/a", base + "x", "a\\..\\..", "C:\\x",
		"a\x00", "~", "//", "a//b/", "NUL", strings.Repeat("a", 5000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		rel, err := workdir.Clean(asked, base)
		if err != nil {
			require.Empty(t, rel)
			return
		}
		require.True(t, filepath.IsLocal(filepath.FromSlash(rel)), "%q gives %q", asked, rel)
		again, err := workdir.Clean(rel, base)
		require.NoError(t, err)
		require.Equal(t, rel, again)
		abs, err := workdir.Clean(filepath.Join(base, rel), base)
		require.NoError(t, err)
		require.Equal(t, rel, abs)
	})
}
