package pgstore_test

import (
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	o := pgstore.Options{Lease: 3 * time.Second, Timeout: 2 * time.Second}
	enginetest.TestTwoRuntimes(t, theServer(t).cutOpener(t, o, false))
}

func TestServerKilledUnderABot(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	store := s.open(t, pgstore.Options{Timeout: 2 * time.Second})
	enginetest.TestServerKilledUnderABot(t, store, enginetest.Rounds(2, 20), s.killAll,
		func() { require.NoError(t, s.Start()) })
}

// Three processes of a bot share a schema, and one after another is killed under load, and started
// again.
func TestKilledRuntimes(t *testing.T) {
	t.Parallel()
	f := engine.NewFleet(t, ownServer(t).place())
	f.Under(enginetest.Rounds(3, 100), f.KillOne)
}

// The server of three processes of a bot is killed under load, and started again. No clerk is
// interrupted.
func TestServerKilledUnderRuntimes(t *testing.T) {
	t.Parallel()
	s, e := ownServer(t), engine
	e.Lease = time.Minute
	f := e.NewFleet(t, s.place())
	f.Whole = true
	f.Under(enginetest.Rounds(3, 50), func(round int) {
		s.killAll()
		time.Sleep(time.Duration(round%3) * 500 * time.Millisecond)
		require.NoError(t, s.Start())
	})
}

// One process of a bot after another stands still under load for longer than its lease, and goes
// on: what it was doing counts once, here or where the tree is now.
func TestStoppedRuntimes(t *testing.T) {
	t.Parallel()
	f := engine.NewFleet(t, ownServer(t).place())
	f.Under(enginetest.Rounds(2, 20), f.StopOne)
	f.VerifyEpochs()
}
