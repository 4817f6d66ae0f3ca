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
