package sat

import "math"

// Add returns a + b, or the limit of T that the sum lies beyond.
func Add[T ~int | ~int32 | ~int64](a, b T) T {
	sum := a + b
	if (a < 0) != (b < 0) || (sum < 0) == (a < 0) {
		return sum
	}
	if a < 0 {
		return -limit[T]() - 1
	}
	return limit[T]()
}

// limit returns the greatest value of T.
func limit[T ~int | ~int32 | ~int64]() T {
	x := T(1)
	for x<<1 > x {
		x <<= 1
	}
	return x - 1 + x
}

// Sum returns the sum of numbers, added from left to right.
func Sum(numbers ...int64) (sum int64) {
	for _, n := range numbers {
		sum = Add(sum, n)
	}
	return sum
}

// Sub returns a - b, or the largest or smallest int64 where that is out of range.
func Sub(a, b int64) int64 {
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	}
	return d
}

// AddFloat returns a + b, or the largest or smallest finite number where that is out of range. A
// number that is not one counts as 0.
func AddFloat(a, b float64) float64 {
	return finite(finite(a) + finite(b))
}

// Int returns x without its fraction, or the largest or smallest int64 where that is out of range.
// A number that is not one is 0.
func Int(x float64) int64 {
	switch {
	case math.IsNaN(x):
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

func finite(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 0
	case math.IsInf(x, 0):
		return math.Copysign(math.MaxFloat64, x)
	}
	return x
}
