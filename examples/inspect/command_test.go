package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output runs the program at that time and returns its exit code and what it printed.
func output(t *testing.T, now time.Time, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), args, now, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// state runs the program now.
func state(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return output(t, time.Now(), args...)
}

// must runs the program, which succeeds, and returns what it printed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := state(t, args...)
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	return out
}

// refused runs the program, which ends with that code and prints nothing but errors, and returns
// those.
func refused(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, out, errs := state(t, args...)
	assert.Equal(t, want, code)
	assert.Empty(t, out)
	return errs
}

// files returns everything in a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			list[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		list[path] = string(b)
		return err
	}))
	return list
}
