package natsstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// TestHealthOfAServerThatIsSilent asks for the health of a server that was stopped, and takes
// connections without an answer. The ctx of the caller has no end: that of Options.Timeout counts.
func TestHealthOfAServerThatIsSilent(t *testing.T) {
	s := startServer(t)
	for _, process := range []string{"", "a"} {
		store := s.open(t, natsstore.Options{
			Name: "h" + process, Timeout: time.Second, Process: process,
		})
		require.NoError(t, store.Health(t.Context()))
		goOn := s.Stop(t)
		require.ErrorIs(t, store.Health(t.Context()), natsstore.ErrTimeout)
		goOn()
		require.Eventually(t, func() bool { return store.Health(t.Context()) == nil }, time.Minute,
			10*time.Millisecond)
	}
}

// TestCallsOfAServerThatIsSilent has a server be silent for so long that its connections are given
// up, and made again without a word of it: each call returns when its ctx ends.
func TestCallsOfAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn, err := nats.Connect(s.url(), nats.Timeout(time.Minute), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Millisecond), nats.PingInterval(200*time.Millisecond),
		nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	defer conn.Close()
	store, err := natsstore.OpenConn(t.Context(), conn, natsstore.Options{
		Process: "a", Lease: 2 * time.Second, TrustSync: true,
	})
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	last := add(t, store, 0, entries("a", 1))
	defer s.Stop(t)()
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		for name, call := range map[string]func(ctx context.Context) error{
			"Health": store.Health,
			"Append": func(ctx context.Context) error {
				_, err := store.Journal.Append(ctx, root, last, entries("b", 1))
				return err
			},
			"Claim": func(ctx context.Context) error {
				_, err := store.Owners.Claim(ctx, root)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			at := time.Now()
			require.Error(t, call(ctx), name)
			cancel()
			require.Less(t, time.Since(at), 5*time.Second, "%s %v after the end", name, at.Sub(begun))
		}
	}
}

// TestHealthOfAServerWithoutStorage uses up what an account may store: it takes a few bytes still,
// and no message of some length.
func TestHealthOfAServerWithoutStorage(t *testing.T) {
	t.Parallel()
	s := ownServer(t, nil)
	require.NoError(t, s.GlobalAccount().UpdateJetStreamLimits(
		map[string]server.JetStreamAccountLimits{"": {
			MaxStore: 2 << 20, MaxMemory: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1,
		}}))
	store := open(t, s, natsstore.Options{TrustSync: true, Timeout: 2 * time.Second})
	var last session.Seq
	var err error
	for _, size := range []int{50_000, 5_000, 500} {
		for n := range 100 {
			b := entries(fmt.Sprint(size, n), 1)
			b.Entries[0].Payload = session.Raw(fmt.Sprintf("%q", strings.Repeat("x", size)))
			var next session.Seq
			if next, err = store.Journal.Append(t.Context(), root, last, b); err != nil {
				break
			}
			last = next
		}
		require.Error(t, err)
	}
	for range 3 {
		require.Error(t, store.Health(t.Context()))
	}
}

// TestCloseOfAServerThatIsSilent closes Stores whose server does not answer, before and after their
// connections are given up: neither the lease nor the Timeout counts.
func TestCloseOfAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := natsstore.Options{Process: "a", Lease: 24 * time.Hour, Timeout: 12 * time.Hour}
	early := s.open(t, o)
	o.Process = "b"
	late := s.open(t, o)
	defer s.Stop(t)()
	closes := func(store *session.Store) {
		ended := make(chan error, 1)
		go func() { ended <- store.Close() }()
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "Close does not return")
		}
	}
	fails := func(text string) {
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := late.Health(ctx)
			return err != nil && strings.Contains(err.Error(), text)
		}, time.Minute, 100*time.Millisecond)
	}
	fails("")
	closes(early)
	fails("no connection")
	time.Sleep(time.Second) // the client waits for a word of the server
	closes(late)
}
