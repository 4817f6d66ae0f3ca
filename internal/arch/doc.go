// Package arch checks the rules of the house that no compiler and no linter knows: which package
// may import which, what may be imported from elsewhere, and what every package must bring along.
// The house itself is a value, a [House]; the one of this repository stands in arch_test.go at its
// root.
//
//	a tree of sources (fs.FS)          House
//	          |                          |
//	          +----------> Check <-------+
//	                         |
//	                    []Violation      where, which rule, and why
//
// Sources are parsed, never built: a violation in a file for another operating system is found as
// well.
package arch
