package natsstore_test

import "testing"

func TestKilledMember(t *testing.T) {
	t.Parallel()
	engine.TestKilledMember(t, startServer(t).place())
}

func TestStoppedMember(t *testing.T) {
	t.Parallel()
	engine.TestStoppedMember(t, startServer(t).place())
}
