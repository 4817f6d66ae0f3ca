package secret_test

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// unseen is what a reader does not see within a word: characters, sequences of a terminal, and
// breaks of lines.
var unseen = map[string]string{
	"NUL": "\x00", "BEL": "\a", "backspace": "\b", "SO": "\x0e", "DEL": "\x7f", "ESC": "\x1b",
	"soft hyphen": "\u00ad", "ZWSP": "\u200b", "ZWNJ": "\u200c", "ZWJ": "\u200d", "LRM": "\u200e",
	"override": "\u202e", "isolate": "\u2066", "word joiner": "\u2060", "BOM": "\ufeff", "CGJ": "\u034f",
	"filler": "\u3164", "selector": "\ufe0f", "selector 17": "\U000e0100", "tag": "\U000e0041",
	"private": "\ue200", "plane 15": "\U000f0000", "not a character": "\ufdd0", "C1": "\u0081",
	"colour": "\x1b[31m", "true colour": "\x1b[38;2;1;2;3m", "long CSI": "\x1b[" + strings.Repeat("1;", 40) + "m",
	"C1 CSI": "\u009b31m", "OSC, BEL": "\x1b]0;x\a", "OSC, ST": "\x1b]8;;https://h/x\x1b\\",
	"OSC, controls": "\x1b]0;a\tb\bc\u0081d\x7f\a",
	"OSC, C1 ST":    "\x1b]0;x\u009c", "C1 OSC": "\u009d0;x\u009c", "DCS": "\x1bPq#0\x1b\\",
	"C1 DCS": "\u0090q\u009c", "APC": "\x1b_x\x1b\\", "PM": "\x1b^x\x1b\\", "SOS": "\x1bXx\x1b\\",
	"charset": "\x1b(B", "save": "\x1b7", "long title": "\x1b]2;" + strings.Repeat("title ", 200) + "\a",
	"LF": "\n", "CR": "\r", "CRLF": "\r\n", "VT": "\v", "FF": "\f", "NEL": "\u0085", "LS": "\u2028", "PS": "\u2029",
	"indent": "\n    ", "quotation": "\r\n> ", "two breaks": "\n\n", "LS and tab": "\u2028\t",
}

// numbered writes each character that is not a letter or a digit as a number in markup.
func numbered(format string) func(s string) string {
	return func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r < 0x80 && strings.ContainsRune(unreserved, r) {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, format, r)
			}
		}
		return b.String()
	}
}

// unquoted returns what a text is within quotation marks.
func unquoted(quote func(string) string) func(s string) string {
	return func(s string) string { q := quote(s); return q[1 : len(q)-1] }
}

// writers are those of the encoders that write what a reader does not see.
var writers = map[string]func(s string) string{
	"as it is":  func(s string) string { return s },
	"Go":        unquoted(strconv.Quote),
	"Go, ASCII": unquoted(strconv.QuoteToASCII),
	"JSON":      unquoted(asJSON),
	"JSON, ASCII": func(s string) string {
		return jsonOf(s, lowerEscape, func(r rune) bool { return r > '~' || r < ' ' })
	},
	"JSON, all": func(s string) string {
		return jsonOf(s, upperEscape, func(rune) bool { return true })
	},
	"query":         url.QueryEscape,
	"path":          url.PathEscape,
	"numbers":       numbered("&#%d;"),
	"hex numbers":   numbered("&#x%X;"),
	"braces":        numbered(`\u{%x}`),
	"bytes":         encoders["bytes"],
	"octal":         encoders["octal"],
	"mail":          encoders["quoted-print"],
	"markup":        html.EscapeString,
	"Go in JSON":    func(s string) string { return unquoted(asJSON)(unquoted(strconv.Quote)(s)) },
	"JSON in JSON":  func(s string) string { return unquoted(asJSON)(unquoted(asJSON)(s)) },
	"Go in a query": func(s string) string { return url.QueryEscape(unquoted(strconv.Quote)(s)) },
	"JSON in Go in JSON": func(s string) string {
		return unquoted(asJSON)(unquoted(strconv.Quote)(unquoted(asJSON)(s)))
	},
}

// A value is found with anything within it that a reader does not see, once or several times, as
// it is and in every encoding, and the same in pieces. A break of a line counts in a short value.
func TestOwnValuesWithWhatIsNotSeen(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	const value, short = "Pa@ss_w*rd#9", "pA9!"
	own := secret.NewOwn([]string{value, short, "another value"}, nil)
	for what, torn := range unseen {
		between := unseen[[...]string{"ZWSP", "OSC, BEL", "BEL"}[len(what)%3]]
		for name, write := range writers {
			for i, tear := range []string{torn, torn + torn, torn + between, between + torn} {
				for _, at := range []int{5, 1 + (len(name)+i)%(len(value)-1)} {
					text := "so: " + write(value[:at]+tear+value[at:]) + " ok."
					require.Equal(t, "so: *** ok.", own.Mask(text), "%s, %s: %q", what, name, text)
					if i == 0 {
						require.Equal(t, "so: *** ok.", maskedInPieces(own, text, 1+len(what)%5), "%q", text)
					}
				}
			}
			text := "so: " + write(short[:2]+torn+short[2:]) + " ok."
			shown := own.Mask(text)
			breaks := strings.ContainsAny(torn, "\n\v\f\u0085\u2028\u2029") || torn == "\r" && name != "as it is" && name != "markup"
			require.Equal(t, !breaks, strings.Contains(shown, "***"), "%s, %s: %q", what, name, text)
		}
	}
}

// A value is found with what the names of characters in markup stand for, in any of them, and with
// their own.
func TestOwnValuesWithNamesOfMarkup(t *testing.T) {
	t.Parallel()
	const value = "Pä@ss_w*rd#9 ½{\"}"
	own := secret.NewOwn([]string{value}, nil)
	for _, name := range []string{
		"&shy;", "&zwj;", "&zwnj;", "&lrm;", "&rlm;", "&ZeroWidthSpace;", "&NoBreak;", "&ic;", "&it;", "&af;",
		"&InvisibleTimes;", "&NewLine;", "&amp;shy;", "&amp;amp;zwj;", "%26shy%3B", `\u0026shy;`, "&#38;shy;",
	} {
		require.Equal(t, "a ***", own.Mask("a Pä@"+name+"ss_w*rd#9 ½{\"}"), name)
	}
	require.Equal(t, "a ***.", own.Mask("a P&auml;&commat;ss&lowbar;w&ast;rd&num;9&nbsp;&frac12;&lcub;&QUOT;&rcub;."))
	for _, text := range []string{
		"P&auml@ss_w*rd#9 ½{\"}", "P&nosuch;ä@ss_w*rd#9 ½{\"}", "&shy;", "a&b;c&d", "Pä@&hearts;ss_w*rd#9 ½{\"}",
	} {
		require.Equal(t, text, own.Mask(text))
	}
}

// Any number of them in a row does not count, and costs the same for each.
func TestOwnValuesWithManyUnseen(t *testing.T) {
	t.Parallel()
	own := secret.NewOwn([]string{"Pa@ss_w*rd#9"}, nil)
	for _, one := range []string{
		`\u200b`, "\u200b", `\a`, "&shy;", "%E2%80%8B", "\x1b[0m", `\x1b[0m`, `\x1b]0;x\a`, "\x00",
	} {
		for _, n := range []int{1, 2, 3, 10, 100, 1000} {
			text := "a Pa" + strings.Repeat(one, n) + "@ss_w*rd#9."
			require.Equal(t, "a ***.", own.Mask(text), "%d of %q", n, one)
			require.Equal(t, "a ***.", maskedInPieces(own, text, 100), "%d of %q", n, one)
		}
	}
}

// A value is found in lines that begin with marks, also where it goes on with such a mark itself,
// and the same in pieces.
func TestOwnValuesInMarkedLines(t *testing.T) {
	t.Parallel()
	for _, goesOn := range []string{"k", "+", ">", "|", " ", "++", "+>", "||"} {
		own := secret.NewOwn([]string{"MIIEvQ/IBADANBg" + goesOn + "kqhkiG9w0BAQ"}, nil)
		for i, mark := range []string{"", " ", "    ", "> ", ">", "> > ", "| ", "+", strings.Repeat("> ", 20)} {
			text := mark + "MIIEvQ/IBADANBg\n" + mark + goesOn + "kqhkiG9w0BAQ ok."
			require.Equal(t, mark+"*** ok.", own.Mask(text), "%q", text)
			require.Equal(t, mark+"*** ok.", maskedInPieces(own, text, 1+i), "%q", text)
		}
	}
}

// A blank between two words parts no value of 6 bytes and more, however often: what is shown of a
// text has one where a control token stood. The same holds of its spellings.
func TestOwnValuesWithSeams(t *testing.T) {
	t.Parallel()
	isWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	seamed := func(parts []string, few int, random *rand.Rand) string {
		out, last := "", '.'
		for _, part := range parts {
			next, _ := utf8.DecodeRuneInString(part)
			if isWord(last) && isWord(next) && random.IntN(few) == 0 {
				out += " "
			}
			out += part
			last, _ = utf8.DecodeLastRuneInString(part)
		}
		return out
	}
	random := rand.New(rand.NewPCG(16, 16)) //nolint:gosec // repeatable
	for _, value := range []string{
		"Pa@ss_w*rd#9", "k3J9x8Qp2zR7", "correct horse battery", "käsebröt", "aaaaaaaaab",
		strings.Repeat("ab ab", 40) + "c", "line1\nline2\nline3",
	} {
		own := secret.NewOwn([]string{value, "another", value[:len(value)/2] + "zzzz"}, nil)
		for name, write := range map[string]func(string) string{
			"as it is": func(s string) string { return s }, "URL": url.PathEscape,
			"JSON": func(s string) string {
				return jsonOf(s, `\u%04x`, func(r rune) bool { return r > '~' || r == '@' })
			},
			"base64": nil,
		} {
			var parts []string
			if write == nil {
				parts = strings.Split(inBase64(value), "")
			} else {
				for _, r := range value {
					parts = append(parts, write(string(r)))
				}
			}
			for few := 1; few < 8; few++ {
				part := seamed(parts, few, random)
				for _, around := range [][2]string{{"a: ", " b"}, {"'", "'"}, {"", ".\n"}} {
					masked := own.Mask(around[0] + part + around[1])
					if write == nil { // the last digits depend on what follows
						left := strings.ReplaceAll(masked, " ", "")
						require.LessOrEqual(t, len(left), 12, "%q", part)
					} else {
						require.Equal(t, around[0]+"***"+around[1], masked, "%s %q", name, part)
					}
					require.Equal(t, masked, maskedInPieces(own, around[0]+part+around[1], few))
				}
			}
		}
	}
	own := secret.NewOwn([]string{"Pa@ss_w*rd#9", "abcde"}, nil)
	for _, text := range []string{
		"ab cde", "a b c d e", "Pa @ss_w*rd#9", "Pa@ss_w* rd#9", "Pa@s  s_w*rd#9", "Pa@s s_w*rd#",
	} {
		require.Equal(t, text, own.Mask(text))
	}
}

// What a reader sees within a value makes another text of it, and what looks like an escape may be
// a part of the value.
func TestOwnValuesThatLookEscaped(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`C:\new\bin\alpha9`, `\\host\file\version`, `x\e[0m-9-y`, "100%1b[x]", "&shy;value9", `\a\b\f\v`,
	} {
		own := secret.NewOwn([]string{value}, nil)
		for name, write := range writers {
			require.Equal(t, "a *** b", own.Mask("a "+write(value)+" b"), "%q %s", value, name)
			for _, torn := range []string{"\u200b", "\x1b[1m", "\n"} {
				for at := 1; at < len(value); at++ {
					text := write(value[:at] + torn + value[at:])
					require.Equal(t, "a *** b", own.Mask("a "+text+" b"), "%q %s", value, name)
				}
			}
		}
	}
	own := secret.NewOwn([]string{"Pa@ss_w*rd#9"}, nil)
	for _, seen := range []string{"x", ".", "  ", ". ", " \u00a0", "\t", "é", "\ufffd", `\x41`, "%41", "&hearts;", "]0;x", "31m", `\d`, `\x1b31m`} {
		text := "Pa@ss" + seen + "_w*rd#9"
		require.Equal(t, text, own.Mask(text))
	}
}

// A value is found with whichever byte it begins, however that is written, and behind whichever
// byte: most of a text is passed by a look at two bytes.
func TestOwnValuesOfEveryFirstByte(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	firsts := []string{"\n", "\t", "é", "\u2028", "😀"}
	for c := ' '; c <= '~'; c++ {
		firsts = append(firsts, string(c))
	}
	for _, first := range firsts {
		for _, second := range []string{"b", "=", "é"} {
			value := first + second + "cret-9x"
			own := secret.NewOwn([]string{value}, nil)
			for name, write := range writers {
				text := write(value)
				for _, before := range []string{"", "=", "&"} {
					require.Contains(t, own.Mask(before+text+" "), "***", "%s: %q", name, before+text)
				}
				if second == "b" {
					require.Contains(t, maskedInPieces(own, text+" ", 1), "***", "%s: %q", name, text)
				}
			}
		}
	}
	own := secret.NewOwn([]string{"Abcret-9x"}, nil)
	for _, text := range []string{
		"%u0041bcret-9x", "%U0041bcret-9x", "%4%31bcret-9x", "=4=31bcret-9x", "&#6%35;bcret-9x",
		"%%34%31bcret-9x", "&#%36%35;bcret-9x", `%4\u0031bcret-9x`, "%4\u200b1bcret-9x", `\x4%31bcret-9x`,
	} {
		require.Equal(t, "a *** b", own.Mask("a "+text+" b"), text)
	}
}
