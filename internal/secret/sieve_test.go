package secret_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// repetitive are values that begin at each place of a text that repeats itself as they do.
var repetitive = []string{
	strings.Repeat(`\`, 40), strings.Repeat(`\`, 40) + "x", strings.Repeat(`\"`, 30) + "y",
	strings.Repeat("%", 40) + "z", strings.Repeat("%25", 30) + "z", strings.Repeat("a", 70) + "b",
	strings.Repeat("&amp;", 20) + "c", strings.Repeat("+ ", 20) + "d", strings.Repeat("a\n", 40) + "e",
	"f" + strings.Repeat("=", 50), strings.Repeat("c2VjcmV0", 12),
	strings.Repeat("a", 300) + "b", strings.Repeat("ab", 150) + "aa",
	strings.Repeat(strings.Repeat("a", 15)+"b", 20) + "c", strings.Repeat("aab", 40) + "aaa",
}

// A sieve tells only where a value does not begin: with it all is masked as without it, and the
// same in pieces.
func TestSievesChangeNothing(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // repeatable
	tokens := []string{
		`\`, `\`, `\\`, `"`, `\"`, "%", "%25", "%5C", `\u005c`, "a", "b", "c", "x", "y", "z", "d", "\n", "=",
		"&amp;", "&", "+", " ", "a ", "ab ", "a b", "%2525", "\u200b", "e", "f", "c2VjcmV0",
	}
	masked := 0
	for i := range 300 {
		value := repetitive[i%len(repetitive)]
		own := secret.NewOwn([]string{
			value, value + "1", value[:len(value)/2] + "zz", value[:7] + "x", value[:4], "another",
		}, nil)
		var b strings.Builder
		for range 1 + random.IntN(6) {
			switch token := tokens[random.IntN(len(tokens))]; random.IntN(4) {
			case 0:
				b.WriteString(token)
			case 1:
				b.WriteString(value[:random.IntN(len(value))])
			case 2:
				b.WriteString(value)
			default:
				b.WriteString(strings.Repeat(token, random.IntN(100)))
			}
		}
		want := own.MaskWithoutSieves(b.String())
		require.Equal(t, want, own.Mask(b.String()), "%q in %q", value, b.String())
		require.Equal(t, want, maskedInPieces(own, b.String(), 1+random.IntN(40)), "%q in %q", value,
			b.String())
		if strings.Contains(want, "***") {
			masked++
		}
	}
	require.Greater(t, masked, 50)
}

// BenchmarkRepetitive measures what a value that repeats itself costs in a text that does, beside a
// value that the text has nothing of, the floor.
func BenchmarkRepetitive(b *testing.B) {
	for name, c := range map[string]struct{ value, text string }{
		"backslashes":       {strings.Repeat(`\`, 64), `\`},
		"backslashes and x": {strings.Repeat(`\`, 64) + "x", `\`},
		"percent":           {strings.Repeat("%", 64) + "x", "%25"},
		"a letter":          {strings.Repeat("a", 4000) + "b", "a"},
		"letters and lines": {strings.Repeat("a", 64) + "b", "a\n"},
		"base64":            {strings.Repeat("secret", 20) + "!", "c2VjcmV0"},
		"quotes":            {strings.Repeat(`\"`, 32) + "x", `\"`},
	} {
		text := strings.Repeat(c.text, 32<<10/len(c.text))
		for how, value := range map[string]string{"own": c.value, "floor": "Zvalue-17-q"} {
			own := secret.NewOwn([]string{value}, nil)
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					own.Mask(text)
				}
			})
		}
	}
}

// Values that begin alike are each found, the longest that stands at a place, and none of them in
// what only begins as they do.
func TestValuesThatBeginAlike(t *testing.T) {
	t.Parallel()
	values := []string{"hunter2", "hunter21", "hunter2xy", "hunt", "hunted-12", `hunter2\`, "hunter2é"}
	for i := range 300 {
		values = append(values, "sk-live-0000000000"+strings.Repeat("7", i%17)+string(rune('a'+i%26))+
			strings.Repeat("q", 1+i/26))
	}
	own := secret.NewOwn(values, nil)
	for i, value := range values {
		for name, encode := range encoders {
			if len(value) < 7 || strings.HasPrefix(name, "base64") {
				continue
			}
			text := "so: " + encode(value) + " ok."
			shown := own.Mask(text)
			require.Contains(t, shown, "***", "%q %s", value, name)
			require.NotContains(t, shown, encode(value), "%q %s", value, name)
			if i%40 == 0 {
				require.Equal(t, shown, maskedInPieces(own, text, 3), "%q %s", value, name)
			}
		}
	}
	for text, want := range map[string]string{
		"hunter21 hunter2x hunter2xy": "*** ***x ***", "hunte hunt hun": "***e *** hun",
		"hunter2%C3%A9.": "***.", `hunter2\\ hunter2\x`: `*** ***x`, "sk-live-0000000000z": "sk-live-0000000000z",
	} {
		require.Equal(t, want, own.Mask(text), "%q", text)
	}
}

// A sieve does not clear a place of which it does not see all, and none at which some reading of
// the text begins a value: a run of backslashes may stand for any number of them from half to all.
func TestSievesSeeEveryReading(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	const value = 2300
	own := secret.NewOwn([]string{strings.Repeat("a", value) + "b"}, nil)
	for _, n := range []int{4700, 5000} { // of 6 bytes: a value has 13,800, and 16,384 are seen
		escaped := strings.Repeat(`\u0061`, n) + "b"
		want := strings.Repeat(`\u0061`, n-value) + "***"
		require.Equal(t, want, own.Mask(escaped), n)
		require.Equal(t, want, maskedInPieces(own, escaped, 5000), n)
	}
	own = secret.NewOwn([]string{strings.Repeat(`\`, 40) + "x"}, nil)
	for _, n := range []int{60, 100, 150, 220} {
		text := strings.Repeat(`\`, 300) + "- " + strings.Repeat(`\`, n) + "x"
		want := own.MaskWithoutSieves(text)
		require.Equal(t, want, own.Mask(text), n)
		require.Equal(t, want, maskedInPieces(own, text, 100), n)
	}
}
