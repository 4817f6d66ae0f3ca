// Package arch checks the rules of the house that neither the compiler nor the linter knows. The
// house itself is a value, a [House]; that of this repository stands in arch_test.go at its root.
//
//	a tree of sources (fs.FS)          House
//	          |                          |
//	          +----------> Check <-------+
//	                         |
//	                    []Violation      where, which rule, and why
//
// These are the rules, by the word that a [Violation] carries:
//
//   - room, arrow, hidden, kit, nested: which package may import which
//   - third: which packages of other modules a package may import
//   - doc, example: a package says what it is, and shows it
//   - background, sleep, pure: contexts are passed on, tests do not wait, what decides has no clock
//   - length: functions are short ([House.MaxFunc])
//   - text: text that no file may have ([House.Forbidden])
//   - word: wordings to avoid ([House.Words])
//   - columns: lines are short ([House.MaxColumns])
//   - prefix: an error names the package that it comes from ([House.Prefixes])
//   - files: packages are small ([House.MaxFiles])
//   - repeat: test files do not repeat one another ([House.MaxRepeat])
//
// Sources are parsed, never built: a violation in a file for another operating system is found as
// well.
package arch
