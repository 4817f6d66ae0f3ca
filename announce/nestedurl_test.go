package announce_test

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// nestedURL returns a random address, with secrets, of which a parameter may be another address.
func nestedURL(random *rand.Rand, depth int) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	secretOf := func() string {
		return pick("hunter2", "s3cr3t-Value-09", "a1B2c3D4e5F6g7H8i9J0k1L2", "p@ss/w:rd?&=#1",
			"ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "long passphrase with words 77", "…", "***")
	}
	encode := func(s string) string {
		switch random.IntN(3) {
		case 0:
			return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
		case 1:
			return url.QueryEscape(url.QueryEscape(s))
		}
		return url.QueryEscape(s)
	}
	var b strings.Builder
	b.WriteString(pick("https", "http", "postgres", "redis", "amqp") + "://")
	if random.IntN(2) == 0 {
		b.WriteString(pick("ann", "", "x-access-token", "a1B2c3D4e5F6g7H8i9J0k1L2") + ":" +
			encode(secretOf()) + "@")
	}
	b.WriteString(pick("example.com", "db:5432", "localhost", "hooks.slack.com") +
		pick("", "/", "/a/b", "/services/T0/B0/abcdefghijklmnop"))
	sep := "?"
	for range random.IntN(4) {
		b.WriteString(sep + pick("token", "key", "next", "redirect_uri", "password", "q", "sig") + "=")
		if depth > 0 && random.IntN(2) == 0 {
			b.WriteString(encode(nestedURL(random, depth-1)))
		} else {
			b.WriteString(encode(secretOf()))
		}
		sep = "&"
	}
	return b.String() + pick("", "#access_token="+encode(secretOf()))
}

// Redact leaves its own masks alone, also in an address within a parameter of another one, and the
// password of each address that a standard encoder wrote is masked.
func TestRedactOfNestedAddressesIsStable(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12)) //nolint:gosec // repeatable
	for range 20_000 {
		text := "see " + nestedURL(random, 3) + " now"
		once := announce.Redact(text)
		require.Equal(t, once, announce.Redact(once), "%s", text)
	}
	for _, after := range []string{"", "/", "/a?b=c", "?b=c%40d", "#access_token=p%40ss"} {
		inner := "https://ann:hunter2@example.com" + after
		for _, text := range []string{
			inner, "see https://h/?next=" + url.QueryEscape(inner) + "#token=p%40ss%2Fx",
			"https://h/?a=b&next=" + url.QueryEscape(inner) + "&c=d%40e",
		} {
			require.NotContains(t, announce.Redact(text), "hunter2", text)
		}
	}
}
