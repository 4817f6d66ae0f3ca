package copycommand_test

import (
	"bytes"
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
)

// command returns the command of an engine whose addresses are those of directories.
func command() copycommand.Command {
	return copycommand.Command{
		Engine: "a test", Schemes: []string{"test", "testing"}, OpenDir: dirstore.Open,
		Locked: []error{dirstore.ErrLocked}, Full: "Empty it.",
		Flags: func(flags *flag.FlagSet) { flags.Bool("engine", false, "of the engine") },
		Open: func(_ context.Context, url string) (*session.Store, error) {
			_, dir, _ := strings.Cut(url, "://")
			return dirstore.Open(dir)
		},
	}
}

// run runs a command line to its code, and returns what it has printed.
func run(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	code := command().Run(t.Context(), args, &out, &out)
	require.Equal(t, want, code, "%q: %s", args, &out)
	return out.String()
}

// The command copies a directory into an engine, from there into another directory, and says in
// words what is wrong.
func TestCommand(t *testing.T) {
	dirs := t.TempDir()
	path := func(name string) string { return filepath.Join(dirs, name) }
	store, err := dirstore.Open(path("from"))
	require.NoError(t, err)
	storecopytest.Fill(t, store, 1, 60)
	require.NoError(t, store.Close())
	const same = "everything is the same: "
	for _, to := range []string{"test://" + path("one"), "testing://" + path("two"), path("three")} {
		text := run(t, copycommand.ExitOK, "-from", path("from"), "-to", to)
		require.Contains(t, text, same)
		require.NotContains(t, text, "other sequences")
		assert.Contains(t, run(t, copycommand.ExitOK, "-from", to, "-to", path("from"), "-verify",
			"-engine"), same)
		assert.Contains(t, run(t, copycommand.ExitError, "-from", path("from"), "-to", to), "Empty it.")
	}
	missing := path("missing")
	for _, args := range [][]string{
		{"-from", missing, "-to", path("one")},
		{"-from", path("one"), "-to", missing, "-verify"},
	} {
		assert.Contains(t, run(t, copycommand.ExitError, args...), "does not have a store")
		assert.NoDirExists(t, missing)
	}
	text := run(t, copycommand.ExitError, "-from", path("one"), "-to", "other://host")
	assert.Contains(t, text, "begins with test:// or testing://")
	store, err = dirstore.Open(path("one"))
	require.NoError(t, err)
	text = run(t, copycommand.ExitError, "-from", path("one"), "-to", path("two"), "-verify")
	assert.Contains(t, text, "End the bot that has it")
	require.NoError(t, store.Close())
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-from", "x"}, {"-to", "x"}, {"-from", "x", "-to", "y", "z"}, {"-nonsense"},
	} {
		run(t, copycommand.ExitUsage, args...)
	}
	text := run(t, copycommand.ExitOK, "-h")
	assert.Contains(t, text, "-verify")
	assert.Contains(t, text, "-engine")
	assert.Contains(t, text, "URL of a test")
}

// What names a store may have a password, and stands in no text unless it is a directory.
func TestCommandNamesNoPassword(t *testing.T) {
	const canary = "CanaryS3cret"
	dir := filepath.Join(t.TempDir(), "from")
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	t.Chdir(t.TempDir())
	for _, name := range []string{
		"other://bot:" + canary + "@host", "TEST://bot:" + canary + "@host",
		"test:/bot:" + canary + "@host", "bot:" + canary + "@host", "host=h password = " + canary,
		"Password=" + canary, "password=" + canary + " x://y", canary + "@host", "host?token=" + canary,
	} {
		for _, args := range [][]string{{"-from", name, "-to", dir}, {"-from", dir, "-to", name}} {
			text := run(t, copycommand.ExitError, args...)
			assert.NotContains(t, text, canary)
			assert.Contains(t, text, "an address of a test")
		}
	}
	made, err := filepath.Glob("*")
	require.NoError(t, err)
	assert.Empty(t, made, "a directory was made")
}
