package secret_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// What the tokens of these tests are made of. None is real.
const (
	mixed = "q7Zt4Lm9Xw2Rb8KcVn5Py3Hd6Jf1Gs0AuTeWoQ2r6YbN4kXzP8mD3vF7hC1jS5gL9tE0uI2oA4qR6wZ8xB1nM3lK5p"
	lower = "3f9a1c7e5b2d8064f1e2d3c4b5a6978890ab12cd34ef56781a2b3c4d5e6f7a8b"
	upper = "Q7ZT4LM9XW2RB8KCVN5PY3HD6JF1GS0AUTEW"
)

// sampleTokens are tokens of every sort of alphabet, length and beginning.
var sampleTokens = []string{
	"ghp_" + mixed[:36], "github_pat_" + mixed[:22] + "_" + mixed[:59], "glpat-" + mixed[:20],
	"AKIA" + upper[:16], "AIza" + mixed[:35], "sk-ant-api03-" + mixed[:80] + "AA",
	"sk-proj-" + mixed[:74], "xoxb-123456789012-1234567890123-" + mixed[:24], "npm_" + mixed[:36],
	"pypi-AgEIcHlwaS5vcmc" + mixed[:70], "dop_v1_" + lower, "SG." + mixed[:22] + "." + mixed[:43],
	"hf_" + mixed[:34], "sk_live_" + mixed[:24], "shpat_" + lower[:32], "dckr_pat_" + mixed[:27],
	"hvs." + mixed[:24], "gsk_" + mixed[:52], "NRAK-" + upper[:27], "SK" + lower[:32],
	"AGE-SECRET-KEY-1" + upper + upper[:22], "lin_api_" + mixed[:40], "ya29." + mixed[:60],
	"pat" + mixed[:14] + "." + lower, "dapi" + lower[:32], "key-" + lower[:32],
	"figd_" + mixed[:40], "tskey-auth-" + mixed[:16] + "-" + mixed[:32], "phx_" + mixed[:43],
	"glsa_" + mixed[:32] + "_" + lower[:8], "sntrys_" + mixed[:80], "nfp_" + mixed[:36],
	"xkeysib-" + lower + "-" + mixed[:16],
}

func wrapped(s string, width int, lineBreak string) string {
	var lines []string
	for len(s) > width {
		lines, s = append(lines, s[:width]), s[width:]
	}
	return strings.Join(append(lines, s), lineBreak)
}

func asJSON(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// halved puts something into the middle of a token.
func halved(s, between string) string { return s[:len(s)/2] + between + s[len(s)/2:] }

// tokenForms are what stands around a token, and within.
var tokenForms = map[string]func(string) string{
	"prose":          func(s string) string { return "It is " + s + "." },
	"20 columns":     func(s string) string { return wrapped(s, 20, "\n") + "\nThanks" },
	"64 columns":     func(s string) string { return "key: " + wrapped(s, 64, "\n") },
	"CRLF":           func(s string) string { return wrapped(s, 30, "\r\n") },
	"indented":       func(s string) string { return wrapped(s, 30, "\n    ") },
	"quoted mail":    func(s string) string { return "> " + wrapped(s, 30, "\n> ") },
	"quoted print":   func(s string) string { return "a=3D" + wrapped(s, 24, "=\n") },
	"shell":          func(s string) string { return wrapped(s, 30, "\\\n") },
	"wrapped JSON":   func(s string) string { return asJSON(wrapped(s, 30, "\n")) },
	"colour":         func(s string) string { return "\x1b[31m" + s + "\x1b[0m" },
	"colour inside":  func(s string) string { return halved(s, "\x1b[1m") },
	"colour, JSON":   func(s string) string { return asJSON(halved(s, "\x1b[1m")) },
	"no width":       func(s string) string { return halved(s, "\u200b") },
	"soft hyphen":    func(s string) string { return halved(s, "\u00ad") },
	"escape":         func(s string) string { return `{"o":"a\n` + s + `\nb"}` },
	"tab":            func(s string) string { return `a\t` + s + `\tb` },
	"JSON in JSON":   func(s string) string { return asJSON(asJSON("t\n" + s + "\n")) },
	"percent":        func(s string) string { return "a%3D" + url.QueryEscape(s) + "%26b" },
	"unicode escape": func(s string) string { return `\u0022` + s + `\u0022` },
	"hex escape":     func(s string) string { return `\x22` + s },
	"entity":         func(s string) string { return "&quot;" + s + "&quot;" },
	"user":           func(s string) string { return "https://" + s + "@example.com/x" },
	"password":       func(s string) string { return "https://x:" + s + "@example.com/x" },
	"path":           func(s string) string { return "https://example.com/v1/" + s + "/x" },
	"code":           func(s string) string { return "`" + s + "`" },
	"bold":           func(s string) string { return "**" + s + "**" },
	"italics":        func(s string) string { return "_" + s + "_" },
	"difference":     func(s string) string { return "+" + s },
	"list":           func(s string) string { return "a," + s + ",b" },
}

// S6: a token is found whatever stands around it and within it.
func TestTokensInEveryForm(t *testing.T) {
	t.Parallel()
	for name, form := range tokenForms {
		for _, token := range sampleTokens {
			text := form(token)
			shown := secret.Mask(text)
			for i := len(token) / 3; i+10 <= len(token); i++ {
				require.NotContains(t, shown, token[i:i+10], "%s: %q", name, text)
			}
			require.Equal(t, shown, secret.Mask(shown), "%s: %q", name, text)
		}
	}
}

const (
	pw    = "q7Zt4Lm9Xw2Rb8Kc"
	token = "q7Zt4Lm9Xw2Rb8KcVn5Py3Hd6Jf1Gs0AuTeWo"
)

// S6: a value is found behind its name in the spelling of shells, files, programs and headers.
func TestNamesInEveryForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		// Shells and commands.
		"PGPASSWORD=" + pw + " psql -h db", "export DB_PASS=" + pw, "$env:API_TOKEN = \"" + pw + "\"",
		"mytool --password " + pw, "curl -u ann:" + pw + " https://x", "mysql -uroot -p" + pw + " db",
		"sshpass -p '" + pw + "' ssh h", "redis-cli -h h -a " + pw + " ping", "openssl enc -k " + pw,
		"wget --http-password=" + pw, "docker login -u a -p " + pw + " r.io", "mongo -u a -p " + pw,
		"echo \"" + pw + "\" | docker login --password-stdin", "echo " + pw + " | sudo -S ls",
		"openssl rsa -passin pass:" + pw, "smbclient //h/s -U ann%" + pw, "unzip -P " + pw + " a.zip",
		"ldapsearch -D cn=a -w " + pw + " -b x", "sqlcmd -U sa -P " + pw, "7z x -p" + pw + " a.7z",
		"passwd --stdin <<< \"" + pw + "\"", "sudo -S <<< " + pw + " apt update", "sudo -kS ls <<<'" + pw + "'",
		"sudo -u root --stdin ls <<< \"" + pw + "\"", "gh auth login --with-token <<< " + pw,
		"gh auth login --with-token <<<\"" + pw + "\"", "password → " + pw, "Password ➜ " + pw,
		"password -> " + pw, "heroku config:set API_SECRET=" + pw,
		"kubectl create secret generic x --from-literal=password=" + pw, "-Password " + pw,
		"ConvertTo-SecureString '" + pw + "' -AsPlainText", "aws configure set aws_secret_access_key " + token,
		"npm config set //registry.npmjs.org/:_authToken " + pw, "helm --set auth.password=" + pw,
		// Files.
		"machine h.com\n  login ann\n  password " + pw, "db.x.io:5432:app:ann:" + pw, "requirepass " + pw,
		"//registry.npmjs.org/:_authToken=" + pw, "_auth=YW5uOnE3WnQ0TG05WHcyUmI4S2M=", "psk=\"" + pw + "\"",
		"{\"auths\":{\"r.io\":{\"auth\":\"YW5uOnE3WnQ0TG05WHcyUmI4S2M=\"}}}", "ENV DB_PASSWORD " + pw,
		"ARG NPM_TOKEN=" + pw, "Environment=\"DB_PASSWORD=" + pw + "\"", "PrivateKey = " + token + token[:6] + "=",
		"<password>" + pw + "</password>", "<add key=\"ApiKey\" value=\"" + pw + "\" />", "password:\n  " + pw,
		"- name: DB_PASSWORD\n  value: " + pw, "secret: |\n  " + pw, "tokens:\n  - " + token + "\n  - " + pw,
		"{\"name\":\"DB_PASSWORD\",\"value\":\"" + pw + "\"}", "\"tokens\": [\"" + pw + "\", \"b\"]",
		"spring.datasource.password=" + pw, "define('DB_PASSWORD', '" + pw + "');", "SECRET_KEY_BASE=" + lower,
		// Programs.
		"'password' => '" + pw + "',", "os.environ[\"TOKEN\"] = \"" + pw + "\"", "setPassword(\"" + pw + "\")",
		"const apiKey: string = \"" + token + "\"", "let token = `" + token + "`", "token = b'" + token + "'",
		"apiKey := \"" + token + "\"", "CREATE USER x WITH PASSWORD '" + pw + "';", "ALTER USER x IDENTIFIED BY '" + pw + "'",
		// Markup and prose.
		"**password**: " + pw, "**Password:** " + pw, "| API key | " + pw + " |", "the password is " + pw,
		"пароль: " + pw, "密码: " + pw, "contraseña: " + pw, "mot de passe : " + pw, "my API key is " + token,
		// Headers and addresses.
		"X-Api-Key: " + pw, "Cookie: session=" + pw, "Authorization: Digest username=\"a\", response=\"" + lower + "\"",
		"headers.set('Authorization', 'Bearer " + token + "')", "u:" + pw + "@tcp(db:3306)/x", "redis://:" + pw + "@h:6379/0",
		"Server=db;User Id=sa;Pwd=" + pw + ";Encrypt=yes", "AccountKey=" + token + token + "==;EndpointSuffix=x",
		"https://x.blob.core.windows.net/c?sv=2020&sig=" + token + "%3D&se=1", "https://x?X-Amz-Signature=" + lower + "&x=1",
		"https://api.example.com/?appid=" + lower[:32], "PHPSESSID=" + lower[:32], "https://" + token + "@github.com/x.git",
		// Encodings.
		"password%3D" + pw + "%26x%3D1", "%22password%22%3A%22" + pw + "%22", "password&#61;" + pw,
		`msg="{\"password\":\"` + pw + `\"}"`, `\u0022password\u0022:\u0022` + pw + `\u0022`,
		`{\"a\":\"{\\\"token\\\":\\\"` + token + `\\\"}\"}`, "&quot;password&quot;:&quot;" + pw + "&quot;",
		// Blocks.
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + pw + "\n-----END PGP PRIVATE KEY BLOCK-----",
		"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + token + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
		"-----BEGIN OpenVPN Static key V1-----\n" + lower + "\n-----END OpenVPN Static key V1-----",
		"Private-Lines: 1\n" + token + "\nPrivate-MAC: 0", `{"kty":"RSA","d":"` + mixed + `"}`,
	} {
		shown := secret.Mask(text)
		for _, hidden := range []string{pw[:9], lower[:9], "YW5uOnE3W"} {
			require.NotContains(t, shown, hidden, text)
		}
		require.Equal(t, shown, secret.Mask(shown), text)
	}
}

// S6: what names a secret, stands for one or only looks like one is not changed.
func TestNormalTextsStay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"the password is wrong", "token count: 1200", `password := os.Getenv("X")`, "primary key: id",
		`"key": "name"`, "token: 5", "for key := range m {", "password = os.environ['DB']", "token: <your token>",
		"API_KEY=<your-key>", "API_KEY=${API_KEY}", "api_key: your-api-key-here", "password: string",
		`{"password": {"type": "string", "minLength": 8}}`, "--token TOKEN", "invalid token '<' at line 3",
		"cache key: " + lower, "commit " + lower[:40], "sha256:" + lower, "id: 550e8400-e29b-41d4-a716-446655440000",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "the Authorization header is missing",
		"curl -u $USER:$PASS https://x", "docker run -p 8080:80 nginx", "mysql -p db", "image:v1.2@sha256:" + lower,
		"mailto:ann@example.com", "git@github.com:ann/x.git", "https://user@example.com/a", "postgres://user:password@localhost/db",
		"Password: must be at least 8 characters", "secret: keep it simple", "password: config.password,",
		"func login(user, password string) error {", "token, err := next()", "if token == nil {", "MONKEY=banana",
		"sk-learn and sk-toggleable__label", "task-0123456789abcdef", "max_tokens=4096", "next_page_token: abc123def456ghi789",
		"password_hash and password_reset_at", "the secret of success: practice", "ssh_key: /etc/ssl/key.pem",
	} {
		require.Equal(t, text, secret.Mask(text))
	}
}

// Each family masks a token of its own, has a name and a source, and is told apart from the others:
// two that begin alike differ in what follows.
func TestFamilies(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, secret.Families(), 450)
	type kind struct {
		begin    string
		body     any
		min, max int
	}
	names, kinds := map[string]bool{}, map[kind]string{}
	for _, f := range secret.AllFamilies() {
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.Source, f.Name)
		require.NotEmpty(t, f.Begin, f.Name)
		require.False(t, names[f.Name], "%s stands twice", f.Name)
		names[f.Name] = true
		k := kind{f.Begin, f.Body, f.Min, f.Max}
		require.Empty(t, kinds[k], "%s is no other", f.Name)
		kinds[k] = f.Name
		for _, token := range sampleOf(&f) {
			masked := secret.Mask("the key is " + token + " ok")
			require.NotContains(t, masked, token, f.Name)
			require.Contains(t, masked, " ok", f.Name)
		}
	}
}

// sampleOf returns tokens of a family, of the least and, if it has one, of the greatest length.
func sampleOf(f *secret.Family) []string {
	const signs = "q7Zt4Lm9Xw2Rb8KcVn5Py3Hd6Jf1Gs0AuTeWoB7f3c9a01d2e4b8567f1c3e9d0a2"
	var of []byte
	for _, c := range []byte(signs) {
		if f.Has(c) {
			of = append(of, c)
		}
	}
	body := strings.Repeat(string(of), 1+max(f.Min, f.Max)/len(of))
	samples := []string{f.Begin + body[:max(f.Min, 1)]}
	if f.Max > 0 {
		samples = append(samples, f.Begin+body[:f.Max])
	}
	return samples
}

// A token on one line is masked beside one on the next that only stands for a token.
func TestTokenBeforeAFillerIsMasked(t *testing.T) {
	for _, lineBreak := range []string{"\n", "\r\n", `\n`} {
		text := "glpat-" + mixed[:20] + lineBreak + "glpat-00000000000000000000"
		require.NotContains(t, secret.Mask(text), mixed[:20], "%q", lineBreak)
		require.Contains(t, secret.Mask(text), "glpat-00000000000000000000", "%q", lineBreak)
	}
}

// What closes a mark of Markdown or HTML around a value stays, and the value is masked as without.
func TestMarksAroundValuesStay(t *testing.T) {
	t.Parallel()
	for _, mark := range [][2]string{
		{"`", "`"},
		{"``", "``"},
		{"**", "**"},
		{"__", "__"},
		{"_", "_"},
		{"*", "*"},
		{"***", "***"},
		{"**`", "`**"},
		{"[", "](http://x.example)"},
		{"<code>", "</code>"},
		{"<b>", "</b>"},
	} {
		for _, value := range [][2]string{
			{"password=", "k3J9x8Qp2zz"},
			{"password: ", "k3J9x8Qp2zz"},
			{"API_KEY=", "abcDEF123456"},
			{"curl -u ", "ann:k3J9x8Qp2zz"},
			{"Authorization: Bearer ", "k3J9x8Qp2zz"},
			{"--token ", "k3J9x8Qp2zz"},
		} {
			if strings.HasPrefix(value[0], "Auth") && !strings.ContainsAny(mark[1], "`/") {
				continue // a header goes on to the end of its line, and may have the other marks
			}
			if strings.HasPrefix(value[0], "curl") && strings.Trim(mark[0], "`") != "" {
				continue // no command begins behind the other marks
			}
			for _, around := range [][2]string{
				{"", ""}, {"Set ", " in the file."}, {"- ", ".\n"}, {"(", ")"}, {"a\n", "\nb"},
			} {
				value, hidden, isUser := value[0], value[1], strings.HasPrefix(value[1], "ann:")
				mask := "***"
				if isUser {
					mask = "ann:***"
				}
				text := around[0] + mark[0] + value + hidden + mark[1] + around[1]
				want := around[0] + mark[0] + value + mask + mark[1] + around[1]
				got := secret.Mask(text)
				require.Equal(t, want, got, "%q", text)
				require.Equal(t, got, secret.Mask(got))
			}
		}
	}
	for text, want := range map[string]string{ // no mark was opened
		"password=k3J9x8**":           "password=***",
		"a*b password=k3J9x8*":        "password=***",
		"**Password**: k3J9x8Qp2zz**": "**Password**: ***",
		"password=k3J9](x8":           "password=***",
		"password=k3J9`x8":            "password=***",
	} {
		require.True(t, strings.HasSuffix(secret.Mask(text), want), "%q", secret.Mask(text))
	}
}

// A word about a secret stays in other languages, too, and so does what HTML shows as code.
func TestNormalTextsOfOtherLanguagesStay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Passwort: erforderlich", "contraseña: obligatoria", "senha: obrigatória", "пароль: неверный",
		"密码：必填", "密码: 必填", "パスワード: 必須", "token: inválido", "Passwort: ungültig.",
		"mot de passe: requis", "비밀번호: 필수", "wachtwoord: verplicht", "password: erforderlich\nName: x",
		"<code>ISBN9783161484100</code>", "Voucher <code>SUMMER2024SALE</code>",
		`<td class="code">SUMMER2024SALE</td>`,
		"Settings → Password → Reset", "password -> String", "func token -> Int", "token → new value",
		"sudo ls <<< hello2you", "sudo -S ls\ncat <<< hello2you", "gh auth login --with-token < token.txt",
		"mysql --password << EOF", "sudo -S <<< \"$PW\" ls", "sudo -u S ls <<< hello2you",
	} {
		require.Equal(t, text, secret.Mask(text))
	}
	for _, text := range []string{
		"пароль: Секрет123", "пароль=секрет", "senha: k3J9x8Qp2zz", "contraseña: k3J9x8Qp2zz",
		"密码：秘密8秘密", "Passwort: Größe7Größe", "<password>k3J9x8Qp2zz</password>",
		`{"password": "секрет"}`,
	} {
		require.NotEqual(t, text, secret.Mask(text))
	}
}
