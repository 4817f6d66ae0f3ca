package secret_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

const aUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

// Secrets that have no name or beginning of their own, but a place, and what stands in such places
// and is not secret.
func TestSecretsByTheirPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		// Commands.
		{"mc alias set s3 https://s3.example.com AKEY1234 " + mixed[:40], "mc alias set s3 https://s3.example.com AKEY1234 q7Zt4L…oQ2r"},
		{"mc alias set s3 https://s3.example.com", ""},
		{"the mc alias set is what you want, see https://x.example.com a1 b2 c3", ""},
		{`net use Z: \\srv\share p4ssWord! /user:ann`, `net use Z: \\srv\share *** /user:ann`},
		{`net use Z: \\srv\share * /user:ann`, ""},
		{`net use Z: \\srv\share /user:ann`, ""},
		{"net user ann p4ssWord! /add", "net user ann *** /add"},
		{"The net use of memory fell.", ""},
		{"wandb login --relogin " + lower[:40], "wandb login --relogin 3f9a1c…12cd"},
		{"wandb login --relogin", ""},
		{"codecov -t " + aUUID, "codecov -t 0f8fad…950e"},
		{"AUTH PLAIN AGFubgBwNHNzV29yZCEx", "AUTH PLAIN AGFubg…ZCEx"},
		{"127.0.0.1:6379> AUTH default p4ssWord!\nOK", "127.0.0.1:6379> AUTH default ***\nOK"},
		{"AUTH TLS", ""},
		{"AUTH LOGIN", ""},
		// Names with a number, a brace or a UUID.
		{"Unseal Key 1: " + mixed[:43] + "=", "Unseal Key 1: ***"},
		{"the api key 2: see below", ""},
		{"Pwd={a;b c1};Encrypt=yes", "Pwd={***};Encrypt=yes"},
		{"password={name}", ""},
		{"Secret ID    = " + aUUID, "Secret ID    = 0f8fad…950e"},
		{"secret_id: prod/app/main", ""},
		{"AWS_SECRET_ID=prod/app", ""},
		{"AZURE_DEVOPS_EXT_PAT=" + lower[:20] + "x", "AZURE_DEVOPS_EXT_PAT=3f9a1c…1e2x"},
		{"pat: on the head", ""},
		// Brackets that belong to a value, and those of code.
		{"password=k3J9x8Qp2(", "password=***"},
		{"password: k3J9x8Qp2[", "password: ***"},
		{"DB_PASSWORD=k3J9x8Qp2[xY", "DB_PASSWORD=***"},
		{"password=(k3J9x8Qp2", "password=***"},
		{"password=k3J9x8Qp2[0]", ""},
		{"password=b64decode(first, second)", ""},
		{"password = b64decode(data[0], key)", ""},
		{"password=getPassword(", ""},
		{"password=(b64decode(x))", ""},
		{"password: string|null", ""},
		{"password=args[", ""},
		// Addresses, also within another text.
		{"https://chat.example.com/hooks/" + lower[:26], "https://chat.example.com/hooks/***"},
		{"src/hooks/useAuthentication.ts", ""},
		{`https:\/\/hooks.slack.com\/services\/T0123\/B0123\/` + mixed[:24], `https:\/\/hooks.slack.com\/services\/***`},
		{"u=https%3A%2F%2Fhooks.slack.com%2Fservices%2FT0123%2FB0123%2F" + mixed[:24] + "&v=1", "u=https%3A%2F%2Fhooks.slack.com%2Fservices%2F***&v=1"},
		{"u=https%3A%2F%2Fann%3Ap4ssWord%40example.com", "u=https%3A%2F%2Fann%3A***%40example.com"},
		{"u=https%3A%2F%2Fexample.com%3A8080%2Fa%40b", ""},
		{"bot123456789%3A" + mixed[:35] + "%2FgetMe", "bot123456…AuTe%2FgetMe"},
		// Shapes.
		{"root:$6$" + mixed[:16] + "$" + mixed[:86] + ":19000:0:99999:7:::", "root:$6$q7Z…1nM3:19000:0:99999:7:::"},
		{"it costs $5$ or $6$ or so, and $1$2 is a group", ""},
		{"eu01xx" + lower[:30] + "NRAL", "eu01xx…NRAL"},
		{"Aa1b2C_" + mixed[:29] + "_mmk", "Aa1b2C…_mmk"},
		{"q~.8Q~" + mixed[:34], "q~.8Q~…0AuT"},
	} {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		got := secret.Mask(tt.text)
		assert.Equal(t, want, got)
		assert.Equal(t, got, secret.Mask(got))
	}
}

// Tokens that are glued to a word by a dot or by nothing, and behind the name of a header within a
// value. Names that hold the beginning of a token stay.
func TestGluedTokens(t *testing.T) {
	t.Parallel()
	const body = "PLKFhDSzDwajxPpdailHxILUKu7bSYewVXCa" // digits alone do not tell
	for _, tt := range []struct{ text, want string }{
		{"x.ghp_" + body, "x.ghp_PL…VXCa"},
		{"key=abc.ghp_" + body, "key=abc.gh…VXCa"},
		{"wordghp_" + body, "wordghp_PL…VXCa"},
		{"my-ghp_" + body + ".b", "my-ghp_PL…VXCa.b"},
		{"x.wordghp_" + body, "x.wordghp_PL…VXCa"},
		{`key="Authorization: Bearer ` + body + `"`, `key="Authorization: Bearer PLKFhD…VXCa"`},
		{`Authorization: "Bearer abc.` + body + `"`, `Authorization: "Bearer abc.PL…VXCa"`},
		{"my_ghp_getUserNameFromSessionTokenStore2ForAll", ""},
		{"my_ghp_parseHTTPRequestHeaderFieldsV2AndBody", ""},
		{"my_ghp_configuration_for_the_whole_team_2", ""},
	} {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		assert.Equal(t, want, secret.Mask(tt.text), tt.text)
	}
}
