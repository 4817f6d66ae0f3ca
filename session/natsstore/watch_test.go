package natsstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// connect returns what another program uses of a server.
func connect(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// TestStreamMadeAnew has each stream vanish under a Store, while the server is there or while it is
// down, and another process make a new one: the Store writes nothing to that, and says why.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"log", "text", "docs"} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " ", down), func(t *testing.T) {
				s := newCopiedServer(t)
				o := natsstore.Options{TrustSync: true, Process: "a", Lease: 3 * time.Second}
				store := open(t, s.Server, o)
				served := make(chan error, 1)
				go func() { served <- store.Owners.Serve(t.Context(), session.Member{}) }()
				last := add(t, store, 0, entries("a", 1))
				m := session.Message{Role: session.MessageUser, Text: "hello"}
				_, err := store.Transcripts.Append(t.Context(), replayRef("old"), 0, m)
				require.NoError(t, err)
				name := "offshoot_" + kind
				if down {
					s.stop()
					require.NoError(t, os.RemoveAll(s.stream(name)))
					s.start()
				} else {
					require.NoError(t, connect(t, s.ClientURL()).DeleteStream(t.Context(), name))
				}
				o.Process = "b"
				open(t, s.Server, o)
				stream, err := connect(t, s.ClientURL()).Stream(t.Context(), name)
				require.NoError(t, err)
				before := stream.CachedInfo().State.Msgs

				other := session.Must(session.NamedKey("main", "begun-anew"))
				calls := map[string]func() error{
					"log": func() error {
						_, err := store.Journal.Append(t.Context(), other, 0, entries("n", 1))
						return err
					},
					"text": func() error {
						_, err := store.Transcripts.Append(t.Context(), replayRef("new"), 0, m)
						return err
					},
					"docs": func() error {
						_, err := engine.Claim(t.Context(), store, other)
						return err
					},
				}
				if kind == "docs" { // a beat finds it, too
					require.Eventually(t, func() bool {
						return store.Health(t.Context()) != nil
					}, 20*time.Second, time.Millisecond)
				}
				require.ErrorIs(t, calls[kind](), session.ErrSync)
				for _, f := range calls {
					require.ErrorIs(t, f(), session.ErrSync)
				}
				var lost *natsstore.LostError
				_, err = store.Journal.Append(t.Context(), root, last, entries("late", 1))
				require.ErrorAs(t, err, &lost)
				assert.Contains(t, lost.Stream, name)
				require.ErrorIs(t, store.Health(t.Context()), session.ErrSync)
				require.ErrorIs(t, <-served, session.ErrSync)
				stream, err = connect(t, s.ClientURL()).Stream(t.Context(), name)
				require.NoError(t, err)
				if kind != "docs" { // where b may have been heard of
					assert.Equal(t, before, stream.CachedInfo().State.Msgs)
				}
			})
		}
	}
}

// TestBotOfStreamsMadeAnew has the streams of a bot vanish: it ends, and says why.
func TestBotOfStreamsMadeAnew(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"", "a"} {
		s := theServer(t)
		o := natsstore.Options{Name: freshName(), TrustSync: true, Process: process}
		store := open(t, s, o)
		rt, err := agent.Open(t.Context(), agent.Config{
			Store: store,
			Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
				return agent.Result{Text: "hi"}, nil
			}),
			Reply: func(context.Context, agent.Delivery) error { return nil },
			Drain: time.Second, Grace: time.Second,
		})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- rt.Run(t.Context()) }()
		chat := rt.Session(session.Must(session.DirectKey("main", "term", "one")))
		_, err = chat.PostAndWait(t.Context(), agent.Incoming{ID: "a", Text: "a"})
		require.NoError(t, err)
		js := connect(t, s.ClientURL())
		for _, kind := range []string{"log", "text", "docs"} {
			require.NoError(t, js.DeleteStream(t.Context(), o.Name+"_"+kind))
		}
		o.Process = "b"
		open(t, s, o)
		for ended != nil { // the bot learns of it when it writes
			within, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = chat.PostAndWait(within, agent.Incoming{ID: "b", Text: "b"})
			cancel()
			require.Error(t, err)
			select {
			case err = <-ended:
				ended = nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		require.ErrorIs(t, err, session.ErrSync)
	}
}

// TestStreamIsGone removes a stream: the error says that, and not that the server is silent. It
// passes when the stream is there again.
func TestStreamIsGone(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true, Timeout: time.Second}
	store := open(t, s, o)
	require.NoError(t, connect(t, s.ClientURL()).DeleteStream(t.Context(), o.Name+"_log"))
	for range 2 {
		_, err := store.Journal.Append(t.Context(), root, 0, entries("a", 1))
		require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		require.NotErrorIs(t, err, natsstore.ErrTimeout)
		require.ErrorContains(t, err, "is not there")
		assert.False(t, session.IsPermanent(err))
	}
}

// TestHealthOfStreamsThatTakeNothing has a stream take nothing, with an answer and without one:
// Health says so until something is written.
func TestHealthOfStreamsThatTakeNothing(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	js := connect(t, s.ClientURL())
	for kind, write := range map[string]func(s *session.Store) error{
		"log": func(s *session.Store) error {
			_, err := s.Journal.Append(t.Context(), root, 0, entries("a", 1))
			return err
		},
		"text": func(s *session.Store) error {
			m := session.Message{Role: session.MessageUser, Text: "hello"}
			_, err := s.Transcripts.Append(t.Context(), replayRef("one"), 0, m)
			return err
		},
	} {
		for what, spoil := range map[string]func(c *jetstream.StreamConfig){
			"is full":         func(c *jetstream.StreamConfig) { c.MaxBytes = 1 },
			"does not listen": func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name + ".x"} },
		} {
			o := natsstore.Options{Name: freshName(), TrustSync: true, Timeout: 2 * time.Second}
			store := open(t, s, o)
			stream, err := js.Stream(t.Context(), o.Name+"_"+kind)
			require.NoError(t, err)
			good := stream.CachedInfo().Config
			bad := good
			spoil(&bad)
			_, err = js.UpdateStream(t.Context(), bad)
			require.NoError(t, err)
			require.NoError(t, store.Health(t.Context()), "nothing was written")
			err = write(store)
			require.Error(t, err)
			if strings.HasPrefix(what, "does") {
				require.ErrorIs(t, err, natsstore.ErrTimeout)
				require.NotContains(t, err.Error(), "does not answer")
				require.ErrorContains(t, err, "the server answers")
			}
			for range 2 {
				require.Error(t, store.Health(t.Context()), "%s %s", kind, what)
			}
			_, err = js.UpdateStream(t.Context(), good)
			require.NoError(t, err)
			require.NoError(t, store.Health(t.Context()))
			require.NoError(t, write(store))
			require.NoError(t, store.Health(t.Context()))
			require.NoError(t, store.Close())
		}
	}
}
