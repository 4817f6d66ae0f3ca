package sat

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIntegers(t *testing.T) {
	edges := []int64{
		math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64,
	}
	clamp := func(x *big.Int) int64 {
		switch {
		case x.IsInt64():
			return x.Int64()
		case x.Sign() > 0:
			return math.MaxInt64
		}
		return math.MinInt64
	}
	for _, a := range edges {
		for _, b := range edges {
			x, y := big.NewInt(a), big.NewInt(b)
			require.Equal(t, clamp(new(big.Int).Add(x, y)), Add(a, b), "%d + %d", a, b)
			require.Equal(t, clamp(new(big.Int).Sub(x, y)), Sub(a, b), "%d - %d", a, b)
		}
	}
	require.Equal(t, int64(math.MaxInt64), Sum(math.MaxInt64, 1, math.MaxInt64))
	require.Equal(t, int64(6), Sum(1, 2, 3))
}

func TestFloats(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for x, want := range map[float64]int64{
		1.9: 1, -1.9: -1, 1e30: math.MaxInt64, -1e30: math.MinInt64, inf: math.MaxInt64,
		-inf: math.MinInt64, 1 << 63: math.MaxInt64, -1 << 63: math.MinInt64,
	} {
		require.Equal(t, want, Int(x), "%v", x)
	}
	require.Zero(t, Int(nan))
	for _, c := range [][3]float64{
		{1, 2, 3},
		{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
		{-math.MaxFloat64, -math.MaxFloat64, -math.MaxFloat64},
		{inf, 1, math.MaxFloat64},
		{inf, -inf, 0},
		{nan, 1, 1},
		{1, nan, 1},
	} {
		require.Equal(t, c[2], AddFloat(c[0], c[1]), "%v + %v", c[0], c[1]) //nolint:testifylint // exact
	}
}
