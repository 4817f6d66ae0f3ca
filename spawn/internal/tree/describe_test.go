package tree

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// hostileTexts want to break out of the place of a text in a line, or to be another line.
var hostileTexts = []string{
	"x\n7 2026-01-01T00:00:00.000Z entry 1 EVIL", "\r\x1b[2KEVIL", "a\u202eEVIL", "a\u2028EVIL",
	"a\u2029EVIL\u2066", "x, EVIL", `x", "EVIL`, "EVIL\x00\x7f\u0085\u00ad\u200b", "\xffEVIL\xfe",
	`\`, `"EVIL`, " EVIL", "EVIL\tx\u00a0y", "`EVIL`", "\u3164EVIL",
}

// fill gives every text within v, at any depth, a value. Keys are valid keys.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.Uint8:
			v.SetBytes([]byte(strconv.Quote("x")))
		case reflect.Pointer, reflect.Struct, reflect.String:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[session.Key]() {
			v.Set(reflect.ValueOf(session.Must(session.MainKey("main"))))
			return
		}
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field, text)
			}
		}
	}
}

// unquoted returns a line without the quoted texts in it.
func unquoted(t *testing.T, line string) string {
	var b strings.Builder
	for line != "" {
		if quoted, err := strconv.QuotedPrefix(line); err == nil && quoted[0] == '"' {
			line = line[len(quoted):]
			continue
		}
		require.NotEqual(t, byte('"'), line[0], "a quotation mark opens nothing")
		b.WriteByte(line[0])
		line = line[1:]
	}
	return b.String()
}

// Whatever texts a fact of any kind has, it is one line, and no text can be mistaken for anything
// but a text.
func TestDescribeQuotesEveryText(t *testing.T) {
	for k := Kind(1); k < kinds; k++ {
		for _, hostile := range hostileTexts {
			for _, flags := range []Flags{0, ^Flags(0)} {
				f := Fact{}
				fill(reflect.ValueOf(&f).Elem(), hostile)
				f.Kind, f.Flags, f.N, f.Num, f.Until = k, flags, 1, 1, 5
				line := f.String()
				for _, r := range line {
					drawn := r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r)
					require.True(t, drawn, "%q", line)
					require.False(t, unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp), "%q", line)
					require.NotEqual(t, unicode.ReplacementChar, r, "%q", line)
				}
				require.NotContains(t, unquoted(t, line), "EVIL", "%v: %s", k, line)
			}
		}
	}
}
