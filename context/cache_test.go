package agentctx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// settledIdentity is an identity that was last changed long before now.
func settledIdentity(n int) identity { return identity{inode: uint64(n), ctime: 1_000_000_007} }

func TestCacheIsRightAboutReplacedFiles(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close() //nolint:errcheck // read only
	path := filepath.Join(dir, AgentsFile)
	loader := Loader{Cache: &Cache{}}
	read := func() string { return loader.readFile(root.FS(), topLevelSpec(), AgentsFile).Content }
	moment := time.Date(2020, 1, 1, 0, 0, 0, 1, time.UTC)
	for i, how := range []string{"replaced", "rewritten"} {
		for n := range 30 { // faster than any clock of a file system ticks
			want := fmt.Sprintf("version %d.%02d", i, n) // always of the same size
			to := path
			if how == "replaced" {
				to += ".new"
			}
			require.NoError(t, os.WriteFile(to, []byte(want), 0o644))
			require.NoError(t, os.Chtimes(to, moment, moment)) // and of the same modification time
			if how == "replaced" {
				require.NoError(t, os.Rename(to, path))
			}
			require.Equal(t, want, read(), how)
			require.Equal(t, want, read(), how)
		}
	}
	require.NoError(t, os.Link(path, filepath.Join(dir, "second")))
	assert.Equal(
		t, ReasonLinked, loader.readFile(root.FS(), topLevelSpec(), AgentsFile).Reason,
		"what was read before does not hide a new link",
	)
	require.NoError(t, os.Remove(path))
	assert.Equal(t, ReasonAbsent, loader.readFile(root.FS(), topLevelSpec(), AgentsFile).Reason)
}

func TestCacheReadsOnce(t *testing.T) {
	c := &Cache{}
	var reads atomic.Int32
	release := make(chan struct{})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			text, err := c.get(settledIdentity(1), time.Now(), func() (string, error) {
				reads.Add(1)
				<-release
				return "text", nil
			})
			assert.NoError(t, err)
			assert.Equal(t, "text", text)
		})
	}
	close(release)
	wg.Wait()
	assert.EqualValues(t, 1, reads.Load())
}

func TestCacheIsBounded(t *testing.T) {
	c := &Cache{MaxBytes: 1000}
	get := func(n int) (hit bool) {
		hit = true
		_, err := c.get(settledIdentity(n), time.Now(), func() (string, error) {
			hit = false
			return strings.Repeat("x", 100), nil
		})
		require.NoError(t, err)
		return hit
	}
	for n := range 100 {
		get(n)
		assert.LessOrEqual(t, c.bytes, 1000)
		assert.True(t, get(0), "stays, because it is asked for")
	}
	assert.Len(t, c.entries, 10)
	assert.True(t, get(0))
	assert.True(t, get(99))
	assert.False(t, get(50))

	_, err := c.get(
		settledIdentity(1000), time.Now(),
		func() (string, error) { return strings.Repeat("x", 2000), nil },
	)
	require.NoError(t, err)
	assert.LessOrEqual(t, c.bytes, 1000, "a text over the bound is not kept")
	assert.Equal(t, len(c.entries), c.recent.Len())
}

func TestCacheKeepsNeitherErrorsNorWhatIsTooFresh(t *testing.T) {
	c := &Cache{}
	now := time.Now()
	fresh := identity{inode: 1, ctime: now.Add(-10*time.Millisecond).UnixNano() | 1}
	coarse := identity{inode: 2, ctime: now.Add(-time.Second).Truncate(time.Second).UnixNano()}
	settled := identity{inode: 3, ctime: now.Add(-time.Second).UnixNano() | 1}
	for id, kept := range map[identity]bool{fresh: false, coarse: false, settled: true} {
		_, err := c.get(id, now, func() (string, error) { return "x", nil })
		require.NoError(t, err)
		assert.Equal(t, kept, c.entries[id] != nil)
	}
	_, err := c.get(settledIdentity(9), now, func() (string, error) { return "", errors.New("no") })
	require.Error(t, err)
	assert.Nil(t, c.entries[settledIdentity(9)])
	assert.Panics(
		t, func() { _, _ = c.get(settledIdentity(8), now, func() (string, error) { panic("no") }) },
	)
	assert.Nil(t, c.entries[settledIdentity(8)])
	assert.Equal(t, 1, c.recent.Len())
	assert.Equal(t, 1, c.bytes)
}
