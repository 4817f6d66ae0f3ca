package announce_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// A program's own patterns and secrets are masked, beside what Redact knows.
func TestRedactor(t *testing.T) {
	t.Parallel()
	const value = `p"a/ss wörd+1`
	r, err := announce.NewRedactor(announce.Redaction{
		Patterns: []string{`ticket-\d{4}`, `employee (\d+)`, `(?i)codename:\s*(\w+)`},
		Secrets:  []string{value, "hunter2hunter2"},
	})
	require.NoError(t, err)
	inJSON, err := json.Marshal(value)
	require.NoError(t, err)
	encode := base64.StdEncoding.EncodeToString
	for text, want := range map[string]string{
		"see ticket-1234, not ticket-12": "see ***, not ticket-12",
		"employee 77 and employee x":     "employee *** and employee x",
		"Codename: Falcon\nx":            "Codename: ***\nx",
		"TOKEN=abc ticket-1234":          "TOKEN=*** ***",
		"it is " + value + "!":           "it is ***!",
		`{"x":` + string(inJSON) + `}`:   `{"x":"***"}`,
		"/a/" + url.PathEscape(value):    "/a/***",
		"?a=" + url.QueryEscape(value):   "?a=***",
		"nothing":                        "nothing",
	} {
		require.Equal(t, want, r.Redact(text), text)
		require.Equal(t, want, r.Redact(want), text)
		for n := 1; n <= len(text); n++ {
			s := r.Stream()
			var out strings.Builder
			for rest := text; rest != ""; {
				piece := rest[:min(n, len(rest))]
				out.WriteString(s.Write(piece))
				rest = rest[len(piece):]
			}
			require.Equal(t, want, out.String()+s.Close(), "%q by %d bytes", text, n)
		}
	}
	for _, around := range []string{"", "a", "ann:", "user=ann;pw="} {
		shown := r.Redact("x " + encode([]byte(around+"hunter2hunter2"+around)) + " y")
		require.Contains(t, shown, "***", around)
	}
	out, masked := r.RedactJSON(`{"a":["hunter2hunter2",{"ticket-1234":1}],"n":1.50}`, nil)
	require.True(t, masked)
	require.Equal(t, `{"a":["***",{"***":1}],"n":1.50}`, out)
}

// The zero Redaction is Redact alone, and so is a nil Redactor.
func TestRedactorOfNothing(t *testing.T) {
	t.Parallel()
	r, err := announce.NewRedactor(announce.Redaction{})
	require.NoError(t, err)
	require.Nil(t, r)
	require.Equal(t, "TOKEN=***", r.Redact("TOKEN=abc"))
	out, masked := r.RedactJSON(`{"password":"x"}`, nil)
	require.True(t, masked)
	require.Equal(t, `{"password":"***"}`, out)
	s := r.Stream()
	require.Equal(t, "TOKEN=***", s.Write("TOKEN=abc")+s.Close())
}

// A pattern that is not one, that matches everything or nothing, or that is too large is refused,
// with the reason; and so is a secret that is too short. All of them are, at once.
func TestRedactionThatIsRefused(t *testing.T) {
	t.Parallel()
	for pattern, reason := range map[string]string{
		"":                           "it is empty",
		`a(`:                         "it does not compile",
		`(a)\1`:                      "need backtracking",
		`(?=x)y`:                     "need backtracking",
		`.*`:                         "it can match the empty text",
		`\b`:                         "it can match the empty text",
		`(secret)?`:                  "it can match the empty text",
		`a|b*`:                       "it can match the empty text",
		`.+`:                         "it matches everything",
		`\S+`:                        "it matches everything",
		`[a-z]+`:                     "it matches everything",
		`[^\x00-\x{10FFFF}]`:         "it can match nothing",
		`a\nb`:                       "it can match nothing within a line",
		`(a{100}){100}`:              "it does not compile",
		strings.Repeat("a", 1001):    "it has 1001 bytes, 1000 are allowed",
		`(((((a{9}){9}){9}){9}){2})`: "it ",
	} {
		_, err := announce.NewRedactor(announce.Redaction{Patterns: []string{`fine-\d+`, pattern}})
		var refused *announce.PatternError
		require.ErrorAs(t, err, &refused, pattern)
		require.Equal(t, "Patterns[1]", refused.Field)
		require.Contains(t, refused.Reason, reason, pattern)
	}
	_, err := announce.NewRedactor(announce.Redaction{
		Patterns: []string{"", "("},
		Secrets:  []string{"abc", strings.Repeat("s", 5000)},
	})
	for _, part := range []string{
		"Patterns[0]", "Patterns[1]",
		"Secrets[0]: it has less than 4 bytes", "Secrets[1]: it has more than 4096 bytes",
	} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "sssss", "a secret is not told")
}

// A line has no bound: what is looked at at a time has, and all pieces show the same.
func TestRedactorOfLongLines(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	r, err := announce.NewRedactor(announce.Redaction{
		Patterns: []string{`ticket-\d{4}`},
		Secrets:  []string{"abababab"},
	})
	require.NoError(t, err)
	for _, text := range []string{
		strings.Repeat("ticket-1234 ", 5000), strings.Repeat("ab", 40_000),
		strings.Repeat("ticket-1234\n", 5000),
	} {
		want := r.Redact(text)
		for _, n := range []int{7, 1000, 16 << 10} {
			s := r.Stream()
			var out strings.Builder
			for rest := text; rest != ""; {
				piece := rest[:min(n, len(rest))]
				out.WriteString(s.Write(piece))
				rest = rest[len(piece):]
			}
			whole, _ := announce.Visible(text)
			require.Equal(t, r.Redact(whole), out.String()+s.Close())
		}
		require.Less(t, len(want), len(text))
	}
}

func ExampleRedactor() {
	r, err := announce.NewRedactor(announce.Redaction{Patterns: []string{`ticket-\d{4}`}})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Redact("See ticket-1234, token=hunter2"))
	// Output: See ***, token=***
}

// A Redactor learns secrets, keeps those of its Redaction, and forgets the oldest that it learned.
func TestRedactorLearns(t *testing.T) {
	skipUnderRace(t)
	made, err := announce.NewRedactor(announce.Redaction{
		Secrets: []string{"given-secret"}, Patterns: []string{`ticket-\d+`},
	})
	require.NoError(t, err)
	for name, r := range map[string]*announce.Redactor{
		"zero": new(announce.Redactor), "made": made,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "a horse battery", r.Redact("a horse battery"))
			r.Learn("horse battery", "x y", " abc ", strings.Repeat("z", 4097))
			require.Equal(t, "a *** x y abc", r.Redact("a horse battery x y abc"))
			require.Equal(t, "a ***&b", r.Redact("a horse+battery&b"), "in a URL")
			out, masked := r.RedactJSON(`{"a":"horse battery"}`, nil)
			require.Equal(t, `{"a":"***"}`, out)
			require.True(t, masked)
			s := r.Stream()
			require.Equal(t, "a *** b", s.Write("a horse bat")+s.Write("tery b")+s.Close())
			for i := range 1000 {
				r.Learn(fmt.Sprintf("another secret %d", i), "kept for long")
			}
			require.Equal(t, "horse battery *** ***",
				r.Redact("horse battery another secret 999 kept for long"))
			if name == "made" {
				require.Equal(t, "*** ***", r.Redact("given-secret ticket-1"))
			}
		})
	}
}

// What a program prints of a Redaction and a Redactor has none of their secrets, under no verb.
func TestRedactionIsNotShown(t *testing.T) {
	t.Parallel()
	const value, pattern = "planted-1234567890", "planted-[a-z]+x"
	r := announce.Redaction{Patterns: []string{pattern}, Secrets: []string{value}}
	redactor, err := announce.NewRedactor(r)
	require.NoError(t, err)
	redactor.Learn("learned-1234567890")
	bare := []string{
		hex.EncodeToString([]byte("1234567890")), fmt.Sprint([]byte("1234567890"))[1:20], "1234567890",
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "redaction", r, "redactor", redactor)
	shown := map[string]string{"log": log.String()}
	type config struct {
		Redact   announce.Redaction
		Redactor *announce.Redactor
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, x := range []any{r, &r, redactor, config{r, redactor}, []announce.Redaction{r}} {
			shown[fmt.Sprintf("%s of a %T", verb, x)] = strings.ToLower(fmt.Sprintf(verb, x))
		}
	}
	for name, text := range shown {
		for _, part := range bare {
			require.NotContains(t, text, part, name)
		}
	}
	require.Equal(t, "1 patterns and 1 secrets", r.String())
	require.Equal(t, "1 patterns and 2 secrets", redactor.String())
	require.Equal(t, "0 patterns and 0 secrets", (*announce.Redactor)(nil).String())
}

// What the markup of any family of models parts of a registered secret, a mask finds behind it,
// wherever in the secret the markup stands, and also in pieces. Two control tokens are one of them.
func TestStreamOfSecretsInMarkup(t *testing.T) {
	t.Parallel()
	marks := []string{
		"<|assistant|>", "<|im_end|><|im_sep|>", "<｜end▁of▁sentence｜>", "<think>hm</think>", "<tool_call/>",
		"<|im_start|>assistant\n", "<relevant-memories>a</relevant-memories>", "[[reply_to_current]]",
		"<function_calls></function_calls>",
	}
	for _, row := range readMarkup(t) {
		for mark := range strings.SplitSeq(row.Input, "The build is green.") {
			if mark = strings.Trim(mark, " "); mark != "" && mark != row.Input && len(mark) < 64 {
				marks = append(marks, mark)
			}
		}
	}
	slices.Sort(marks)
	marks = slices.Compact(marks)
	require.Greater(t, len(marks), 100)
	secrets := []string{"Pa@ssw0rd_x", "k3J9x8Qp2zR7", "correct horse battery", "käse-und-brot"}
	r, err := announce.NewRedactor(announce.Redaction{Secrets: secrets})
	require.NoError(t, err)
	seen := func(text string) string { return strings.Join(strings.Fields(text), "") }
	for i, mark := range marks {
		if underRace && i%8 > 0 {
			continue
		}
		for _, secret := range secrets {
			for at := 1; at < len(secret); at++ {
				if !utf8.RuneStart(secret[at]) {
					continue
				}
				text := "Is: " + secret[:at] + mark + secret[at:]
				if at > 3 {
					text = "Is: " + secret[:2] + "<|x|>" + secret[2:at] + mark + secret[at:]
				}
				visible, _ := announce.Visible(text)
				shown := r.Redact(visible)
				require.NotContains(t, seen(shown), seen(secret), "%q", text)
				require.Equal(t, shown, streamedBy(r.Stream(), text, 1+at%5), "%q", text)
			}
		}
	}
}
