package secret_test

import (
	"encoding/base64"
	"encoding/pem"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// pemOf returns a key as a file has it, with some lines that begin with marks.
func pemOf(random *rand.Rand, size int) string {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	for i := 48; i+48 < size; i += 96 {
		copy(body[i:], []string{"\xff\xff\xff", "\xfb\xef\xbe", "\xff\xfb\xef"}[random.IntN(3)])
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "OPAQUE THING", Bytes: body}))
}

// linePrefixes are what lines begin with where a text is quoted, indented, or made a comment.
var linePrefixes = []string{
	"", " ", "    ", "\t", "> ", ">", ">> ", "> > > ", "| ", "// ", "/// ", "# ", "## ", "* ", " * ", "-- ", "; ",
	"- ", "+ ", "+", "-", ">\t", "> // ", "\u200b", "    > ", strings.Repeat("> ", 20), "\x1b[32m+\x1b[0m",
}

// quoted returns a text with a prefix before each of its lines, which end with a break.
func quoted(text, prefix, end string) string {
	return prefix + strings.ReplaceAll(text, "\n", end+prefix)
}

// A value with lines of its own is found where each of them is quoted, indented or a comment, with
// any break, in every encoding, and the same in pieces. It need not end as its file does.
func TestOwnValuesOfLines(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 1)) //nolint:gosec // repeatable
	for _, value := range []string{
		pemOf(random, 300), strings.TrimSpace(pemOf(random, 120)), "user: ann\n  pass: hunter2\n\n  host: x9",
		"one two\n> three four\n> five", "a1b2c3\r\nd4e5f6\r\ng7h8i9\r\n", "- a1b2\n- c3d4\n--- e5f6",
	} {
		own := secret.NewOwn([]string{value, "another value"}, nil)
		lines := strings.Trim(strings.ReplaceAll(value, "\r\n", "\n"), "\n")
		for i, prefix := range linePrefixes {
			for j, end := range []string{"\n", "\r\n", "\n\n", "\r\n\r\n\r\n", "\u2028", "\n\v\f\n", "\n \n"} {
				raw := quoted(lines, prefix, end)
				text := "so:\n" + raw + "\nok."
				shown := own.Mask(text)
				require.Equal(t, "so:\n"+prefix+"***\nok.", shown, "%q", text)
				require.Equal(t, shown, maskedInPieces(own, text, 1+(i+7*j)%97), "%q", text)
				for name, write := range writers {
					if (i+j+len(name))%7 > 0 {
						continue
					}
					text := "so: " + write("\n"+raw) + " ok."
					want := "so: " + write("\n"+prefix) + "*** ok."
					require.Equal(t, want, own.Mask(text), "%s, %q: %q", name, prefix, text)
				}
			}
		}
		require.Equal(t, "***", own.Mask(strings.ReplaceAll(lines, "\n", "\n          ")))
		digits := base64.StdEncoding.EncodeToString([]byte(value))
		require.NotContains(t, own.Mask(digits), digits[4:20])
	}
}

// Any number of breaks in a row does not count, however they are written.
func TestOwnValuesWithManyBreaks(t *testing.T) {
	t.Parallel()
	own := secret.NewOwn([]string{"Pa@ss_w*rd#9", "two words 9x"}, nil)
	for _, one := range []string{
		"\n", "\r\n", `\n`, `\r\n`, `\\n`, "%0A", "&#10;", "&NewLine;", "\u2028", "\v", `\u000a`, "\n> ", "\n\u200b",
		"=\n", "\\\n", "\n // ", "\n\x1b[0m  ", "%250a%2520",
	} {
		for _, n := range []int{1, 4, 5, 6, 9, 32, 33, 100, 300} {
			text := "a Pa" + strings.Repeat(one, n) + "@ss_w*rd#9 two" + strings.Repeat(one, n) + "words 9x."
			require.Equal(t, "a *** ***.", own.Mask(text), "%d of %q", n, one)
			require.Equal(t, "a *** ***.", maskedInPieces(own, text, 100), "%d of %q", n, one)
		}
	}
}

// A value that goes on with marks of its own is found where its line is broken before them, and
// what begins with marks of no line is another text.
func TestOwnValuesOfMarks(t *testing.T) {
	t.Parallel()
	for _, marks := range []string{">", "|||", "-----", "> > >", "//////", "##;;**++--", "        "} {
		own := secret.NewOwn([]string{"Tr0ub" + marks + "dor", "Tr0ub" + marks + "dar"}, nil)
		for _, prefix := range linePrefixes {
			text := "a\n" + prefix + "Tr0ub\n" + prefix + marks + "dor z"
			require.Equal(t, "a\n"+prefix+"*** z", own.Mask(text), "%q", text)
			text = "a\n" + prefix + "Tr0ub" + marks + "\n\n" + prefix + "dor z"
			require.Equal(t, "a\n"+prefix+"*** z", own.Mask(text), "%q", text)
		}
	}
	own := secret.NewOwn([]string{"Tr0ubador", "one\ntwo\nthree"}, nil)
	for _, text := range []string{
		"Tr0ub-ador", "Tr0ub> ador", "Tr0ub\nx> ador", "Tr0ub\n1. ador", "onetwothree", "one\ntwothree",
	} {
		require.Equal(t, text, own.Mask(text))
	}
}

// A value of any size is found however it is encoded, also where that takes more than ahead.Max
// bytes, as a whole and in pieces.
func TestOwnValuesOfAnySize(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 3)) //nolint:gosec // repeatable
	for _, size := range []int{1000, 2200, 3000} {
		value := strings.TrimSpace(pemOf(random, size))
		own := secret.NewOwn([]string{value}, nil)
		for name, write := range writers {
			if size == 2200 && len(name) > 5 {
				continue
			}
			text := "so: " + write(value) + " ok."
			require.Equal(t, "so: *** ok.", own.Mask(text), name)
			require.Equal(t, "so: *** ok.", maskedInPieces(own, text, 999), name)
			text = "so: " + write(quoted(value, "> // ", "\r\n")) + " ok."
			require.Contains(t, own.Mask(text), "*** ok.", name)
		}
		for _, before := range []string{`\u`, `%5Cu`, `%255Cu`} { // of JSON, in a URL, in another one
			text := percentOf(value, strings.ReplaceAll(before, "%", "%%")+"%04x", "")
			require.Equal(t, "so: *** ok.", own.Mask("so: "+text+" ok."), before)
			require.Equal(t, "so: *** ok.", maskedInPieces(own, "so: "+text+" ok.", 4000), before)
		}
	}
}

// What is remembered of a gap does not depend on how far was looked for a value before: a shorter
// value, which begins within the same text, is found as it is alone.
func TestGapsAreReadAsFarAsIsSeen(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	const before = "aaaaaaaaaaaaaaaa-"
	own := secret.NewOwn([]string{before + "hunter2hunter2zz", "hunter2hunter2"}, nil)
	const seen = 16<<10 + 16*44 // 44 digits of base64
	masked := 0
	for _, one := range []string{`\u000a`, "&#x0a;", `\u2028`} {
		for n := seen - 40; n < seen+10; n++ {
			between := strings.Repeat(one, (n-14)/len(one)) + strings.Repeat("\n", (n-14)%len(one))
			text := "hunter2" + between + "hunter2"
			alone := own.Mask(text)
			require.Equal(t, before+alone, own.Mask(before+text), n)
			require.Equal(t, before+alone, maskedInPieces(own, before+text, 5000), n)
			if alone == "***" {
				masked++
			}
		}
	}
	require.Greater(t, masked, 60)
	require.Less(t, masked, 150)
}
