package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// jsonOf returns what an encoder of JSON makes of a text that writes each character for which
// escapes returns true as an escape of four digits.
func jsonOf(s, format string, escapes func(r rune) bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r > 0xFFFF && escapes(r):
			r -= 0x10000
			fmt.Fprintf(&b, format+format, 0xD800+r>>10, 0xDC00+r&0x3FF)
		case escapes(r):
			fmt.Fprintf(&b, format, r)
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// percentOf returns what an encoder of URLs makes of a text that leaves some characters.
func percentOf(s, format, leaves string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(leaves, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, format, s[i])
		}
	}
	return b.String()
}

const (
	unreserved  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	lowerEscape = `\u%04x`
	upperEscape = `\u%04X`
)

// around is what stands behind a value in a file.
const around = "; HOST: example.org; USER: ann; LANG: en_US"

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// encoders write a value as programs do.
var encoders = map[string]func(s string) string{
	"as it is": func(s string) string { return s },
	"json of Python": func(s string) string {
		return jsonOf(s, lowerEscape, func(r rune) bool { return r > '~' })
	},
	"json, capitals": func(s string) string {
		return jsonOf(s, upperEscape, func(r rune) bool { return r > '~' || r == '<' })
	},
	"json of PHP": func(s string) string {
		inASCII := jsonOf(s, lowerEscape, func(r rune) bool { return r > '~' })
		return strings.ReplaceAll(inASCII, "/", `\/`)
	},
	"json of .NET": func(s string) string {
		return jsonOf(s, upperEscape, func(r rune) bool { return strings.ContainsRune(`"'+<>&`+"`", r) })
	},
	"json, escaped": func(s string) string {
		return jsonOf(s, lowerEscape, func(rune) bool { return true })
	},
	"json of Go":   asJSON,
	"json in json": func(s string) string { return asJSON(asJSON(s)) },
	"json in json in json": func(s string) string {
		return asJSON(asJSON(asJSON(s)))
	},
	"query":          url.QueryEscape,
	"path":           url.PathEscape,
	"lower hex":      func(s string) string { return percentOf(s, "%%%02x", unreserved+"-_.~") },
	"JavaScript":     func(s string) string { return percentOf(s, "%%%02X", unreserved+"-_.~!*'()") },
	"all escaped":    func(s string) string { return percentOf(s, "%%%02X", unreserved) },
	"escaped twice":  func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
	"userinfo":       func(s string) string { return percentOf(s, "%%%02X", unreserved+"-_.~$&+;=,") },
	"html":           html.EscapeString,
	"quoted in Go":   strconv.Quote,
	"ASCII in Go":    strconv.QuoteToASCII,
	"bytes":          func(s string) string { return percentOf(s, `\x%02x`, unreserved) },
	"octal":          func(s string) string { return percentOf(s, `\%03o`, unreserved) },
	"quoted-print":   func(s string) string { return percentOf(s, "=%02X", unreserved+" ") },
	"base64, 76":     func(s string) string { return wrapped(inBase64("PASS: "+s+around), 76, "\n") },
	"base64, 64":     func(s string) string { return wrapped(inBase64("a="+s+around), 64, "\r\n") },
	"base64 in json": func(s string) string { return asJSON(wrapped(inBase64("ab"+s+"z"), 20, "\n")) },
	"base64 in url":  func(s string) string { return url.QueryEscape(inBase64(s)) },
	"wrapped":        func(s string) string { return s[:5] + "\n    " + s[5:] },
	"quoted mail":    func(s string) string { return s[:5] + "\r\n> " + s[5:] },
	"no width":       func(s string) string { return s[:5] + "\u200b\u200d" + s[5:] },
	"colour":         func(s string) string { return s[:5] + "\x1b[1;31m" + s[5:] },
}

// A value of a program is found however programs write it, and the same in pieces. What is masked
// once stays.
func TestOwnValuesInEverySpelling(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"Tr0ub4dor&3/zebra+qé", "abc/def/ghi", "pässword9", "a<b>c&d9x", "tab\tin9x", "qu'ote99",
		"pl+us999", "a b!c*(d)", "a@b:c$d9", "dash-und_er~9", `back\slash"9`, "line\nbreak9", "emoji😀value",
		`C:\new\table`, "100%25sure", "a&amp;b=3D", "correct horse battery",
	} {
		own := secret.NewOwn([]string{value, "another value"}, nil)
		for name, encode := range encoders {
			text := "so: " + encode(value) + " ok."
			shown := own.Mask(text)
			require.Contains(t, shown, "***", "%q %s: %q", value, name, text)
			require.NotContains(t, shown, encode(value), "%q %s", value, name)
			require.Equal(t, shown, own.Mask(shown), "%q %s", value, name)
			if !strings.HasPrefix(name, "base64") && !strings.Contains(name, "json in") &&
				!strings.Contains(name, "Go") {
				require.Equal(t, "so: *** ok.", shown, "%q %s: %q", value, name, text)
			}
			for _, size := range []int{1, 3, 7} {
				require.Equal(t, shown, maskedInPieces(own, text, size), "%q %s: %q", value, name, text)
			}
		}
	}
}

// maskedInPieces returns what a masker shows of a text that comes in pieces.
func maskedInPieces(own *secret.Own, text string, size int) string {
	pass := own.Pass()
	var m secret.Masker
	var out strings.Builder
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		out.WriteString(m.Write(pass.Write(rest[:n])))
		rest = rest[n:]
	}
	return out.String() + m.Write(pass.Close()) + m.Close()
}

// A random text in random pieces is masked as the whole of it, and in another text than one with
// the value nothing is.
func TestOwnValuesInPieces(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // repeatable
	own := secret.NewOwn([]string{`a\b%c&d+e=f`, "aaaaaab", "se cret", "\\\\\\\\x"}, nil)
	tokens := []string{
		"a", `\`, "%", "b", "%5c", "%25", "&amp;", "&", "+", "=", "=3D", "c", "d", "e", "f", `\\`, `\u005c`,
		"\n", "\r\n", "\u200b", "\x1b[1m", " ", "> ", "se", "cret", "x", `\n`, "aaaaaa", "é", "\xff",
	}
	for range 5000 {
		var b strings.Builder
		for range random.IntN(20) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		want := own.Mask(b.String())
		require.Equal(t, want, maskedInPieces(own, b.String(), 1+random.IntN(4)), "%q", b.String())
	}
	const prose = "a\nb c%d &e+f=g \\h aaaaaa, b se\u200bcre t. https://x/?a=b%20c&d=e \\\\\\x"
	require.Equal(t, prose, own.Mask(prose))
}

// What a reader does not see in a line hides nothing from a pattern, and stays where it is.
func TestPatternsSeeWhatAReaderSees(t *testing.T) {
	t.Parallel()
	own := secret.NewOwn(nil, patterns(`ticket-(\d{4})`, `room \w+`))
	for text, want := range map[string]string{
		"a\u200b ticket-\u200b12\x1b[1m34\u200d é": "a\u200b ticket-\u200b***\u200d é",
		"r\u2060oom\x00 12":                        "***",
		"ticket-1\n234":                            "ticket-1\n234",
	} {
		require.Equal(t, want, own.Mask(text), "%q", text)
	}
}

// A json text whose strings are escaped is masked as the strings that it stands for.
func TestOwnValuesInJSON(t *testing.T) {
	t.Parallel()
	own := secret.NewOwn([]string{"pässword9/x"}, nil)
	out, masked := own.MaskJSON(`{"a":"p\u00e4ssword9\/x"}`, func(s string) string { return s })
	require.True(t, masked)
	require.True(t, json.Valid([]byte(out)))
	require.Equal(t, `{"a":"***"}`, out)
}

func patterns(all ...string) []*regexp.Regexp {
	var compiled []*regexp.Regexp
	for _, p := range all {
		compiled = append(compiled, regexp.MustCompile(p))
	}
	return compiled
}

// nestedEncoders write a text as programs do, one behind another.
var nestedEncoders = []struct {
	name   string
	encode func(string) string
}{
	{"json", asJSON},
	{"json of .NET", encoders["json of .NET"]},
	{"query", url.QueryEscape},
	{"path", url.PathEscape},
	{"html", html.EscapeString},
}

// A value is found where one encoder wrote what another had written, in each order of up to four,
// and the same in pieces.
func TestOwnValuesInNestedSpellings(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	for _, value := range []string{`s3cr&t"P<ss>word`, "pä/ss+w<rd 9", `back\slash"9`, "100%25&amp;x"} {
		own := secret.NewOwn([]string{value}, nil)
		var nest func(name, text string, times int)
		nest = func(name, text string, times int) {
			whole := "https://h/x?q=" + text + " ok."
			shown := own.Mask(whole)
			require.Contains(t, shown, "***", "%q%s: %q", value, name, whole)
			require.NotContains(t, shown, text, "%q%s", value, name)
			require.Equal(t, shown, own.Mask(shown), "%q%s", value, name)
			for _, size := range []int{1, 7} {
				require.Equal(t, shown, maskedInPieces(own, whole, size), "%q%s: %q", value, name, whole)
			}
			if times == 4 {
				return
			}
			for _, e := range nestedEncoders {
				nest(name+", "+e.name, e.encode(text), times+1)
			}
		}
		nest("", value, 0)
	}
}

// A member of JSON in a query, in an attribute and in JSON loses its value alone.
func TestOwnValuesInNestedTexts(t *testing.T) {
	t.Parallel()
	const value = `s3cr&t"P<ss>word`
	own := secret.NewOwn([]string{value}, nil)
	for text, want := range map[string]string{
		"?q=" + url.QueryEscape(`{"body":`+strconv.Quote(value)+`}`) + "&a=b":           "?q=%7B%22body%22%3A%22***%22%7D&a=b",
		`?q=%7B%22body%22%3A%22s3cr%5Cu0026t%5C%22P%5Cu003css%5Cu003eword%22%7D`:        "?q=%7B%22body%22%3A%22***%22%7D",
		`data-x="{&quot;body&quot;:&quot;s3cr\u0026t\&quot;P\u003css\u003eword&quot;}"`: `data-x="{&quot;body&quot;:&quot;***&quot;}"`,
		`{"a":"{\"b\":\"s3cr\\u0026t\\\"P\\u003css\\u003eword\"}"}`:                     `{"a":"{\"b\":\"***\"}"}`,
		"s3cr%252526t%252522P%25253Css%25253Eword, &amp;":                               "***, &amp;",
		"s3cr&amp;amp;t&amp;quot;P&amp;lt;ss&#38;gt;word &":                             "*** &",
		"s3%E2%80%8Bcr%5Cu200b%26t%22P\\n<ss>word":                                      "***",
		"s3cr=\r\n=26t=22P%3Css=3Eword":                                                 "***",
	} {
		require.Equal(t, want, own.Mask(text), "%q", text)
	}
	// What was encoded five times is text, and so is a character in more than 128 bytes.
	const five = "s3cr%2525252526t\"P<ss>word"
	require.Equal(t, five, own.Mask(five))
	inJSON := encoders["json, escaped"]
	inURL := func(s string) string { return percentOf(s, "%%%02X", "") }
	large := inJSON(inURL(inJSON(value)))
	require.Equal(t, "***", own.Mask(large), "108 bytes for each")
	require.Equal(t, inURL(large), own.Mask(inURL(large)), "324 bytes for each")
}

// A text in which everything looks encoded over and over is the worst case of the time, with values
// that begin so. What is shown is the same in pieces.
func TestNestedSpellingsOfNothing(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	own := secret.NewOwn([]string{`\\\\\\\\x`, "%%%%%%%%x", "&&&&&&&&x", `a\b%c&d`, "    x"}, nil)
	for _, piece := range []string{
		`\`, "%", "%25", "&amp;", "&", "=", "=3D", "+", `\u005c`, "%5C", `%5Cu0025`, "&#x26;", "&#37;", `\\u`,
		"%25%5C", "&amp;#37;25", `\134`, `\\\r`, "=25=35=43", "%2525", `\x5c`, "&#0000", `\u{`, "\x00\\",
	} {
		text := strings.Repeat(piece, 400/len(piece))
		shown := own.Mask(text)
		require.Equal(t, shown, maskedInPieces(own, text, 61), "%q", piece)
	}
}

// Names of members may be of any length, with any word before them.
func TestLongNamesOfMembers(t *testing.T) {
	same := func(s string) string { return s }
	for lead := range 200 {
		for _, sep := range []string{"", " ", ".", "-"} {
			for _, name := range []string{"k", "password", strings.Repeat("n", 200)} {
				of := strings.Repeat("k", lead) + sep + name
				raw := `{"` + of + `":"s3cretValue99","x":["--` + of + `","s3cretValue99"]}`
				shown, masked := secret.MaskJSON(raw, same)
				if sep != "" && name == "password" {
					require.True(t, masked, of)
					require.NotContains(t, shown, `:"s3cret`, of)
				}
				_, _ = secret.MaskJSON(raw[:len(raw)-4], same)
			}
		}
	}
}
