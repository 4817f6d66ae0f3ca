package natsstore_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"
)

// TestTroubleOfLanes has another program write to the subject of a lane, and takes that away.
func TestTroubleOfLanes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	at := enginetest.Place{URL: s.ClientURL(), Name: freshName()}
	js := jetStream(t, at.URL)
	var docs jetstream.Stream
	var err error
	var foreign uint64
	engine.TestTrouble(t, at, func() {
		docs, err = js.Stream(t.Context(), at.Name+"_docs")
		require.NoError(t, err)
		ack, err := js.Publish(t.Context(), laneSubject(t, docs), []byte("garbage"))
		require.NoError(t, err)
		foreign = ack.Sequence
	}, func() { require.NoError(t, docs.DeleteMsg(t.Context(), foreign)) })
}

// laneSubject returns the subject of the one lane that there is.
func laneSubject(t *testing.T, docs jetstream.Stream) (found string) {
	t.Helper()
	info, err := docs.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	for subject := range info.State.Subjects {
		if strings.Contains(subject, ".n.") {
			require.Empty(t, found)
			found = subject
		}
	}
	require.NotEmpty(t, found)
	return found
}
