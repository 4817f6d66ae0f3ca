package secret_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
)

const (
	cutToken = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	cutOwn   = "QwErTyUiOpAsDfGhJkLzXcVbNm!1234567890#abcdEFGH"
)

func cutMask() func(string) string { return secret.NewOwn([]string{cutOwn}, nil).Mask }

// Wherever a limit falls, what is kept of a text is its beginning, and shows no part of a secret
// that masking it would not hide.
func TestCutSplitsNoSecret(t *testing.T) {
	mask := cutMask()
	for _, hidden := range []string{cutToken, cutOwn} {
		said := strings.Repeat("wör ds ", 300) + hidden + strings.Repeat(" more", 300)
		at := strings.Index(said, hidden)
		for limit := at - 3; limit < at+len(hidden)+3; limit++ {
			kept := secret.Cut(mask, said, limit)
			require.True(t, strings.HasPrefix(said, kept), limit)
			require.True(t, utf8.ValidString(kept))
			require.LessOrEqual(t, len(kept), limit)
			require.NotContains(t, mask(kept), hidden[:8], limit)
			require.Greater(t, len(kept), limit-len(hidden)-130, "little is given up for it")
			bound := secret.Bound(mask, said, limit)
			require.LessOrEqual(t, len(bound), limit)
			require.NotContains(t, mask(bound), hidden[:8], limit)
			require.Contains(t, bound, "[cut here: it had")
		}
	}
	for _, plain := range []string{"", "short", strings.Repeat("wörds ", 500)} {
		for _, limit := range []int{-1, 0, 1, 100, 2000} {
			require.Equal(t, text.Bound(plain, limit), secret.Bound(mask, plain, limit))
			if limit >= 0 {
				require.Equal(t, text.Cut(plain, limit), secret.Cut(mask, plain, limit))
			}
		}
	}
	require.Empty(t, secret.Cut(mask, cutOwn+" and", 20), "all of it is within a secret")
}
