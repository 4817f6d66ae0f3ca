package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// What is kept in a directory is answered once, and is there the next time.
func TestStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	code, out, errs := runProgram(t, "-state", dir)
	require.Zero(t, code, errs)
	assert.NotContains(t, out, "another life")
	assert.Contains(t, out, "Ghent, Mira. This is what I would do:")
	assert.Contains(t, out, "nothing is pending")

	code, out, errs = runProgram(t, "-state", dir)
	require.Zero(t, code, errs)
	assert.Contains(t, out, "from another life:\n  ok           trains\n")
	assert.NotContains(t, out, "to you", "it is not answered again")
	for f, err := range dirstore.Verify(t.Context(), dir) {
		require.NoError(t, err, f.Path)
	}

	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	code, _, errs = runProgram(t, "-state", dir)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "is locked by process")
	require.NoError(t, store.Close())

	code, _, errs = runProgram(t, "-state", dir, "-json")
	assert.Equal(t, 2, code)
	assert.Contains(t, errs, "exclude")
}
