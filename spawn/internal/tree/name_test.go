package tree

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Section 2 "Work": what is the name of a run, and what is not.
func TestNameFault(t *testing.T) {
	const id = "abcdef01-0000-4000-8000-000000000000"
	for _, name := range []string{
		"", "a", "z9", "a_b-c_", "scout-2", "alls", "lasting", strings.Repeat("a", MaxName),
		id[:35], id + "0", strings.ReplaceAll(id, "-", "_"), "g" + id[1:],
	} {
		require.Empty(t, nameFault(name), name)
	}
	for name, want := range map[string]string{
		"A": "a letter from a to z", "9a": "a letter", "_a": "a letter", "-a": "a letter",
		"a b": "a letter", "a.b": "a letter", "a:b": "a letter", "aé": "a letter", "a\x00": "a letter",
		" a": "a letter", "a\n": "a letter", "aB": "a letter", "\xff": "a letter",
		strings.Repeat("a", MaxName+1): "at most 63", "all": "not the name of one",
		"last": "not the name of one", id: "form of a run id",
	} {
		require.Contains(t, nameFault(name), want, name)
	}
}

// Each attempt at an archive has the same record, although the session has lost its name between
// the two.
func TestRecordWithoutName(t *testing.T) {
	s := newScene()
	s.play([]byte("open\n----\n\nspawn top a name=scout collect\n----\n\ngrant a\n----\n\n" +
		"done a\n----\n\n+2h tick\n----\n\n"))
	a := s.tree.Run(s.names["a"])
	require.NotZero(t, a.Archiving)
	first := s.tree.Record(a)
	s.play([]byte("spawn top b name=scout\n----\n\n"))
	require.True(t, a.Unnamed)
	require.Equal(t, first, s.tree.Record(a))
}
