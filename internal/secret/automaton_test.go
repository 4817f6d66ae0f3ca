package secret_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// The state of an automaton is the longest beginning of a value that the text ends with, as the
// straight way finds it, and it knows the longest value that the text ends with.
func TestAutomatonIsTheLongestBeginning(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	word := func(most int) string {
		var b strings.Builder
		for range 1 + random.IntN(most) {
			b.WriteByte("aaab"[random.IntN(4)])
		}
		return b.String()
	}
	ended := 0
	for range 300 {
		var values []string
		for range 1 + random.IntN(5) {
			piece := word(4)
			values = append(values, "ab"+strings.Repeat(piece, 1+random.IntN(8))+word(2))
		}
		slices.Sort(values)
		values = slices.Compact(values)
		text := word(60) + values[random.IntN(len(values))] + word(3)
		states := secret.StatesOf(values, text)
		for i, state := range states {
			begin, end := "", ""
			for _, v := range values {
				for n := range len(v) + 1 {
					if strings.HasSuffix(text[:i+1], v[:n]) && n > len(begin) {
						begin = v[:n]
					}
				}
				if strings.HasSuffix(text[:i+1], v) && len(v) > len(end) {
					end = v
				}
			}
			require.Equal(t, begin, state.Begin, "%q in %q", values, text[:i+1])
			require.Equal(t, len(end), state.Ended, "%q in %q", values, text[:i+1])
			if end != "" {
				ended++
			}
			rest := 1 << 30 // to the end of the value that is nearest
			for _, v := range values {
				for n := 1; n < len(v); n++ {
					if strings.HasSuffix(begin, v[:n]) {
						rest = min(rest, len(v)-n)
					}
				}
			}
			if begin != "" && rest < 1<<30 {
				require.LessOrEqual(t, state.Rest, rest, "%q in %q", values, text[:i+1])
			}
			for j, other := range states {
				is := strings.HasSuffix(state.Begin, other.Begin)
				require.Equal(t, is, state.EndsWith(other), "%q in %q: %d, %d", values, text, i, j)
			}
		}
	}
	require.Greater(t, ended, 200)
}
