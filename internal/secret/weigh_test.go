package secret_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// The questions that values are weighed with are answered without a look at each byte. They say
// what the straight way says, which stands here.
func TestWeighedAsByTheStraightWay(t *testing.T) {
	t.Parallel()
	isNumber := func(s string) bool {
		return strings.Trim(s, "0123456789.,_") == "" && strings.Trim(s, ".,_") != ""
	}
	hasDense := func(s string) bool {
		isSeen := func(r rune) bool {
			return r >= 0x80 || !strings.ContainsRune(unreserved, r)
		}
		for _, part := range strings.FieldsFunc(s, isSeen) {
			if len(part) >= 8 && secret.IsMixed(part) && !secret.IsWordy(part) {
				return true
			}
		}
		return false
	}
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // repeatable
	pieces := []string{"a", "b7", "1", "42", ".", ",", "_", "{", " ", "abcdefg", "x9y8z7", "é", "=", "Q"}
	numbers, dense := 0, 0
	for range 50_000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		s := b.String()
		require.Equal(t, isNumber(s), secret.IsNumber(s), "%q", s)
		require.Equal(t, hasDense(s), secret.HasDense(s), "%q", s)
		if secret.IsNumber(s) {
			numbers++
		}
		if secret.HasDense(s) {
			dense++
		}
	}
	require.Greater(t, numbers, 100)
	require.Greater(t, dense, 1000)
}
