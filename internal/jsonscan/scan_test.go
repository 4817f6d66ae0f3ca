package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/jsonscan"
)

// reference finds the values of a text as encoding/json does, in time quadratic in it.
func reference(said, opening string) (values []string) {
	for {
		at := strings.IndexAny(said, opening)
		if at < 0 {
			return values
		}
		said = said[at:]
		var value json.RawMessage
		if json.NewDecoder(strings.NewReader(said)).Decode(&value) != nil {
			said = said[1:]
			continue
		}
		values = append(values, said[:len(value)])
		said = said[len(value):]
	}
}

func check(t *testing.T, said string) {
	t.Helper()
	for _, opening := range []string{"{", "[", "{["} {
		want := reference(said, opening)
		require.Equal(t, want, slices.Collect(jsonscan.Values(said, opening)), "%q", said)
		for range jsonscan.Values(said, opening) {
			break
		}
	}
}

var units = []string{
	"{", "}", "[", "]", `"`, `\`, ",", ":", " ", "\n", "\x00", "1", "-", "0", ".", "e", "E+", "true", "null", "fals",
	`"a"`, `"a":`, `{"a":1}`, `[1,2]`, `{"q":"{\"a\":1}"}`, `\u00e9`, `\u00`, `"\u00e9"`, "prose", "é", "\xff", "01",
	"-0.5e-3", `"}"`, `"{`, "\t", "[]", "{}", `\"`,
}

// The values are those that encoding/json decodes.
func TestValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	for range 50_000 {
		var b strings.Builder
		for range rng.IntN(14) {
			b.WriteString(units[rng.IntN(len(units))])
		}
		check(t, b.String())
	}
	require.Equal(t, []string{`{"a":[1]}`, "[2]"},
		slices.Collect(jsonscan.Values(`x { {"a":[1]} [2`+"] [", "{[")))
}

func FuzzValues(f *testing.F) {
	for i, u := range units {
		f.Add(u + units[(i+7)%len(units)] + u)
	}
	f.Fuzz(func(t *testing.T, said string) {
		if len(said) < 2_000 {
			check(t, said)
		}
	})
}

// BenchmarkValues has texts in which a value fails at its very end, wherever one begins.
func BenchmarkValues(b *testing.B) {
	for _, unit := range []string{
		"[", `{"a":`, "{", `"[`, `[",`, `{"":"`, `[[],`, `{"a":"\"`, "[1,", "[] ", "x", `{"a`, `",["`,
	} {
		said := strings.Repeat(unit, 1_000_000/len(unit))
		b.Run(fmt.Sprintf("%q", unit), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range jsonscan.Values(said, "{[") {
					continue
				}
			}
		})
	}
}
