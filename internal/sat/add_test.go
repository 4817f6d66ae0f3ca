package sat_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// A sum that T does not hold is the limit of T that it lies beyond, and every other sum is exact.
func TestAdd(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{0, 0, 0},
		{1, -1, 0},
		{2, 3, 5},
		{-2, -3, -5},
		{math.MaxInt64, 0, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64 - 1, 1, math.MaxInt64},
		{math.MinInt64, 0, math.MinInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
		{math.MinInt64 + 1, -1, math.MinInt64},
		{math.MinInt64, math.MaxInt64, -1},
	} {
		require.Equal(t, c.want, sat.Add(c.a, c.b), "%d + %d", c.a, c.b)
		require.Equal(t, c.want, sat.Add(c.b, c.a), "%d + %d", c.b, c.a)
	}
	require.Equal(t, int32(math.MaxInt32), sat.Add[int32](math.MaxInt32, 1))
	require.Equal(t, int32(math.MinInt32), sat.Add[int32](math.MinInt32, -1))
	require.Equal(t, time.Duration(math.MaxInt64), sat.Add(time.Duration(math.MaxInt64), time.Hour))
}

func ExampleAdd() {
	const forEver time.Duration = math.MaxInt64
	fmt.Println(sat.Add(forEver, time.Hour) == forEver)
	// Output: true
}
