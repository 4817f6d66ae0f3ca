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
	tests := []struct{ name, text, want string }{
		{"50", "OPENAI_API_KEY=sk-1234567890abcdef", "OPENAI_API_KEY=sk-123…cdef"},
		{"51", "TOKEN=shortvalue", "TOKEN=***"},
		{"52", `{"token":"` + secret + `"}`, `{"token":"` + masked + `"}`},
		{"53", "curl --token " + secret + " https://x", "curl --token " + masked + " https://x"},
		{"54", "Authorization: Bearer " + secret, "Authorization: Bearer " + masked},
		{"55", "bearer short", "bearer short"},
		{"56 too short", "sk-abc", "sk-abc"},
		{"56", "sk-abcdefgh", "***"},
		{"57", "https://api.telegram.org/bot123456789:abcdefghijklmnopqrstUVWX/getMe", "https://api.telegram.org/bot123456…UVWX/getMe"},
		{
			"58", "x -----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY----- y",
			"x -----BEGIN RSA PRIVATE KEY-----\n…redacted…\n-----END RSA PRIVATE KEY----- y",
		},
		{"58 one line", "-----BEGIN PRIVATE KEY-----abc-----END PRIVATE KEY-----", "***"},
		{"58 unclosed", "-----BEGIN PRIVATE KEY-----\nabc", "-----BEGIN PRIVATE KEY-----\n…redacted…"},
		{"58 public", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----"},
		{"59 AWS", "AKIAIOSFODNN7EXAMPLE", "AKIAIO…MPLE"},
		{"59 AWS, another word", "AKIAiosfodnn7example", "AKIAiosfodnn7example"},
		{"59 JWT", "t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop!", "t eyJhbG…mnop!"},
		{"59 URL", "postgres://u:p4ss@h/db", "postgres://u:***@h/db"},
		{"59 URL without password", "https://user@host/a:b@c", "https://user@host/a:b@c"},
		{"59 URL with an empty one", "https://u:@h/", "https://u:@h/"},
		{"59 not a JWT", "eyJhbGciOiJIUzI1NiJ9.a.b", "eyJhbGciOiJIUzI1NiJ9.a.b"},
		{"59 field", `{"api_key": "` + secret + `"}`, `{"api_key": "` + masked + `"}`},
		{"59 no name", "monkey=banana KEYBOARD=qwerty max_tokens=4096", "monkey=banana KEYBOARD=qwerty max_tokens=4096"},
		{"59 padded", strings.Repeat(" ", 40_000) + "TOKEN=" + secret + strings.Repeat(" ", 40_000), strings.Repeat(" ", 40_000) + "TOKEN=" + masked + strings.Repeat(" ", 40_000)},
		{"59 no chunks", strings.Repeat("x", 16_380) + " " + "sk-" + secret, strings.Repeat("x", 16_380) + " sk-abc…ghij"},
		{"camel case", `{"refreshToken":"` + secret + `"}`, `{"refreshToken":"` + masked + `"}`},
		{"escaped quote", `{"token":"a\"` + secret + `"}`, `{"token":"a\"abc…ghij"}`},
		{"a head does not end in an escape", `{"token":"abcde\"` + secret + `"}`, `{"token":"abcde…ghij"}`},
		{"reference", "TOKEN=$MY_TOKEN KEY=${KEY_2}", "TOKEN=$MY_TOKEN KEY=${KEY_2}"},
		{"dollar", "TOKEN=$" + secret + "$&", "TOKEN=$abcde…ij$&"},
		{"query", "https://x/?key=" + secret + "&page=2", "https://x/?key=" + masked + "&page=2"},
		{"basic", "authorization: Basic " + secret, "authorization: Basic " + masked},
		{"scheme in an assignment", "token: Bearer " + secret, "token: Bearer " + masked},
		{"cookie", "Set-Cookie: sid=" + secret + "; Path=/\nnext", "Set-Cookie: sid=ab…th=/\nnext"},
		{"JSON header", `{"Authorization":"Bearer ` + secret + `"}`, `{"Authorization":"Bearer ` + masked + `"}`},
		{"slack", "https://hooks.slack.com/services/T0/B0/" + secret, "https://hooks.slack.com/services/***"},
		{"discord", "https://discord.com/api/webhooks/123/" + secret + " x", "https://discord.com/api/webhooks/123/*** x"},
		{"empty value, next assignment", "API_KEY=\nPORT=8080", "API_KEY=\nPORT=8080"},
		{"value on the next line", "API_KEY=\n" + secret, "API_KEY=\n" + masked},
		{"prose", "the token is hidden; tokens: 12", "the token is hidden; tokens: 12"},
		{"short runes", "TOKEN=" + strings.Repeat("秘", 17), "TOKEN=***"},
		{"long runes", "TOKEN=" + strings.Repeat("秘", 18), "TOKEN=秘秘秘秘秘秘…秘秘秘秘"},
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
		"monkey":            {"MONKEY=banana", "a monkey is no key"},
		"emoji":             {"TOKEN=***", "lengths are runes"},
		"quote_mismatch":    {`TOKEN="abcdef…qrst'`, "a value is secret even if its quote is never closed"},
		"dollar":            {"TOKEN=$abcde…st$&", wrong},
		"repl_amp":          {"TOKEN=abcdef…yz$&", wrong},
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
