package natsstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// TestLongLogsAreReadInPieces reads a log and a transcript of many messages, small and large ones:
// each is whole and in order, for fewer questions than it has messages. What is added in the middle
// of the reading is left out, and a reader that stops early leaves nothing behind.
func TestLongLogsAreReadInPieces(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	store, err := natsstore.OpenConn(t.Context(), conn, o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	const many = 1500
	ref := session.Ref{Key: root, SessionID: "one"}
	var last session.Seq
	var pos session.Pos
	text := func(i int) string {
		if i%100 == 50 {
			return fmt.Sprint(i, strings.Repeat("x", 300_000))
		}
		return fmt.Sprint(i)
	}
	for i := range many {
		last = add(t, store, last, entries(text(i), 1))
		pos, err = store.Transcripts.Append(t.Context(), ref, pos,
			session.Message{Role: session.MessageUser, Text: text(i)})
		require.NoError(t, err)
	}
	before := conn.Stats().OutMsgs
	n := 0
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		require.Equal(t, session.BatchID(text(n)), e.Batch)
		if n++; n == many/2 {
			add(t, store, last, entries("late", 1))
		}
	}
	assert.Equal(t, many, n)
	n = 0
	for l, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		require.Equal(t, text(n), l.Message.Text)
		n++
	}
	assert.Equal(t, many, n)
	for e, err := range store.Journal.Read(t.Context(), root, 0) {
		require.NoError(t, err)
		if e.Batch == session.BatchID(text(40)) {
			break
		}
	}
	assert.Less(t, conn.Stats().OutMsgs-before, uint64(many/2))
	js := connect(t, s.ClientURL())
	for _, kind := range []string{"_log", "_text"} {
		stream, err := js.Stream(t.Context(), o.Name+kind)
		require.NoError(t, err)
		assert.Zero(t, stream.CachedInfo().State.Consumers)
	}
}
