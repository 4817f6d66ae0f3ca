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
	// A bound of 16 KB, on both sides of which the work is linear; see Of.
	const bound = 16 << 10
	kneed := func(text string) { scan(text, 8); scan(text[min(bound, len(text)):], 17) }
	// Work that reads up to the bound from each place on, of which it skips most.
	bounded := func(text string) {
		for at := 0; at < len(text); at += 64 {
			scan(text[at:min(at+bound, len(text))], 1)
		}
	}
	require.LessOrEqual(t, growth.Of(linear, same, 16<<10), growth.Most)
	require.LessOrEqual(t, growth.Of(kneed, same, 4<<10), growth.Most)
	require.Greater(t, growth.Of(bounded, same, 4<<10), growth.Most)
	require.Greater(t, growth.Of(quadratic, same, 16<<10), 3.4)
	require.Greater(t, growth.Of(steep, same, 16<<10), growth.Most)
	require.Positive(t, sum)
}
