package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// What a secret name has as its value is masked whatever form that has: in a list, in an object,
// and in JSON that stands escaped in a text. Masking twice is masking once.
func TestMaskOfCompositeValues(t *testing.T) {
	const hidden = "hunter2secretpw"
	for _, text := range []string{
		`{"Authorization":["Basic ` + hidden + `"]}`, `{"X-Api-Key": [ "` + hidden + `" ], "a": 1}`,
		`{"Set-Cookie":["sid=` + hidden + `","b=` + hidden + `"]}`, `{"password":["` + hidden + `"]}`,
		`{"secret": {"db":"` + hidden + `","x":["` + hidden + `"]}}`,
		`curl -d "{\"password\":\"` + hidden + `\"}" x`, `msg="{\"api_key\": \"` + hidden + `\"}" b=c`,
		`{"c":"{\\\"password\\\":\\\"` + hidden + `\\\"}"}`, `{\"Cookie\":\"sid=` + hidden + `\"}`,
		`password: ["` + hidden + `", "` + strings.Repeat("x", 5000) + `"]`, `{"password":["` + hidden,
		`{"password":["a]b\"]", "` + hidden + `"]}`,
	} {
		masked := secret.Mask(text)
		require.NotContains(t, masked, hidden, text)
		require.NotEqual(t, text, masked)
		require.Equal(t, masked, secret.Mask(masked), text)
	}
	for _, text := range []string{
		`{"password":[]}`, `{"password": {}}`, `token: []byte(x)`,
		`{\"user\":\"ann\"}`, `{"a":["b"],"c":{"d":1}}`,
	} {
		require.Equal(t, text, secret.Mask(text))
	}
	for text, want := range map[string]string{ // the brackets of a list stay
		`password=[hunter2x]`:                 `password=[***]`,
		`password={hunter2x}`:                 `password={***}`,
		`password=[` + hidden + `]`:           `password=[***]`,
		`password: [` + hidden + `]`:          `password: ["***"]`,
		`passwords=[hunter2a, hunter2b]; a`:   `passwords=[***]; a`,
		`{"password":["` + hidden + `"],"a"}`: `{"password":["***"],"a"}`,
		`password = ["` + hidden + `"]`:       `password = ["***"]`,
		`{"secret":{"db":"` + hidden + `"}}`:  `{"secret":"***"}`,
		`{"password":["` + hidden:             `{"password":"***"`,
	} {
		require.Equal(t, want, secret.Mask(text))
		require.Equal(t, want, secret.Mask(want))
		require.Equal(t, want, secret.NewOwn([]string{"another secret"}, nil).Mask(text))
	}
	for _, text := range []string{
		"password=[x]", "password=[redacted]", "password=[]", "password: [see below]", "password: [hidden]",
		"password: [string]", "token=[optional]", "secret: {value}", "api_key: [a, b]", "password=[required]",
	} {
		require.Equal(t, text, secret.Mask(text))
	}
	lines := `{"source":["-----BEGIN PRIVATE KEY-----\n","` + hidden + `\n","-----END PRIVATE KEY-----"],` +
		`"a":["b"]}`
	masked, found := secret.MaskJSON(lines, func(s string) string { return s })
	require.True(t, found)
	require.NotContains(t, masked, hidden)
	require.Contains(t, masked, `["b"]`)
}

// The time of a mask grows with the text, also where lists and objects have no end.
func TestMaskOfOpenCompositesIsBounded(t *testing.T) {
	text := strings.Repeat(`"password":[{`, 40_000)
	require.Less(t, len(secret.Mask(text)), len(text))
}
