package natsstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// refused opens a Store that is refused, because the streams are in use in the other way.
func refused(t *testing.T, url string, o natsstore.Options) {
	t.Helper()
	_, err := natsstore.Open(t.Context(), url, o)
	var locked *natsstore.LockedError
	require.ErrorAs(t, err, &locked)
	require.ErrorIs(t, err, natsstore.ErrLocked)
	assert.Equal(t, o.Process == "", locked.Member)
	assert.Equal(t, o.Name, locked.Name)
	assert.NotEmpty(t, locked.Holder)
}

// TestMembersAndOneThatIsAlone opens the streams that one process has alone from a process that
// would share them, and the other way round: before it serves, while it does, and when it is gone.
func TestMembersAndOneThatIsAlone(t *testing.T) {
	s := theServer(t)
	alone := natsstore.Options{Name: freshName(), TrustSync: true}
	member := alone
	member.Process, member.Lease = "a", 5*time.Second
	first := open(t, s, alone)
	refused(t, s.ClientURL(), member)
	second := open(t, s, alone) // the operator sees to it that there is one
	require.NoError(t, first.Close())
	refused(t, s.ClientURL(), member)
	require.NoError(t, second.Close())

	for _, begin := range map[string]func(a *session.Store){
		"open": func(*session.Store) {},
		"claims": func(a *session.Store) {
			_, err := engine.Claim(t.Context(), a, root)
			require.NoError(t, err)
		},
	} {
		a := open(t, s, member)
		begin(a)
		other := member
		other.Process = "b"
		b := open(t, s, other)
		refused(t, s.ClientURL(), alone)
		require.NoError(t, a.Close())
		refused(t, s.ClientURL(), alone)
		require.NoError(t, b.Close())
		require.NoError(t, open(t, s, alone).Close())
	}
}

// TestKilledAlone ends the connection of a process that has the streams alone: it opens them again
// at once, and others are refused until it counts as gone.
func TestKilledAlone(t *testing.T) {
	s := theServer(t)
	alone := natsstore.Options{Name: freshName(), TrustSync: true}
	member := alone
	member.Process = "a"
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	killed, err := natsstore.OpenConn(t.Context(), conn, alone)
	require.NoError(t, err)
	t.Cleanup(func() { _ = killed.Close() })
	conn.Close()
	refused(t, s.ClientURL(), member)
	require.NoError(t, open(t, s, alone).Close())
	refused(t, s.ClientURL(), member)
	forgetOpen(t, s.ClientURL(), alone.Name)
	open(t, s, member)
}

// forgetOpen removes what says which Stores are open, as the server does when they are not heard.
func forgetOpen(t *testing.T, url, name string) {
	t.Helper()
	stream, err := connect(t, url).Stream(t.Context(), name+"_docs")
	require.NoError(t, err)
	err = stream.Purge(t.Context(), jetstream.WithPurgeSubject(name+".docs.s.*"))
	require.NoError(t, err)
}

// TestLostToMember has a process that has the streams alone not be heard for so long that another
// one opens them: it ends when it is heard again. Without another one it goes on.
func TestLostToMember(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	alone := natsstore.Options{Name: freshName(), TrustSync: true}
	member := alone
	member.Process = "a"
	lost := open(t, s, alone)
	forgetOpen(t, s.ClientURL(), alone.Name)
	open(t, s, member)
	alone.Name = freshName()
	kept := open(t, s, alone)
	forgetOpen(t, s.ClientURL(), alone.Name)
	require.Eventually(t, func() bool {
		_, err := lost.Journal.Append(t.Context(), root, 1, entries("late", 1))
		return assert.ErrorIs(new(testing.T), err, session.ErrSync)
	}, time.Minute, 50*time.Millisecond)
	require.ErrorIs(t, lost.Health(t.Context()), natsstore.ErrLocked)
	stream, err := connect(t, s.ClientURL()).Stream(t.Context(), alone.Name+"_docs")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := stream.GetLastMsgForSubject(t.Context(), alone.Name+".docs.s.*")
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, kept.Health(t.Context()))
}
