package sat

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
