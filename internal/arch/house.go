package arch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A House describes a module: its rooms with their arrows, and the rules for its sources.
// Directories are slash-separated and relative to the root of the module. The zero House allows no
// package at all.
type House struct {
	// Module is the module path.
	Module string
	// Rooms are the packages that the house is made of.
	Rooms []Room
	// Internal is the directory of packages that every room may import and that import nothing of
	// the rooms, "" if there is none.
	Internal string
	// InternalThird are the third-party packages that those may import.
	InternalThird []string
	// Examples is the directory of programs, which may import every room.
	Examples string
	// TestOnly are the third-party packages that _test.go files may import as well.
	TestOnly []string
	// Pure are the directories of packages that decide: they read no clock, draw no random numbers,
	// start no goroutine and know nothing of the operating system.
	Pure []string
	// Bubbles are the test kits that run what they are given in a bubble of testing/synctest. A
	// file that imports one may pause, like one that imports testing/synctest itself.
	Bubbles []string
	// MaxFunc is how many lines a function may have, 0 for any number. The tables of a test do not
	// count.
	MaxFunc int
	// LongFuncs may have more. An entry is the directory, a dot, and the name, with the type's for
	// a method: "spawn.Run.step". An entry that is not needed is a violation.
	LongFuncs []string
	// Forbidden is text that no file of the repository may have.
	Forbidden []*regexp.Regexp
	// Words are wordings that comments, declared names, the messages of what is not a test, the
	// names of tests, and Markdown documents avoid. Testdata may have them.
	Words []Word
	// MaxColumns is how many columns a line of Go, or of prose in a Markdown document, may have, 0
	// for any number. A tab counts 4. What cannot be broken does not count: the contents of string
	// literals, directives, addresses, what an example prints; tables and code in a document.
	MaxColumns int
	// Prefixes are the prefixes of errors, by the directory of the package, where it is not the
	// name of the package itself: that of the public package which passes the errors on. Nil
	// leaves the errors unchecked. An entry that is not needed is a violation.
	Prefixes map[string]string
	// MaxFiles is how many Go files without tests a package may have, 0 for any number.
	MaxFiles int
	// MaxRepeat is how many consecutive lines two test files of one package may have in common, 0
	// for any number. Blank lines, comments, imports and punctuation alone do not count.
	MaxRepeat int
	// Exempt are the files and directories that may break a rule, by the rule: "word", "columns",
	// "prefix", "files", "repeat" or "nested". An entry that is not needed is a violation.
	Exempt map[string][]string
}

// A Word is a wording to avoid.
type Word struct {
	// Is is a regular expression that matches whole words in any case. A space in it matches white
	// space of any length, line breaks included. The words of a name are matched one by one:
	// "door" is in doorKey.
	Is string
	// But are the beginnings of what Is matches and may be said, as regular expressions as well.
	But []string
}

// A Room is a directory: its package, the packages below it, and its test kit, which is the
// directory named after the room with "test" at its end. A directory below it may be a Room of its
// own, which then has arrows of its own and may import what is internal to the outer one.
type Room struct {
	// Dir is the directory, such as "spawn" or "session/dirstore".
	Dir string
	// Ours are the directories of the rooms it may import.
	Ours []string
	// TestOurs are the directories of the rooms that its _test.go files may import as well.
	TestOurs []string
	// Third are the third-party packages, or prefixes of their paths, that it may import.
	Third []string
	// Kit says that the package in Dir is a test kit itself, of what stands outside of the module.
	Kit bool
}

// mayImport reports whether the packages of r, or its tests, may import those of the room other.
func (r *Room) mayImport(other *Room, test bool) bool {
	return r == other || slices.Contains(r.Ours, other.Dir) ||
		test && slices.Contains(r.TestOurs, other.Dir)
}

// A Violation is a place that breaks a rule.
type Violation struct {
	Pos  string // file and line, or the directory of a package
	Rule string // one word, such as "arrow"
	Text string
}

// String returns the violation as one line.
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Pos, v.Rule, v.Text) }

// A kind is the part that a package has in the house.
type kind uint8

const (
	stranger   kind = iota // in no room
	sign                   // the package at the root of the module
	room                   // a room's own package, or one below it
	hidden                 // internal to a room
	kit                    // the test kit of a room, or a room that is one
	foundation             // internal to the house
	program                // an example
)

// place returns which kind of package the directory dir holds, and the innermost room that it is
// in. The Room is nil if it is in none.
func (h *House) place(dir string) (kind, *Room) {
	switch {
	case dir == ".":
		return sign, nil
	case h.Internal != "" && within(dir, h.Internal):
		return foundation, nil
	case h.Examples != "" && within(dir, h.Examples):
		return program, nil
	}
	r := h.room(dir)
	switch {
	case r == nil:
		return stranger, nil
	case dir == path.Join(r.Dir, path.Base(r.Dir)+"test"), r.Kit && dir == r.Dir:
		return kit, r
	case within(dir, path.Join(r.Dir, "internal")):
		return hidden, r
	}
	return room, r
}

// room returns the innermost room that has a directory, nil if none has.
func (h *House) room(dir string) *Room {
	var inner *Room
	for i := range h.Rooms {
		r := &h.Rooms[i]
		if within(dir, r.Dir) && (inner == nil || within(r.Dir, inner.Dir)) {
			inner = r
		}
	}
	return inner
}

// ours returns the directory of an import path of this module.
func (h *House) ours(imported string) (dir string, ok bool) {
	if imported == h.Module {
		return ".", true
	}
	return strings.CutPrefix(imported, h.Module+"/")
}

// within reports whether dir is parent or below it.
func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// standard reports whether an import path is one of the standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// listed reports whether an import path is one of the list or below one of it.
func listed(imported string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return within(imported, p) })
}
