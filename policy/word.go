package policy

import (
	"fmt"
	"slices"
	"strings"
)

// word returns the word for v, or "Type(v)" for a value that has none.
func word[T ~uint8](words []string, typ string, v T) string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}

// wordText is word for MarshalText: a value without a word is an error.
func wordText[T ~uint8](words []string, what string, v T) ([]byte, error) {
	if int(v) < len(words) {
		return []byte(words[v]), nil
	}
	return nil, fmt.Errorf("policy: %d is no %s", uint8(v), what)
}

// unword sets *v to the value whose word is text, in any case and with any space around it.
func unword[T ~uint8](words []string, what string, text []byte, v *T) error {
	i := slices.Index(words, canonicalID(string(text)))
	if i < 0 {
		return fmt.Errorf("policy: unknown %s %q, want one of %s", what, text, strings.Join(words, ", "))
	}
	*v = T(i)
	return nil
}
