package natsstore_test

import (
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	o := natsstore.Options{Lease: 3 * time.Second, Timeout: 2 * time.Second}
	enginetest.TestTwoRuntimes(t, cutOpener(t, o, false))
}

func TestServerKilledUnderABot(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	store := s.open(t, natsstore.Options{Timeout: 2 * time.Second})
	enginetest.TestServerKilledUnderABot(t, store, enginetest.Rounds(2, 50), s.kill, s.start)
}

// Three processes of a bot share a server, and one after another is killed under load, and started
// again.
func TestKilledRuntimes(t *testing.T) {
	t.Parallel()
	f := engine.NewFleet(t, startServer(t).place())
	f.Under(enginetest.Rounds(3, 100), f.KillOne)
}
