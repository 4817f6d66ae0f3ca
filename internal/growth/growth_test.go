package growth_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/growth"
)

func TestOfTellsLinearFromQuadratic(t *testing.T) {
	if !growth.Measures {
		t.Skip("times are measured without the race detector")
	}
	sum := 0
	scan := func(text string, times int) {
		for range times {
			for i := range len(text) {
				sum += int(text[i])
			}
		}
	}
	same := func(n int) string { return strings.Repeat("a", n) }
	linear := func(text string) { scan(text, 8) }
	quadratic := func(text string) { scan(text, max(1, len(text)>>12)) }
	steep := func(text string) { scan(text, int(8*math.Sqrt(float64(len(text)>>12)))) }
	require.LessOrEqual(t, growth.Of(linear, same, 16<<10), growth.Most)
	require.Greater(t, growth.Of(quadratic, same, 16<<10), 3.4)
	require.Greater(t, growth.Of(steep, same, 16<<10), growth.Most)
	require.Positive(t, sum)
}
