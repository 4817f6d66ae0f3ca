package openclaw

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainOf returns a value as package json would have it.
func plainOf(v *value) any {
	switch v.kind {
	case kindBool:
		return v.on
	case kindNumber:
		return v.num
	case kindString:
		return v.str
	case kindList:
		list := []any{}
		for _, x := range v.items {
			list = append(list, plainOf(x))
		}
		return list
	case kindObject:
		m := map[string]any{}
		for _, f := range v.fields {
			m[f.name] = plainOf(f.value)
		}
		return m
	default:
		return nil
	}
}

func TestDecode(t *testing.T) {
	inf := math.Inf(1)
	for text, want := range map[string]any{
		`null`: nil, ` true `: true, `false`: false, "\ufeff{}": map[string]any{},
		`0`: 0.0, `12`: 12.0, `-1.5`: -1.5, `+3`: 3.0, `.5`: 0.5, `5.`: 5.0, `-.5e1`: -5.0,
		`1e3`: 1000.0, `1E+2`: 100.0, `0xFf`: 255.0, `-0x10`: -16.0, `Infinity`: inf,
		`-Infinity`: -inf, `+Infinity`: inf, `1e999`: inf,
		`"a"`: "a", `'it''`: errors.New("x"), `'a"b'`: `a"b`, `"a'b"`: "a'b",
		`"\b\f\n\r\t\v\0\'\"\\\/\a"`: "\b\f\n\r\t\v\x00'\"\\/a",
		`"\x41\u0042\ud83d\ude00"`:   "AB😀", `"\ud83d"`: "\ufffd", `"\ud83dx\ude00"`: "\ufffdx\ufffd",
		"\"a\\\nb\"": "ab", "\"a\\\r\nb\"": "ab", "\"a\\\u2028b\"": "ab", "\"a\u2028b\"": "a\u2028b",
		`[1,2,]`: []any{1.0, 2.0}, `[]`: []any{}, `[[],{}]`: []any{[]any{}, map[string]any{}},
		`{a:1,'b':2,"c":3,}`:        map[string]any{"a": 1.0, "b": 2.0, "c": 3.0},
		`{null:1,true:2,class:3}`:   map[string]any{"null": 1.0, "true": 2.0, "class": 3.0},
		`{$a_1:1,ünï:2,\u0061b:3}`:  map[string]any{"$a_1": 1.0, "ünï": 2.0, "ab": 3.0},
		`{Infinity:Infinity,NaN:1}`: map[string]any{"Infinity": inf, "NaN": 1.0},
		"// x\n{/* y\n*/a:1// z\n}": map[string]any{"a": 1.0},
		"{a:1,a:2}":                 map[string]any{"a": 2.0},
		"\u00a0\u2003\t\v\f1\u2029": 1.0,
		`"http://x/*y*/"`:           "http://x/*y*/",
		`{await:1,let:2,async:3}`:   map[string]any{"await": 1.0, "let": 2.0, "async": 3.0},
		strings.Repeat("[", 100) + strings.Repeat("]", 100): func() any {
			var v any = []any{}
			for range 99 {
				v = []any{v}
			}
			return v
		}(),
	} {
		v, err := decode([]byte(text))
		if _, bad := want.(error); bad {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, plainOf(v), text)
	}
	v, err := decode([]byte("NaN"))
	require.NoError(t, err)
	require.True(t, math.IsNaN(v.num))
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "1:1: the file ends, want a value",
		`// only`:                        "1:8: the file ends, want a value",
		`{`:                              "1:2: the file ends, want a name or }",
		`{a`:                             "1:3: the file ends, want a colon",
		`{a:`:                            "1:4: the file ends, want a value",
		`{a:1`:                           "1:5: the file ends, want a comma or }",
		`{a 1}`:                          `1:4: there is "1", want a colon`,
		`{a:1 b:2}`:                      `1:6: there is "b", want a comma or }`,
		`{,}`:                            `1:2: there is ",", want a name or }`,
		`{1:2}`:                          `1:2: there is "1", want a name or }`,
		`[,]`:                            `1:2: there is ",", want a value`,
		`[1,,2]`:                         `1:4: there is ",", want a value`,
		"[1\n 2]":                        `2:2: there is "2", want a comma or ]`,
		`{} {}`:                          `1:4: there is "{", want the end of the file`,
		`undefined`:                      `1:1: there is "undefined", want a value`,
		`a`:                              `1:1: there is "a", want a value`,
		"`a`":                            "want a value",
		`01`:                             "1:1: legacy octal",
		`1_000`:                          `1:1: there is "1_000", want a value`,
		`1n`:                             `1:1: there is "1n", want a value`,
		`0b1`:                            `1:1: there is "0b1", want a value`,
		`0o7`:                            `1:1: there is "0o7", want a value`,
		`0x`:                             "1:2: unexpected identifier",
		`--1`:                            `1:1: there is "--", want a value`,
		`- 1`:                            "1:3: a number follows its sign at once",
		`-/**/1`:                         "1:6: a number follows its sign at once",
		`-"a"`:                           `1:2: there is "\"a\"", want a value`,
		`"a`:                             "1:1: unterminated string",
		"\"a\nb\"":                       "1:1: unterminated string",
		`"\1"`:                           "1:1: the string has an escape",
		`"\01"`:                          "1:1: the string has an escape",
		`"\x4"`:                          "1:1: the string has an escape",
		`"\u{41}"`:                       "1:1: the string has an escape",
		`{"\u12":1}`:                     "1:2: the name has an escape",
		`{\u{61}:1}`:                     "1:2: the name has an escape",
		"<!-- x\n1":                      "want a comment that begins",
		"\n--> x\n1":                     "want a comment that begins",
		`/* x`:                           "1:1: ",
		`{a:1}x`:                         `1:6: there is "x", want the end`,
		"{\"😀\": 1 x}":                   `1:9: there is "x"`,
		`#a`:                             "1:1: there is",
		`/a/`:                            "1:1: there is",
		`{...a}`:                         "1:2: there is",
		`{a(){}}`:                        "1:3: there is",
		`{[a]:1}`:                        "1:2: there is",
		`{a:hunter2hunter2}`:             "1:4: there is a word of 14 characters without quotation marks",
		`{a:'x' 'hunter2hunter2'}`:       "1:8: there is a text, want a comma or }",
		`{a:"x" "hunter2hunter2"}`:       "1:8: there is a text, want a comma or }",
		`{a:hunter2}`:                    "1:4: there is a word of 7 characters",
		"{a:`hunter2`}":                  "1:4: there is a text, want a value",
		"\xff":                           "1:1: the file is not UTF-8",
		"{a:\"\x00":                      "1:4: unterminated string",
		"\x00":                           "1:1: ",
		strings.Repeat("[", 1_000_000):   "1:102: more than 100 objects and lists are in one another",
		strings.Repeat(`{a:`, 101) + "1": "more than 100",
		strings.Repeat(" ", maxFile+1):   fmt.Sprintf("more than %d bytes", maxFile),
	} {
		_, err := decode([]byte(text))
		e, ok := errors.AsType[*FieldError](err)
		require.True(t, ok, "%.50s: %v", text, err)
		require.Contains(t, e.Error(), want, "%.50s", text)
	}
}

// What package json takes, decode takes as the same; and no text makes it panic.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e3,"x\u0041",null,true]}`, `{a:'b',}`, `-Infinity`, "//\n0x1", `"\ud83d"`, `{"":0}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := decode([]byte(s))
		if err != nil {
			require.ErrorAs(t, err, new(*FieldError))
		}
		var want any
		if strings.Count(s, "[")+strings.Count(s, "{") > maxDepth || strings.Contains(s, "e") ||
			json.Unmarshal([]byte(s), &want) != nil || !json.Valid([]byte(s)) || len(s) > 1000 {
			return
		}
		if err == nil {
			require.Equal(t, want, plainOf(v), "%q", s)
		} else {
			require.Contains(t, err.Error(), "not UTF-8", "%q", s)
		}
	})
}
