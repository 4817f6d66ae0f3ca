package vectors

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTextJoinsItsParts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Text{
		`"a<b"`: "a<b",
		`""`:    "",
		`["<", {"repeat": "ab", "times": 3}, ">"]`: "<ababab>",
		`[{"repeat": "x", "times": 1}]`:            "x",
		`[]`:                                       "",
	} {
		var got Text
		require.NoError(t, json.Unmarshal([]byte(in), &got), in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{`1`, `{}`, `[1]`, `[{"repeat": "x", "times": 0}]`} {
		var got Text
		require.Error(t, json.Unmarshal([]byte(in), &got), in)
	}
}

func TestRowsAreCounted(t *testing.T) {
	t.Parallel()
	type row struct{ In, Out string }
	fsys := fstest.MapFS{
		"testdata/vectors/two.json":   {Data: []byte(`[{"in": "a", "out": "b"}, {"in": "c", "out": "d"}]`)},
		"testdata/vectors/other.json": {Data: []byte(`[{"in": "a", "out": "b", "more": 1}]`)},
	}
	rows, err := decode[row](fsys, "two.json", 2)
	require.NoError(t, err)
	require.Equal(t, []row{{"a", "b"}, {"c", "d"}}, rows)

	_, err = decode[row](fsys, "two.json", 3)
	require.EqualError(t, err, "vectors: two.json has 2 rows, want 3")
	_, err = decode[row](fsys, "other.json", 1)
	require.ErrorContains(t, err, `unknown field "more"`)
	_, err = decode[row](fsys, "none.json", 1)
	require.ErrorContains(t, err, "vectors: ")
}
