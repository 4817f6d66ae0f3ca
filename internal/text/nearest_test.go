package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	names := []string{"search", "fetch", "read", "sessions_spawn", strings.Repeat("x", 300)}
	for word, want := range map[string]string{
		"serach": "search", "Search": "search", "reed": "read", "session_spwan": "sessions_spawn",
		"search": "search", "lobster": "", "": "", strings.Repeat("x", 299): "",
	} {
		require.Equal(t, want, Nearest(word, names), word)
	}
	require.Empty(t, Nearest("x", nil))
}
