package openaimodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts and lists go on, other values take the place of what was there, and what came in one piece
// keeps its bytes.
func TestMembersAreJoined(t *testing.T) {
	for _, test := range []struct {
		pieces []string
		want   string // empty: there is no member
		grown  bool   // whether the last piece has added something
	}{
		{nil, "", false},
		{[]string{""}, "", false},
		{[]string{"null"}, "", false},
		{[]string{`"a`}, "", false},
		{[]string{`"\u00e9</b>"`}, `"\u00e9</b>"`, true},
		{[]string{`""`}, `""`, true},
		{[]string{`"a"`, `""`}, `"a"`, false},
		{[]string{`"a<"`, `"b\n"`, `"é"`}, `"a<b\né"`, true},
		{[]string{`[ 1 ]`}, `[ 1 ]`, true},
		{[]string{`[]`, `[]`}, `[]`, false},
		{[]string{`[{"a":"<"}]`, `[ ]`, `[2, "x"]`}, `[{"a":"<"},2,"x"]`, true},
		{[]string{`7`}, `7`, true},
		{[]string{`7`, `8`}, `8`, false},
		{[]string{`{"a":1}`, `{"b":2}`}, `{"b":2}`, false},
		{[]string{`"a"`, `["b"]`}, `["b"]`, true},
		{[]string{`["b"]`, `"a"`, `"c"`}, `"ac"`, true},
		{[]string{`"a"`, `null`, `"b"`}, `"ab"`, true},
	} {
		var m members
		grown := 0
		for _, piece := range test.pieces {
			grown = m.add("x", piece)
		}
		require.Equal(t, test.grown, grown > 0, test.pieces)
		require.Equal(t, test.want, string(m.encode()["x"]), test.pieces)
	}
}
