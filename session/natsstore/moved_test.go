package natsstore_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
)

// place returns streams that no other test has.
func place(t *testing.T, s *server.Server) enginetest.Place {
	return enginetest.Place{URL: s.ClientURL(), Name: freshName()}
}

// A bot whose store is moved goes on where that is now exactly as it does where it was.
func TestMovedBot(t *testing.T) {
	t.Parallel()
	engine.TestMovedIn(t, place(t, theServer(t)))
}

// So does one that was killed in NATS, although its logs have other sequences.
func TestBotMovedOutOfNATS(t *testing.T) {
	t.Parallel()
	engine.TestMovedOut(t, place(t, theServer(t)))
}
