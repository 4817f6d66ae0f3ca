package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// A line break that a mask knows becomes a space only after the text has been masked.
func TestLineMasksWhatItWouldHide(t *testing.T) {
	mask := func(s string) string {
		return strings.NewReplacer("Pa@ss\n_w*rd", "***", "Pa@ss_w*rd", "***").Replace(s)
	}
	for s, want := range map[string]string{
		"":                           "",
		"count":                      "count",
		" two\nlines ":               "two lines",
		"Pa@ss_w*rd":                 "Pa@ss_w*rd", // as it is: what shows the line finds it
		"\tPa@ss_w*rd\n":             "Pa@ss_w*rd",
		"Pa@ss\x1b[31m_w*rd":         "***",
		"a \x1b[31mb":                "a [31mb", // no secret is near: as text.Line
		"a Pa@ss\n_w*rd b":           "a *** b",
		"a Pa@ss\r_w*rd b":           "a *** b",
		"a Pa@ss\u2028_w*rd b":       "a *** b",
		"Pa@ss\n_w*rd\nPa@ss_w*rd b": "*** *** b",
	} {
		require.Equal(t, want, secret.Line(mask, s), "%q", s)
	}
}
