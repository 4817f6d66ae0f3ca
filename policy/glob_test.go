package policy

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/offshoot-sdk/offshoot/session"
)

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "anything", true},
		{"read", "read", true},
		{"read", "reader", false},
		{"web_*", "web_search", true},
		{"web_*", "web", false},
		{"*_fetch", "web_fetch", true},
		{"*_fetch", "web_fetches", false},
		{"s*s", "ss", true},
		{"s*s", "s", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"*ab", "aab", true},
		{"a*ba", "aba", true},
		{"a*ba", "abba", true},
		{"ab*ba", "aba", false},
		{"re.d", "read", false},
	} {
		assert.Equal(t, tt.want, glob(tt.pattern, tt.name), "%q %q", tt.pattern, tt.name)
	}
}

// FuzzGlob compares with a regular expression, which is linear in Go.
func FuzzGlob(f *testing.F) {
	f.Add("web_*", "web_search")
	f.Add("*a*b*", "xaxb")
	f.Add("a*ba", "aba")
	f.Add("ab*ba", "aba")
	f.Add("***", "")
	f.Add("[rw]*", "[rw]x")
	f.Add("a\n*", "a\nb")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || len(pattern) > 1000 {
			return
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile(`\A(?s:` + strings.Join(parts, ".*") + `)\z`).MatchString(name)
		if got := glob(pattern, name); got != want {
			t.Errorf("glob(%q, %q) is %v", pattern, name, got)
		}
	})
}

// FuzzCanonicalTool checks that spelling raises no rights: what is canonical stays so, and a name
// is denied in any spelling.
func FuzzCanonicalTool(f *testing.F) {
	for _, name := range []string{"read", " Bash ", "APPLY-PATCH", "bash\n", "group:fs", "\u212aill", "\u200bread", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		once := canonicalTool(name)
		if again := canonicalTool(once); again != once {
			t.Errorf("canonical %q, then %q", once, again)
		}
		if strings.Contains(once, "*") || isGroup(once) || once == "" {
			return
		}
		rules := Rules{Tools: ToolPolicy{Deny: []string{name}}}
		s := Subject{Agent: "main", Role: session.RoleMain}
		for _, spelling := range []string{name, once, " " + strings.ToUpper(once) + "\n"} {
			left := rules.FilterTools(s, []string{spelling})
			if canonicalTool(spelling) == once && len(left) != 0 {
				t.Errorf("denied %q, but %q passes", name, spelling)
			}
		}
	})
}

func BenchmarkGlob(b *testing.B) {
	pattern, name := strings.Repeat("a*", 50)+"b", strings.Repeat("a", 1000)
	b.ReportAllocs()
	for b.Loop() {
		if glob(pattern, name) {
			b.Fatal("matched")
		}
	}
}
