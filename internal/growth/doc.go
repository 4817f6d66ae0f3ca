// Package growth tells how the time of work grows with its input, and what work allocates. It is
// for tests.
//
//	short text x 4 ──> work ──> time ─┐
//	long text  x 1 ──> work ──> time ─┴─> by how much a doubling makes it longer
package growth
