package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// A value of a program is found where a program has changed its blanks or the breaks of its lines,
// or has doubled its quotes, also encoded, and the same in pieces.
func TestOwnValuesThatAreRewritten(t *testing.T) {
	t.Parallel()
	for value, texts := range map[string][]string{
		"hunter2 and hunter3": {
			"hunter2\tand\thunter3", `hunter2\tand\thunter3`, "hunter2%09and%09hunter3",
			"hunter2\u00a0and\u00a0hunter3", "hunter2+and+hunter3", `hunter2\ and\ hunter3`,
			"hunter2\u202fand\u202fhunter3", "hunter2\u2009and\u2009hunter3",
			"hunter2\u3000and\u3000hunter3", `hunter2\\ and\\ hunter3`,
		},
		"hunter2\tand\thunter3": {"hunter2 and hunter3", "hunter2\tand\thunter3"},
		"hunter2  and   hunter3": {
			"hunter2 and hunter3", "hunter2\t\tand\t\t\thunter3", "hunter2  and   hunter3",
		},
		"hunter2\nhunter3": {
			"hunter2\rhunter3", "hunter2\r\rhunter3", "hunter2\r\nhunter3", `hunter2\rhunter3`,
			"> hunter2\r> hunter3", "hunter2 hunter3", "hunter2hunter3", "hunter2%20hunter3",
			"hunter2\u200b hunter3", `"hunter2 hunter3"`,
		},
		"hunter2\n\t- hunter3\r\nhunter4\n": {
			"hunter2 - hunter3 hunter4", "hunter2\t- hunter3hunter4", "hunter2 hunter3 hunter4",
			"hunter2%20-%20hunter3%20hunter4", "hunter2\n- hunter3\nhunter4",
		},
		"hunter2\u2028hunter3": {"hunter2 hunter3", "hunter2hunter3"},
		"hunter2\rhunter3":     {"hunter2\rhunter3", "hunter2\nhunter3", `hunter2\r\nhunter3`},
		"hunter2\r\nhunter3":   {"hunter2\rhunter3", "hunter2\nhunter3"},
		"hunter2'hunter3": {
			`hunter2'\''hunter3`, `hunter2'"'"'hunter3`, `hunter2''hunter3`, `hunter2'\\''hunter3`,
			`hunter2'\"'\"'hunter3`, "hunter2%27%5C%27%27hunter3", `hunter2\'hunter3`,
		},
		"'hunter2 hunter3'": {`'\''hunter2 hunter3'\''`, `''hunter2 hunter3''`},
		`hunter2"hunter3`:   {`hunter2""hunter3`, `hunter2"'"'"hunter3`, `hunter2\"hunter3`},
		"it's hunter2": {
			"it'\\''s\thunter2", "it''s\u00a0hunter2", `it\'s\ hunter2`, "it\u2019s hunter2",
			"it\u2018s\u202fhunter2",
		},
		`hunter2 "a" $b (c) hunter3`: {`hunter2\ \"a\"\ \$b\ \(c\)\ hunter3`},
		`"hunter2"`:                  {"\u201dhunter2\u201d", "\u201chunter2\u201c"},
	} {
		own := secret.NewOwn([]string{value}, nil)
		for _, text := range texts {
			for _, around := range [][2]string{{"", ""}, {"a: ", ", b"}, {"'", "'\n"}} {
				masked := own.MaskOwn(around[0] + text + around[1])
				require.NotContains(t, masked, "hunter", "%q in %q", value, text)
				require.True(t, strings.HasSuffix(masked, around[1]), "%q", masked)
				require.Equal(t, own.Mask(around[0]+text+around[1]),
					maskedInPieces(own, around[0]+text+around[1], 3))
			}
		}
	}
	// What is too short, or would be a word, is not looked for.
	short := secret.NewOwn([]string{"a    b", "''''", "it\nis", "pass\nword"}, nil)
	for _, text := range []string{"a b", "a\u00a0b c", "itis", "password"} {
		require.Equal(t, text, short.MaskOwn(text))
	}
}
