package kill

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// compactionTraces are what compactions that did not come to their end have left, and when: a file
// that has not got its name yet, or two generations of the log.
type compactionTraces map[string]time.Time

// countNew returns how many traces there are that were not there, or not the same, when it looked
// before: of the log, and of idle trees. The latter stay until their tree is put away the next
// time.
func (x compactionTraces) countNew(t *testing.T, dir string) (log, idle int) {
	t.Helper()
	dir = filepath.Join(dir, "journal")
	generations, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	require.NoError(t, err)
	log = x.countFresh(t, filepath.Join(dir, "*.wal.tmp")) + len(generations) - 1
	return log, x.countFresh(t, filepath.Join(dir, "idle", "*", "*.wal.tmp"))
}

// countFresh returns how many files of that name are new.
func (x compactionTraces) countFresh(t *testing.T, pattern string) (n int) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, name := range names {
		info, err := os.Lstat(name)
		require.NoError(t, err)
		if !x[name].Equal(info.ModTime()) {
			x[name] = info.ModTime()
			n++
		}
	}
	return n
}
