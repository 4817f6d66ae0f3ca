package announce_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// What Redact has to reach on the held-out list. Its rules are written without a look at the list:
// a miss is named by family and form alone, and the answer to it is a rule for the whole family.
const (
	heldOutDone    = true // both thresholds are met; false: the test skips
	heldOutMasked  = 0.97 // share of the forms whose secret does not survive
	heldOutChanged = 5    // normal texts that may be changed
	heldOutSeed    = 16
)

// A heldOut is the held-out list. It stores how a value is made instead of a value, so that no line
// of it looks like a credential to a scanner, and none is real.
type heldOut struct {
	Credentials []heldOutForm `json:"credentials"`
	Normal      []struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"normal"`
}

// A heldOutForm is a credential as it occurs. Text has {{s}} where the value stands, with filters
// behind bars: {{s|pre(ann:)|b64}}.
type heldOutForm struct {
	Family string        `json:"family"`
	Form   string        `json:"form"`
	Source string        `json:"source"` // documentation of the provider
	Text   string        `json:"text"`
	Secret heldOutSecret `json:"secret"`
}

// A heldOutSecret makes values. Pattern is literal text with classes such as [A-Za-z0-9_-]{40}.
type heldOutSecret struct {
	Pattern string `json:"pattern"`
	Check   string `json:"check"` // "" or crc32-base62: six digits at the end, over the random part
}

func TestHeldOutCredentials(t *testing.T) {
	t.Parallel()
	list := readHeldOut(t)
	masked := 0
	for i, c := range list.Credentials {
		text, survives := c.build(t, uint64(i))
		if survives(announce.Redact(text)) {
			t.Logf("missed: %s: %s", c.Family, c.Form)
			continue
		}
		masked++
	}
	changed := 0
	for _, n := range list.Normal {
		if announce.Redact(n.Text) != n.Text {
			changed++
			t.Logf("changed: %s: %.60q", n.Kind, n.Text)
		}
	}
	share := float64(masked) / float64(len(list.Credentials))
	figures := fmt.Sprintf("%d of %d forms masked (%.1f %%), %d of %d normal texts changed",
		masked, len(list.Credentials), 100*share, changed, len(list.Normal))
	if !heldOutDone {
		t.Skipf("%s; want %.0f %% and at most %d", figures, 100*heldOutMasked, heldOutChanged)
	}
	t.Log(figures)
	require.GreaterOrEqual(t, share, heldOutMasked, figures)
	require.LessOrEqual(t, changed, heldOutChanged, figures)
}

// The list measures something: it is as large as promised, every secret is in its text, and Redact
// is told apart from a function that masks nothing.
func TestHeldOutListMeasures(t *testing.T) {
	t.Parallel()
	list := readHeldOut(t)
	families, texts := make(map[string]bool), make(map[string]bool)
	for i, c := range list.Credentials {
		families[c.Family] = true
		require.NotEmpty(t, c.Source, c.Family)
		require.False(t, texts[c.Text+c.Secret.Pattern], "%s: %s stands twice", c.Family, c.Form)
		texts[c.Text+c.Secret.Pattern] = true
		text, survives := c.build(t, uint64(i))
		require.True(t, survives(text), "%s: %s: the secret is not in %q", c.Family, c.Form, text)
		require.False(t, survives(strings.Map(func(rune) rune { return '*' }, text)))
	}
	for _, n := range list.Normal {
		require.False(t, texts[n.Text], "%q stands twice", n.Text)
		texts[n.Text] = true
	}
	require.GreaterOrEqual(t, len(families), 110)
	require.GreaterOrEqual(t, len(list.Credentials), 209)
	require.GreaterOrEqual(t, len(list.Normal), 97)
}

func readHeldOut(t *testing.T) heldOut {
	t.Helper()
	data, err := os.ReadFile("testdata/heldout.json")
	require.NoError(t, err)
	var list heldOut
	require.NoError(t, json.Unmarshal(data, &list))
	return list
}

var heldOutPlace = regexp.MustCompile(`\{\{s((?:\|[a-z0-9]+(?:\([^)]*\))?)*)\}\}`)

// build returns the text with a value in it, and a function that tells whether so much of the value
// is left in a text that it counts as leaked.
func (c heldOutForm) build(t *testing.T, n uint64) (string, func(string) bool) {
	t.Helper()
	v, other := c.Secret.value(t, heldOutSeed, n), c.Secret.value(t, heldOutSeed+1, n)
	pieces := []heldOutValue{v}
	text := heldOutPlace.ReplaceAllStringFunc(c.Text, func(place string) string {
		filters := heldOutPlace.FindStringSubmatch(place)[1]
		shown := heldOutFilter(t, v.text, filters)
		if strings.Contains(filters, "b64") {
			pieces = append(pieces, differing(shown, heldOutFilter(t, other.text, filters)))
		}
		return shown
	})
	require.NotContains(t, text, "{{s", "%s: %s", c.Family, c.Form)
	return text, func(s string) bool {
		for _, p := range pieces {
			if p.survives(s) {
				return true
			}
		}
		return false
	}
}

// A heldOutValue is a secret and which of its bytes are random.
type heldOutValue struct {
	text   string
	random []bool
}

// survives reports whether s has a run of the value that is longer than what a mask may show: eight
// bytes of a long value, half of a short one. A run counts if three quarters of it are random.
func (v heldOutValue) survives(s string) bool {
	count := 0
	for _, random := range v.random {
		if random {
			count++
		}
	}
	size := min(9, count/2+1)
	for i := 0; i+size <= len(v.text); i++ {
		random := 0
		for _, is := range v.random[i : i+size] {
			if is {
				random++
			}
		}
		if 4*random >= 3*size && strings.Contains(s, v.text[i:i+size]) {
			return true
		}
	}
	return false
}

// differing is the part of a that b has not: a value behind an encoding.
func differing(a, b string) heldOutValue {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	v := heldOutValue{text: a[i:], random: make([]bool, len(a)-i)}
	for j := range v.random {
		v.random[j] = true
	}
	return v
}

var heldOutClass = regexp.MustCompile(`\[([^\]]+)\]\{(\d+)\}`)

func (s heldOutSecret) value(t *testing.T, seed, n uint64) heldOutValue {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, n)) //nolint:gosec // values of a test
	var v heldOutValue
	var random []byte
	add := func(text string, is bool) {
		v.text += text
		for range len(text) {
			v.random = append(v.random, is)
		}
	}
	at := 0
	for _, m := range heldOutClass.FindAllStringSubmatchIndex(s.Pattern, -1) {
		add(s.Pattern[at:m[0]], false)
		at = m[1]
		alphabet := heldOutAlphabet(s.Pattern[m[2]:m[3]])
		size, err := strconv.Atoi(s.Pattern[m[4]:m[5]])
		require.NoError(t, err)
		part := make([]byte, size)
		for i := range part {
			part[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		random = append(random, part...)
		add(string(part), true)
	}
	add(s.Pattern[at:], false)
	switch s.Check {
	case "":
	case "crc32-base62":
		add(base62(crc32.ChecksumIEEE(random)), true)
	default:
		require.Failf(t, "unknown check", "%q", s.Check)
	}
	return v
}

// heldOutAlphabet expands a class such as A-Za-z0-9_-.
func heldOutAlphabet(class string) []byte {
	var out []byte
	for i := 0; i < len(class); i++ {
		if i+2 < len(class) && class[i+1] == '-' {
			for b := class[i]; b <= class[i+2]; b++ {
				out = append(out, b)
			}
			i += 2
			continue
		}
		out = append(out, class[i])
	}
	return out
}

func base62(n uint32) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := []byte("000000")
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[n%62]
		n /= 62
	}
	return string(out)
}

// heldOutFilter writes a value as its surroundings do.
func heldOutFilter(t *testing.T, value, filters string) string {
	t.Helper()
	for _, f := range strings.Split(filters, "|")[1:] {
		name, arg, _ := strings.Cut(strings.TrimSuffix(f, ")"), "(")
		switch {
		case name == "pre":
			value = arg + value
		case name == "b64":
			value = base64.StdEncoding.EncodeToString([]byte(value))
		case name == "url":
			value = url.QueryEscape(value)
		case name == "json":
			value = strings.ReplaceAll(value, "\n", `\n`)
		case name == "indent":
			value = strings.ReplaceAll(value, "\n", "\n    ")
		case name == "plus":
			value = strings.ReplaceAll(value, "\n", "\n+")
		case name == "ansi":
			value = value[:len(value)/2] + "\x1b[1m" + value[len(value)/2:]
		case strings.HasPrefix(name, "wrap"):
			width, err := strconv.Atoi(name[len("wrap"):])
			require.NoError(t, err)
			value = wrapAt(value, width)
		default:
			require.Failf(t, "unknown filter", "%q", f)
		}
	}
	return value
}

func wrapAt(s string, width int) string {
	var lines []string
	for len(s) > width {
		lines, s = append(lines, s[:width]), s[width:]
	}
	return strings.Join(append(lines, s), "\n")
}
