package attach_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
)

// What no table can list: a name that passes is one line that can be seen, leads nowhere, and is
// refused beside itself. On a disk it is refused beside itself in other letters, too.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"a.txt", "A", "..", "a/b", `a\b`, "", " ", "a\x00", "é", "e\u0301", "\uac00", "\u1100\u1161",
		"con", "nul.txt", "COM¹", "a:b", "a.", ".manifest.json", "\u202ea", "日本.txt", "K", "ſ",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, name string, onDisk bool) {
		err := attach.CheckNames([]string{name}, onDisk)
		if err != nil {
			bad, ok := errors.AsType[*attach.NameError](err)
			require.True(t, ok)
			require.Less(t, len(bad.Error()), 1000)
			return
		}
		require.True(t, utf8.ValidString(name) && name != "" && len(name) <= 255)
		require.False(t, strings.ContainsAny(name, "/\\\x00"))
		require.False(t, strings.ContainsFunc(name, unicode.IsControl))
		require.NotContains(t, []string{".", "..", ".manifest.json"}, name)
		require.Error(t, attach.CheckNames([]string{name, name}, onDisk))
		for _, other := range []string{strings.ToUpper(name), strings.ToLower(name)} {
			if onDisk && strings.EqualFold(other, name) {
				require.Error(t, attach.CheckNames([]string{name, other}, true))
			}
		}
	})
}

// Names of different files in many scripts stay so.
func TestNamesThatDiffer(t *testing.T) {
	for _, names := range [][]string{
		{"a", "b"},
		{"日本", "中国"},
		{"né", "nà"},
		{"ne\u0301", "na\u0300"},
		{"Привет", "Пример"},
		{"a.txt", "a.md"},
		{"가", "나"},
		{"हिन्दी", "मराठी"},
		{"1", "01"},
		{"common", "console.log"},
	} {
		require.NoError(t, attach.CheckNames(names, true), names)
	}
}

// Whatever a content is, what is decoded of base64 encodes to it, and nothing of it is redacted
// into what is kept.
func FuzzContents(f *testing.F) {
	for _, s := range []string{"", "x", "eA==", "eB==", "e A = =", "\xff", "(attached; not kept here: )"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		data, err := attach.Decode(content, "base64")
		if err == nil {
			packed := strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(content)
			require.Equal(t, packed, base64.StdEncoding.EncodeToString(data))
		}
		const canary = "canary-4711"
		args, err := json.Marshal(map[string]any{"task": "x", "attachments": []any{
			map[string]string{"name": "a", "content": canary + content},
		}})
		require.NoError(t, err)
		shown, changed := attach.Redact(args)
		require.True(t, changed)
		require.NotContains(t, string(shown), canary)
		again, _ := attach.Redact(shown)
		require.JSONEq(t, string(shown), string(again), "what is redacted stays as it is")
	})
}

// Nothing of a content is kept, however the call is written.
func TestRedact(t *testing.T) {
	for args, want := range map[string]string{
		`{"attachments":[{"name":"a","content":"canary"}]}`:                   `"name":"a"`,
		`{"attachments":[{"name":"a","content":"canary","encoding":"utf8"}]}`: `"encoding":"utf8"`,
		`{"\u0061ttachments":[{"\u0063ontent":"canary"}]}`:                    `sha256`,
		`{" Attachments ":[{"Content":"canary"}]}`:                            `sha256`,
		`{"attachments":"canary"}`:                                            `sha256`,
		`{"attachments":{"content":"canary"}}`:                                `sha256`,
		`{"attachments":["canary"]}`:                                          `sha256`,
		`{"attachments":[{"content":{"a":"canary"}}]}`:                        `sha256`,
		`{"attachments":[{"data":"canary"}]}`:                                 `sha256`,
		`{"attachments":[{"content":"canary"}`:                                `{}`,
		`{"attachments":[{"content":"canary"}],"attachments":[]}`:             `"attachments":[]`,
		`{"attachments":[],"attachments":[{"content":"canary"}]}`:             `sha256`,
		`{"attachments":[{"name":"` + strings.Repeat("canary", 200) + `"}]}`:  `sha256`,
		`{"task":"x","attachments":[{"content":""}]}`:                         `"task":"x"`,
	} {
		shown, changed := attach.Redact(json.RawMessage(args))
		require.True(t, changed, args)
		require.NotContains(t, string(shown), "canary", args)
		require.Contains(t, string(shown), want, args)
		require.True(t, json.Valid(shown), args)
	}
	for _, args := range []string{`{}`, `{"task":"attachments"}`, `{"attachments":null}`, `[`, ``} {
		shown, changed := attach.Redact(json.RawMessage(args))
		require.False(t, changed, args)
		require.Equal(t, args, string(shown))
	}
}

func TestHints(t *testing.T) {
	for hint, ok := range map[string]bool{
		"": true, "a": true, "/in/data_1.x-y": true, "c:/x": true, "..a": true,
		"..": false, "a/../b": false, "a b": false, "a\nb": false, "é": false, "$x": false,
		strings.Repeat("a", 257): false,
	} {
		require.Equal(t, ok, attach.CheckHint(hint) == "", hint)
	}
}
