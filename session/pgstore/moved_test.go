package pgstore_test

import "testing"

// A bot whose store is moved goes on where that is now exactly as it does where it was.
func TestMovedBot(t *testing.T) {
	s := theServer(t)
	t.Run("directory to database", func(t *testing.T) {
		t.Parallel()
		engine.TestMovedIn(t, s.place())
	})
	t.Run("database to directory", func(t *testing.T) {
		t.Parallel()
		engine.TestMovedOut(t, s.place())
	})
}
