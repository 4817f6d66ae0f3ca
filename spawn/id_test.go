package spawn_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Ids are version 4 UUIDs in canonical form: they are segments of keys and names of files.
func TestIDsAreUUIDs(t *testing.T) {
	s, err := spawn.Open(t.Context(), spawn.Config{
		Store:  session.NewMemory(),
		Runner: runnerFunc(nil),
	})
	require.NoError(t, err)
	form := regexp.MustCompile(
		`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	)
	seen := map[string]bool{}
	for range 1000 {
		for _, id := range []string{s.NewID(), s.NewRunID()} {
			require.Regexp(t, form, id)
			require.False(t, seen[id])
			seen[id] = true
		}
	}
	require.Regexp(t, form, session.NewID())
}
