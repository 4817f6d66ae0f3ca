package announce_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/vectors"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	const secret, masked = "abcdef1234567890ghij", "abcdef…ghij"
	space := strings.Repeat(" ", 40_000)
	tests := []struct{ name, text, want string }{
		{"assignment of a token with a known prefix", "OPENAI_API_KEY=sk-1234567890abcdef", "OPENAI_API_KEY=sk-123…cdef"},
		{"assignment of a short value", "TOKEN=shortvalue", "TOKEN=***"},
		{"JSON field", `{"token":"` + secret + `"}`, `{"token":"` + masked + `"}`},
		{"command line flag", "curl --token " + secret + " https://x", "curl --token " + masked + " https://x"},
		{"bearer token in a header", "Authorization: Bearer " + secret, "Authorization: Bearer " + masked},
		{"a short word after bearer stays", "bearer short", "bearer short"},
		{"a prefix with too few bytes behind it stays", "sk-abc", "sk-abc"},
		{"a short token with a known prefix", "sk-abcdefgh", "***"},
		{"token of a Telegram bot in a URL", "https://api.telegram.org/bot123456789:abcdefghijklmnopqrstUVWX/getMe", "https://api.telegram.org/bot123456…UVWX/getMe"},
		{
			"private key in a line of text", "x -----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY----- y",
			"x -----BEGIN RSA PRIVATE KEY-----\n…redacted…\n-----END RSA PRIVATE KEY----- y",
		},
		{"private key on one line", "-----BEGIN PRIVATE KEY-----abc-----END PRIVATE KEY-----", "***"},
		{"private key that never ends", "-----BEGIN PRIVATE KEY-----\nabc", "-----BEGIN PRIVATE KEY-----\n…redacted…"},
		{"a public key stays", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----"},
		{"access key of AWS", "AKIAIOSFODNN7EXAMPLE", "AKIAIO…MPLE"},
		{"a word that is not in upper case is not a key of AWS", "AKIAiosfodnn7example", "AKIAiosfodnn7example"},
		{"JSON web token", "t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop!", "t eyJhbG…mnop!"},
		{"password in a URL", "postgres://u:p4ss@h/db", "postgres://u:***@h/db"},
		{"a URL without a password stays", "https://user@host/a:b@c", "https://user@host/a:b@c"},
		{"a URL with an empty password stays", "https://u:@h/", "https://u:@h/"},
		{"a word whose later parts are short stays", "eyJhbGciOiJIUzI1NiJ9.a.b", "eyJhbGciOiJIUzI1NiJ9.a.b"},
		{"JSON field with a name of two words", `{"api_key": "` + secret + `"}`, `{"api_key": "` + masked + `"}`},
		{"a word that ends like a secret name stays", "monkey=banana KEYBOARD=qwerty max_tokens=4096", "monkey=banana KEYBOARD=qwerty max_tokens=4096"},
		{
			"keys of sessions stay", `{"childSessionKey":"agent:main:subagent:0190c6f2-1a2b", "sessionKey": "agent:main:main"} SESSIONKEY=x`,
			`{"childSessionKey":"agent:main:subagent:0190c6f2-1a2b", "sessionKey": "agent:main:main"} SESSIONKEY=x`,
		},
		{"a secret beside the key of a session", `{"sessionKey":"agent:main:main","sessionToken":"` + secret + `"}`, `{"sessionKey":"agent:main:main","sessionToken":"` + masked + `"}`},
		{"secret among much space", space + "TOKEN=" + secret + space, space + "TOKEN=" + masked + space},
		{"secret far from the start", strings.Repeat("x", 16_380) + " " + "sk-" + secret, strings.Repeat("x", 16_380) + " sk-abc…ghij"},
		{"JSON field in camel case", `{"refreshToken":"` + secret + `"}`, `{"refreshToken":"` + masked + `"}`},
		{"a value goes on after an escaped quote", `{"token":"a\"` + secret + `"}`, `{"token":"a\"abc…ghij"}`},
		{"the shown head does not end in a backslash", `{"token":"abcde\"` + secret + `"}`, `{"token":"abcde…ghij"}`},
		{"references to variables stay", "TOKEN=$MY_TOKEN KEY=${KEY_2}", "TOKEN=$MY_TOKEN KEY=${KEY_2}"},
		{"a dollar sign does not make a value a reference", "TOKEN=$" + secret + "$&", "TOKEN=***"},
		{"parameter of a query", "https://x/?key=" + secret + "&page=2", "https://x/?key=" + masked + "&page=2"},
		{"basic authorization", "authorization: Basic " + secret, "authorization: Basic " + masked},
		{"scheme in an assignment stays", "token: Bearer " + secret, "token: Bearer " + masked},
		{"cookie up to the end of its line", "Set-Cookie: sid=" + secret + "; Path=/\nnext", "Set-Cookie: ***\nnext"},
		{"header as a JSON field", `{"Authorization":"Bearer ` + secret + `"}`, `{"Authorization":"Bearer ` + masked + `"}`},
		{"webhook of Slack", "https://hooks.slack.com/services/T0/B0/" + secret, "https://hooks.slack.com/services/***"},
		{"webhook of Discord", "https://discord.com/api/webhooks/123/" + secret + " x", "https://discord.com/api/webhooks/123/*** x"},
		{"an empty value does not take the next assignment", "API_KEY=\nPORT=8080", "API_KEY=\nPORT=8080"},
		{"value on the next line", "API_KEY=\n" + secret, "API_KEY=\n" + masked},
		{"prose about tokens stays", "the token is hidden; tokens: 12", "the token is hidden; tokens: 12"},
		{"17 runes are short", "TOKEN=" + strings.Repeat("秘", 17), "TOKEN=***"},
		{"18 runes are long", "TOKEN=" + strings.Repeat("秘", 18), "TOKEN=秘秘秘秘秘秘…秘秘秘秘"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := announce.Redact(tt.text)
			require.Equal(t, tt.want, got)
			require.Equal(t, got, announce.Redact(got))
		})
	}
}

func FuzzRedact(f *testing.F) {
	for _, text := range []string{
		"TOKEN=\"a'", "Authorization: Bearer abcdefghijklmnopqrstuvwxyz", "-----BEGIN PRIVATE KEY-----x", "https://a:b@c", "eyJhbGciOiJI.abcdefgh.abcdefgh",
		"123456789:abcdefghijklmnopqrstuvwxyz", "cookie: \xff", "hooks.slack.com/services/a", "api/webhooks/1/2", "\"key\" : '\\",
	} {
		f.Add(text, "hunter2hunter2hunter2")
	}
	f.Fuzz(func(t *testing.T, text, secret string) {
		if once := announce.Redact(text); announce.Redact(once) != once {
			t.Fatalf("Redact(%q) is %q, and again %q", text, once, announce.Redact(once))
		}
		for i := range len(secret) {
			if c := secret[i]; c < 'a' || c > 'z' {
				return
			}
		}
		if len(secret) < 12 || strings.Contains(text, secret) {
			return
		}
		if got := announce.Redact(text + "\n" + `{"password": "` + secret + `"}`); strings.Contains(got, secret) {
			t.Fatalf("%q shows %q", got, secret)
		}
	})
}

func TestVectorsRedact(t *testing.T) {
	t.Parallel()
	const missed, wrong = "the reference misses this family", "the reference masks in the wrong place"
	known := differences{
		"json_esc":          {`{"token":"a\"bab…qrst"}`, "the value goes on after an escaped quote"},
		"json_other":        {`{"api_key":"abcdef…qrst"}`, missed},
		"basic":             {"Authorization: Basic abcdef…uvwx", missed},
		"pem_unclosed":      {"-----BEGIN PRIVATE KEY-----\n…redacted…", missed},
		"aws":               {"AKIAIO…MPLE", missed},
		"jwt":               {"eyJhbG…ABCD", missed},
		"slackhook":         {"https://hooks.slack.com/services/***", missed},
		"url_cred":          {"https://user:***@host/", missed},
		"gitlab":            {"glpat-…qrst", missed},
		"monkey":            {"MONKEY=banana", "a monkey is not a key"},
		"key_word":          {"KEY: value", "a key with a plain word is not a secret"},
		"emoji":             {"TOKEN=***", "lengths are runes"},
		"quote_mismatch":    {`TOKEN="abcdef…qrst'`, "a value is secret even if its quote is never closed"},
		"dollar":            {"TOKEN=***", wrong},
		"repl_amp":          {"TOKEN=***", wrong},
		"repl_amp_lead":     {"TOKEN=$&abcd…wxyz", wrong},
		"repl_tick":         {"PASSWORD=$`abcd…xyz$'", wrong},
		"value_eq_name":     {"KEY=***", wrong},
		"value_eq_name2":    {"TOKEN=***", wrong},
		"value_prefix_name": {"SECRET=***", wrong},
	}
	for _, row := range vectors.Read[struct{ Name, Text, Redacted string }](t, "redact.json", 73) {
		known.check(t, row.Name, row.Redacted, announce.Redact(row.Text))
	}
}

// A private key is masked behind a word of any length: a line break before its first line may have
// been removed.
func TestPrivateKeysBehindWords(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END RSA PRIVATE KEY-----"
	for n := range 2100 {
		for _, word := range []string{"x", "-", "x-", "x_9", "é"} {
			text := strings.Repeat(word, n/len(word)+1) + key
			require.NotContains(t, announce.Redact(text), "MIIEvQ", "%d bytes of %q", n, word)
		}
	}
	checkStream(t, strings.Repeat("x", 1016)+key, 1, 2, 3, 7, 100)
}
