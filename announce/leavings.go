package announce

import (
	"slices"
	"strings"
)

// leastLeaving is how many bytes of a secret what is left of it must have to be one: less is a part
// of other words.
const leastLeaving = 6

// secretFrames are texts that a secret may stand in, before and after it. What Visible removes at
// the end of a text depends on what stands there.
var secretFrames = [...][2]string{
	{"x ", " x"},
	{"x ", ""},
	{"", " x"},
	{"", ""},
	{"x ", "NO_REPLY"},
	{"x ", " NO_REPLY"},
	{"x ", "\nNO_REPLY"},
	{"", "\nNO_REPLY"},
	{"NO_REPLY ", ""},
	{"NO_REPLY\n", ""},
	{"x ", "\nHuman:"},
}

// withLeavings returns the values of secrets, and what Sanitize and Visible leave of each that has
// something which they remove, such as a tag or marks before a silent token. Texts are masked when
// they have been cleaned, and would show that.
func withLeavings(values []string) []string {
	all := slices.Clone(values)
	for _, v := range values {
		if !isPlainSecret(v) {
			all = append(all, leavings(v)...)
		}
	}
	return all
}

// leavings returns what is left of a value.
func leavings(v string) (list []string) {
	add := func(left string) {
		left = strings.TrimSpace(left)
		if len(left) >= leastLeaving && left != v && !strings.Contains(left, v) &&
			!slices.Contains(list, left) {
			list = append(list, left)
		}
	}
	add(Sanitize(v))
	for _, f := range secretFrames {
		shown, _ := Visible(f[0] + v + f[1])
		shown = strings.TrimPrefix(shown, strings.TrimSpace(f[0]))
		add(strings.TrimSuffix(shown, strings.TrimSpace(f[1])))
	}
	return list
}

// isPlainSecret reports whether nothing of a value is ever removed: it is one word of letters,
// digits and what stands between them in tokens.
func isPlainSecret(v string) bool {
	for i := range len(v) {
		switch c := v[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9':
		case (c == '-' || c == '_' || c == '.' || c == '/' || c == '+') && i > 0 && i < len(v)-1:
		default:
			return false
		}
	}
	return true
}
