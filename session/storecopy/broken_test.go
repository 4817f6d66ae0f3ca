package storecopy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
)

// Wherever a byte of a directory is not UTF-8 any more, or a file is cut in its middle, the
// directory does not open, the copy ends with an error that names the file, or it has everything.
func TestBrokenSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := openDir(t, dir)
	storecopytest.Fill(t, s, 11, 60)
	want := storecopytest.Contents(t, s)
	require.NoError(t, s.Close())
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "lock" {
			files = append(files, path)
		}
		return err
	}))
	require.Greater(t, len(files), 10)
	refused, named := 0, 0
	for i, path := range files {
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for at, broken := range map[int]string{
			0:  flipped(whole, i%(len(whole)+1)),
			1:  flipped(whole, len(whole)/2),
			2:  flipped(whole, len(whole)-3),
			-1: cutLine(whole),
		} {
			if broken == string(whole) {
				continue
			}
			copied := filepath.Join(t.TempDir(), "copied")
			require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
			require.NoError(t, os.Chmod(copied, 0o700))
			rel, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(copied, rel), []byte(broken), 0o600))
			from, err := dirstore.Open(copied)
			if err != nil {
				require.ErrorIs(t, err, session.ErrCorrupt)
				refused++
				continue
			}
			to := session.NewMemory()
			_, err = storecopy.Copy(t.Context(), from, to, storecopy.Options{})
			if err == nil {
				require.Equal(t, want, storecopytest.Contents(t, to), "%s, %d", rel, at)
			} else {
				require.ErrorIs(t, err, session.ErrCorrupt, "%s, %d", rel, at)
				require.ErrorContains(t, err, filepath.Base(rel), "%s, %d", rel, at)
				err = session.CheckCopy(t.Context(), to.Journal)
				require.ErrorIs(t, err, session.ErrUnfinishedCopy)
				named++
			}
			require.NoError(t, from.Close())
		}
	}
	t.Logf("%d files: %d times the directory was refused, %d times the file was named",
		len(files), refused, named)
	require.NotZero(t, refused)
	require.NotZero(t, named)
}

// cutLine returns the text of a file that has lost the end of a line with its newline. What is lost
// of the last line cannot be told from what a crash leaves, but by the journal of the session.
func cutLine(whole []byte) string {
	lines := strings.SplitAfter(string(whole), "\n")
	at := len(lines)/2 - 1
	if at < 0 || at+2 >= len(lines) {
		return string(whole)
	}
	lines[at] = lines[at][:len(lines[at])/2]
	return strings.Join(lines, "")
}

// flipped returns bytes of which the highest bit of one is another.
func flipped(whole []byte, at int) string {
	if at < 0 || at >= len(whole) {
		return string(whole)
	}
	b := []byte(string(whole))
	b[at] ^= 0x80
	return string(b)
}
