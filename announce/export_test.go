package announce

import (
	"maps"
	"slices"
)

// TagNames returns the names of all tags that the sanitizer knows.
func TagNames() []string { return slices.Sorted(maps.Keys(tagKinds)) }

// HidesToEnd reports whether an opening tag of that name hides the text up to its end.
func HidesToEnd(name string) bool {
	return tagKinds[name] == thinkTag || tagKinds[name] == memoryTag
}

// What a silent reply consists of.
var (
	IsTokens       = isTokens
	TrimDecoration = trimDecoration
)
