package enum

import (
	"fmt"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// String returns the word for v, or "Type(v)" for a value that has none.
func String[T ~uint8](words []string, typ string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}

// Marshal is String for MarshalText: a value without a word is an error. The error begins with the
// name of the package pkg and calls the value what.
func Marshal[T ~uint8](words []string, pkg, what string, v T) ([]byte, error) {
	if int(v) < len(words) {
		return []byte(words[v]), nil
	}
	return nil, fmt.Errorf("%s: %d is not a %s", pkg, uint8(v), what)
}

// Unmarshal sets *v to the value with that word, in any letter case of ASCII. Words come from
// configuration that people write, so every package has this one rule; what Marshal returns is
// always in the case of words. The error for a word that is not one of them is like that of
// [Marshal], and leaves *v as it is.
func Unmarshal[T ~uint8](words []string, pkg, what string, word []byte, v *T) error {
	for i, w := range words {
		if equalFold(w, word) {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("%s: unknown %s %s, want one of %q", pkg, what, text.Quote(string(word)), words)
}

// equalFold reports whether text is the word, but for the case of letters of ASCII. The folding of
// Unicode would take letters that only look alike.
func equalFold(word string, text []byte) bool {
	if len(word) != len(text) {
		return false
	}
	for i, c := range text {
		if lower(c) != lower(word[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
