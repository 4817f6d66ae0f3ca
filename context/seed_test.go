package agentctx_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// seedFile is the state of a seeding as it lies in a workspace.
const seedFile = ".offshoot/workspace.json"

// seededFiles are the files that seeding makes, BOOTSTRAP.md last.
var seededFiles = []string{
	"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md",
}

func mustSeed(t *testing.T, root *os.Root, o agentctx.SeedOptions) agentctx.Seeded {
	t.Helper()
	if o.Now.IsZero() {
		o.Now = noonUTC
	}
	s, err := agentctx.Seed(root, o)
	require.NoError(t, err)
	return s
}

func TestSeedNewWorkspace(t *testing.T) {
	dir, root := makeRoot(t, nil)
	s := mustSeed(t, root, agentctx.SeedOptions{})
	again := mustSeed(t, root, agentctx.SeedOptions{Now: noonUTC.Add(time.Hour)})
	assert.Empty(t, again.Created)
	assert.Equal(t, s.State, again.State)

	require.NoError(t, os.Remove(filepath.Join(dir, "BOOTSTRAP.md")))
	require.NoError(t, os.Remove(filepath.Join(dir, "TOOLS.md")))
	later := noonUTC.Add(2 * time.Hour)
	done := mustSeed(t, root, agentctx.SeedOptions{Now: later})
	assert.Equal(t, []string{"TOOLS.md"}, done.Created, "restored; BOOTSTRAP.md is done with")
	assert.Equal(
		t, agentctx.SeedState{Version: 1, SeededAt: noonUTC, CompletedAt: later}, done.State,
	)

	for _, name := range seededFiles {
		_ = os.Remove(filepath.Join(dir, name))
	}
	last := mustSeed(t, root, agentctx.SeedOptions{Now: later.Add(time.Hour)})
	assert.Equal(t, seededFiles[:6], last.Created, "BOOTSTRAP.md is never made again")
	assert.Equal(t, done.State, last.State)
}

// A BOOTSTRAP.md that was put there by another is taken over. What a used workspace is, the cases
// W13 and W14 say.
func TestSeedUsedWorkspace(t *testing.T) {
	seedUsed(t, map[string]string{"USER.md": "Ada"})
	_, root := makeRoot(t, map[string]string{"BOOTSTRAP.md": "own"})
	s := mustSeed(t, root, agentctx.SeedOptions{})
	assert.Equal(t, noonUTC, s.State.SeededAt)
	assert.NotContains(t, s.Created, "BOOTSTRAP.md")
}

func TestSeedOptions(t *testing.T) {
	dir, root := makeRoot(t, nil)
	s := mustSeed(t, root, agentctx.SeedOptions{Skip: []string{"*"}})
	assert.Zero(t, s)
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, list)

	s = mustSeed(
		t, root, agentctx.SeedOptions{Skip: []string{"SOUL.md", "USER.md", "BOOTSTRAP.md"}},
	)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md", "IDENTITY.md", "HEARTBEAT.md"}, s.Created)
	assert.Zero(t, s.State, "skipped is not seeded")
	assert.Contains(t, mustSeed(t, root, agentctx.SeedOptions{}).Created, "BOOTSTRAP.md")

	_, root = makeRoot(t, nil)
	s = mustSeed(
		t, root, agentctx.SeedOptions{Templates: fstest.MapFS{"AGENTS.md": {Data: []byte("own")}}},
	)
	assert.Equal(t, []string{"AGENTS.md"}, s.Created)
}

func TestSeedStateThatCannotBeRead(t *testing.T) {
	_, root := makeRoot(t, map[string]string{seedFile: "{ not json", "BOOTSTRAP.md": "x"})
	assert.Equal(
		t, noonUTC, mustSeed(t, root, agentctx.SeedOptions{}).State.SeededAt,
		"corrected from the files",
	)

	_, root = makeRoot(t, map[string]string{seedFile: `{"version": "one"}`})
	_, err := agentctx.Seed(root, agentctx.SeedOptions{Now: noonUTC})
	require.Error(t, err, "JSON of another kind is not overwritten")

	_, root = makeRoot(t, map[string]string{seedFile + "/x": "a directory"})
	_, err = agentctx.Seed(root, agentctx.SeedOptions{Now: noonUTC})
	require.Error(t, err)
	assert.ErrorContains(t, err, "agentctx: seed workspace ")

	dir, root := makeRoot(t, nil)
	require.NoError(
		t, os.Symlink(filepath.Join(t.TempDir(), "elsewhere.md"), filepath.Join(dir, "AGENTS.md")),
	)
	s := mustSeed(t, root, agentctx.SeedOptions{})
	assert.NotContains(t, s.Created, "AGENTS.md", "nothing is written through a link")
}

func TestTemplates(t *testing.T) {
	list, err := fs.Glob(agentctx.Templates(), "*")
	require.NoError(t, err)
	want := slices.Clone(seededFiles)
	slices.Sort(want)
	assert.Equal(t, want, list)
	for _, name := range list {
		text, err := fs.ReadFile(agentctx.Templates(), name)
		require.NoError(t, err)
		assert.Less(t, len(text), 4000, name)
	}
}

// C7: without a time, that of the clock is recorded, and BOOTSTRAP.md does not come back. Nor does
// it where an earlier version has recorded no time.
func TestSeedWithoutATime(t *testing.T) {
	for name, record := range map[string]string{
		"this version": "", "an earlier one": `{"version":1}`,
	} {
		dir, root := makeRoot(t, nil)
		s, err := agentctx.Seed(root, agentctx.SeedOptions{})
		require.NoError(t, err, name)
		assert.Contains(t, s.Created, "BOOTSTRAP.md", name)
		assert.WithinDuration(t, time.Now(), s.State.SeededAt, time.Minute, name)
		require.NoError(t, os.Remove(filepath.Join(dir, "BOOTSTRAP.md")))
		if record != "" {
			require.NoError(t, root.WriteFile(".offshoot/workspace.json", []byte(record), 0o600))
		}
		for range 2 {
			s, err = agentctx.Seed(root, agentctx.SeedOptions{})
			require.NoError(t, err, name)
			assert.Empty(t, s.Created, name)
			assert.False(t, s.State.CompletedAt.IsZero(), name)
		}
	}
}
