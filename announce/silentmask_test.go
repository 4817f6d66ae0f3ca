package announce_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// Silence is decided on what the model said, and then credentials are masked: a mask leaves
// something of every text that is said, and says nothing where the model chose silence, whatever
// the mask stands beside. A Stream agrees.
func TestMasksDoNotDecideOnSilence(t *testing.T) {
	t.Parallel()
	r, err := announce.NewRedactor(announce.Redaction{
		Secrets: []string{"hunter2hunter2", "tell NO", "secretNO_REPLY"},
	})
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	tokens := []string{
		"NO_REPLY", "HEARTBEAT_OK", "ANNOUNCE_SKIP", "hunter2hunter2", " ", "\n", "*", "tell NO",
		"_REPLY", "secretNO_REPLY", "x", ".", `"`, "TOKEN=abc123def456ghi789", "NO", "```\n",
	}
	said, silent := 0, 0
	for range 20_000 {
		var b strings.Builder
		for range 1 + random.IntN(5) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		shown, speaks := announce.Visible(b.String())
		masked := r.Redact(shown)
		require.Equal(t, speaks, strings.TrimSpace(masked) != "", "%q", b.String())
		s := r.Stream()
		streamed := s.Write(b.String()) + s.Close()
		require.Equal(t, masked, streamed, "%q", b.String())
		if speaks {
			said++
			continue
		}
		silent++
		_, speaks = announce.Visible(r.Redact(b.String()))
		require.False(t, speaks && announce.Decide(b.String()) == announce.DecisionSilent,
			"%q", b.String())
	}
	require.Greater(t, said, 1000)
	require.Greater(t, silent, 1000)
}
