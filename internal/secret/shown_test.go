package secret_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

const key = "sk-ant-0123456789abcdefghijklmnop"

// A4: what is shown of an error is short and has no key, wherever the cut falls.
func TestText(t *testing.T) {
	for n := secret.MaxText - 150; n < secret.MaxText+10; n++ {
		s := secret.Text(strings.Repeat("x", n) + " key=" + key + " tail of it " + key)
		require.LessOrEqual(t, len(s), secret.MaxText)
		require.NotContains(t, s, "0123456789abcdefghij")
		require.Equal(t, s, secret.Text(s), n)
	}
	require.Equal(t, "plain", secret.Text("plain"))
}

// A4: every text of a record is shown so, whichever way it came in.
func TestHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(secret.Handler{Handler: slog.NewTextHandler(&out, nil)})
	leak := "token: " + key + strings.Repeat(" long", 1_000_000)
	log.With("a", leak).WithGroup("g").Error("failed", "b", errors.New(leak), "c", leak, "n", 1)
	require.Less(t, out.Len(), 4*secret.MaxText)
	require.NotContains(t, out.String(), "0123456789abcdefghij")
	require.Contains(t, out.String(), "g.n=1")
	out.Reset()
	log.Warn("a delivery failed", "session", "agent:main:token:abcdefgh")
	require.Contains(t, out.String(), "abcdefgh", "a name is told")
}

// A control hides no secret, whatever a terminal takes with it: neither one that is read without
// what it takes, nor one that is read with it.
func TestControlsHideNoSecret(t *testing.T) {
	for _, s := range []string{
		"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "password=hunter2xq9Z",
		"Authorization: Bearer abcdefgh12345678xyz", "8ekQX_9#vLm2@pT", "cqkX7_9#vLm2@pT",
	} {
		mask := func(s string) string {
			s = secret.Mask(s)
			for _, own := range []string{"8ekQX_9#vLm2@pT", "cqkX7_9#vLm2@pT"} {
				s = strings.ReplaceAll(s, own, "***")
			}
			return s
		}
		for _, control := range []string{"\x1b", "\x1b[0m", "\u0090q\u009c", "\u009c", "\x1b7", "\x00"} {
			for at := range 3 {
				given := s[:at] + control + s[at:]
				shown := secret.Clean(mask, given)
				require.NotContains(t, shown, s[len(s)-8:], "%q", given)
				require.NotContains(t, secret.TextBy(mask, given), s[len(s)-8:], "%q", given)
			}
		}
	}
}

// Words such as those of a message may stand in front of the name of a password, and what follows
// may be a password all the same, if it looks like one.
func TestPasswordsBehindWordsOfMessages(t *testing.T) {
	for _, word := range []string{
		"forgot", "reset", "invalid", "wrong", "missing", "incorrect", "change", "enter", "expired",
		"remember", "type", "check", "verify",
	} {
		title := strings.ToUpper(word[:1]) + word[1:]
		for _, value := range []string{"hunter2xq9Z", "k3J9x8Qp2!", "Tr0ub4dor&3"} {
			for _, form := range []string{
				word + " password=" + value, word + "Password=" + value, word + "_password=" + value,
				title + " password: " + value, word + ` password="` + value + `"`,
				`{"` + word + `Password":"` + value + `"}`,
			} {
				require.NotContains(t, secret.Mask(form), value, form)
			}
		}
		for _, form := range []string{
			title + " password", title + " password: try again", word + "Password=true",
			word + "Password: function", title + " password: https://example.com/reset?step=2",
			word + "_password=required", title + " password: 3 attempts left",
			word + "Password(user)", "/" + word + "-password", word + "Password: () => void",
		} {
			require.Equal(t, form, secret.Mask(form))
		}
	}
}

// A control token of a template hides no secret in a text that is shown as it was written: the text
// loses its tokens then, and keeps them otherwise.
func TestTokensHideNoSecret(t *testing.T) {
	t.Parallel()
	own := secret.NewOwn([]string{"hunter2hunter", "one-two three"}, nil)
	for _, token := range []string{
		"<|im_end|>", "<｜end▁of▁sentence｜>", "<|a|><|b|>", "<|eot_id|>\x1b[1m<|x|>",
		"<|" + strings.Repeat("a", 256) + "|>",
	} {
		for _, value := range []string{"hunter2hunter", "one-two three"} {
			for at := 1; at < len(value); at++ {
				said := "a <|x|> b " + value[:at] + token + value[at:] + " c"
				for _, shown := range []string{
					secret.Clean(own.Mask, said), secret.TextBy(own.Mask, said),
				} {
					require.Equal(t, "a  b *** c", shown, "%q", said)
					require.Equal(t, shown, secret.Clean(own.Mask, shown))
				}
			}
		}
	}
	for text, want := range map[string]string{
		"a <|im_end|> b<|im_end|>c":                "a <|im_end|> b<|im_end|>c",
		"a<|im_end|>b hunter2hunter":               "a<|im_end|>b ***",
		"hunter2<| a |>hunter":                     "hunter2<| a |>hunter",
		"hunter2<|`a|>hunter":                      "hunter2<|`a|>hunter",
		"x <|> y <|a|b|> hunter2 hunter":           "x <|> y <|a|b|> ***",
		"<|im_start|>hunter2<|im_end|>hunter<|x|>": "***",
	} {
		require.Equal(t, want, secret.Clean(own.Mask, text), "%q", text)
	}
}
