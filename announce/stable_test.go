package announce_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// What Visible and Sanitize return, they return again: for random texts of everything that they
// and Redact know, OFFSHOOT_TEXTS=10000000 of them. OFFSHOOT_SEED chooses others. Of what Redact
// returns it changes less than one text in a thousand, where parts of credentials stand side by
// side.
func TestRandomTextsAreStable(t *testing.T) {
	t.Parallel()
	number := func(name string, unset uint64) uint64 {
		s := os.Getenv(name)
		if s == "" {
			return unset
		}
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, name)
		return n
	}
	texts, seed := number("OFFSHOOT_TEXTS", 5_000), number("OFFSHOOT_SEED", 1)
	unstable := uint64(0)
	random := rand.New(rand.NewPCG(seed, 16))
	for i := range texts {
		text := randomText(random)
		shown, ok := announce.Visible(text)
		again, stillOK := announce.Visible(shown)
		if again != shown || ok != stillOK {
			t.Fatalf("text %d of seed %d: Visible(%q) is %q, and that is %q", i, seed, text, shown, again)
		}
		clean := announce.Sanitize(text)
		if again := announce.Sanitize(clean); again != clean {
			t.Fatalf("text %d of seed %d: Sanitize(%q) is %q, and that is %q", i, seed, text, clean, again)
		}
		masked := announce.Redact(text)
		if again := announce.Redact(masked); again != masked {
			unstable++
			third := announce.Redact(again)
			require.Equal(t, third, announce.Redact(third), "text %d of seed %d: %q", i, seed, text)
		}
	}
	require.Less(t, unstable, texts/1000+5)
	t.Logf("%d texts of seed %d; Redact changes %d of its answers", texts, seed, unstable)
}
