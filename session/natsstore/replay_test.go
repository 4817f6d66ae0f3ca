package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

var (
	replayChild = session.Must(session.Parse("agent:main:subagent:one"))
	replayDue   = time.Unix(1_700_000_000, 0)
)

func replayRef(id string) session.Ref { return session.Ref{Key: root, SessionID: id} }

// fillReplayed makes logs, transcripts and files with all kinds of beginnings.
func fillReplayed(t *testing.T, s *session.Store) {
	t.Helper()
	ctx := t.Context()
	var last session.Seq
	for i := range 5 { // the log of root is reset in the middle
		b := entries(fmt.Sprint("b", i), 2)
		b.Reset, b.Members = i == 2, []session.Key{replayChild}
		if i > 2 {
			b.Due = replayDue
		}
		last = add(t, s, last, b)
	}
	line := func(text string) session.Message {
		return session.Message{Role: session.MessageUser, Text: text}
	}
	for _, id := range []string{"used", "archived", "again"} {
		ref := replayRef(id)
		write := func(n int) {
			var pos session.Pos
			for i := range n {
				var err error
				pos, err = s.Transcripts.Append(ctx, ref, pos, line(fmt.Sprint(id, n, i)))
				require.NoError(t, err)
			}
			for i := range n {
				_, err := s.Files.Put(ctx, ref, strings.NewReader(fmt.Sprint(id, n, i)),
					session.File{})
				require.NoError(t, err)
			}
		}
		write(3)
		if id == "used" {
			continue
		}
		_, err := s.Transcripts.Archive(ctx, ref, replayDue)
		require.NoError(t, err)
		require.NoError(t, s.Files.Archive(ctx, ref, replayDue))
		if id == "again" { // removed, and begun again
			require.NoError(t, s.Files.Remove(ctx, ref))
			require.NoError(t, s.Transcripts.Remove(ctx, ref))
			pos, err := s.Transcripts.Append(ctx, ref, 0, line("anew"))
			require.NoError(t, err)
			_, err = s.Transcripts.Append(ctx, ref, pos, line("anew behind"))
			require.NoError(t, err)
			_, err = s.Files.Put(ctx, ref, strings.NewReader("anew"), session.File{})
			require.NoError(t, err)
		}
	}
	ref := replayRef("imported")
	_, err := s.Transcripts.(session.TranscriptsImporter).Import(ctx, ref, 0,
		session.Line{Pos: 7, Message: line("seven")}, session.Line{Pos: 9, Message: line("nine")})
	require.NoError(t, err)
	_, err = s.Transcripts.Append(ctx, ref, 9, line("behind"))
	require.NoError(t, err)
}

// dumpStore returns what a Store has, by what was asked, and the errors of those questions.
func dumpStore(ctx context.Context, s *session.Store) (map[string][]string, map[string]error) {
	have, failed := map[string][]string{}, map[string]error{}
	for e, err := range s.Journal.Read(ctx, root, 0) {
		if err != nil {
			failed["log"] = err
			break
		}
		have["log"] = append(have["log"], fmt.Sprintf("%s %s", e.Batch, e.Payload))
	}
	for what, q := range map[string]session.RootQuery{
		"roots": {}, "due": {DueBefore: replayDue.Add(1)}, "member": {Member: replayChild},
	} {
		for h, err := range s.Journal.Roots(ctx, q) {
			if err != nil {
				failed[what] = err
				break
			}
			have[what] = append(have[what], h.Root.String())
		}
	}
	for _, id := range []string{"used", "archived", "again", "imported"} {
		ref, text, list := replayRef(id), "text "+id, "files "+id
		for l, err := range s.Transcripts.Read(ctx, ref, session.LineQuery{Archived: true}) {
			if err != nil {
				failed[text] = err
				break
			}
			have[text] = append(have[text], l.Message.Text)
		}
		for f, err := range s.Files.List(ctx, ref) {
			var r io.ReadCloser
			if err == nil {
				r, err = s.Files.Open(ctx, ref, f.Hash)
			}
			var data []byte
			if err == nil {
				data, err = io.ReadAll(r)
				_ = r.Close()
			}
			if err != nil {
				failed[list] = err
				break
			}
			have[list] = append(have[list], string(data))
		}
	}
	for a, err := range s.Transcripts.Archives(ctx, time.Time{}) {
		if err != nil {
			failed["archives"] = err
			break
		}
		have["archives"] = append(have["archives"], fmt.Sprint(a.Ref.SessionID, a.At.UnixMilli()))
	}
	for _, l := range []any{s.Transcripts, s.Files} {
		what := fmt.Sprintf("refs %T", l)
		refs := func(yield func(session.Ref, error) bool) {
			if lister, ok := l.(session.TranscriptsLister); ok {
				lister.Refs(ctx)(yield)
				return
			}
			l.(session.FilesLister).Refs(ctx, nil)(yield)
		}
		for ref, err := range refs {
			if err != nil {
				failed[what] = err
				break
			}
			have[what] = append(have[what], ref.SessionID)
		}
		slices.Sort(have[what])
	}
	return have, failed
}

// stored returns the messages of a stream, in order.
func stored(t *testing.T, js jetstream.JetStream, stream string) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(t, err)
		all = append(all, m)
	}
	return all
}

// sendAgain publishes what a message says, as a program does that knows nothing of this package.
func sendAgain(t *testing.T, js jetstream.JetStream, m *jetstream.RawStreamMsg, subject string) {
	t.Helper()
	again := nats.NewMsg(subject)
	again.Data = m.Data
	again.Header.Set("Offshoot-Id", m.Header.Get("Offshoot-Id"))
	_, err := js.PublishMsg(t.Context(), again)
	require.NoError(t, err)
}

// TestReplayedMessages sends every message of a Store again, behind the others: what is read then
// is what was there, or damaged.
func TestReplayedMessages(t *testing.T) {
	server := theServer(t)
	js := jetStream(t, server.ClientURL())
	for _, kind := range []string{"log", "text"} {
		damaged := 0
		for i := 0; ; i++ {
			name := freshName()
			o := natsstore.Options{Name: name, TrustSync: true}
			s := open(t, server, o)
			fillReplayed(t, s)
			want, failed := dumpStore(t.Context(), s)
			require.Empty(t, failed, "all beginnings are legal")
			require.NoError(t, s.Close())
			all := stored(t, js, name+"_"+kind)
			if i == len(all) {
				break
			}
			m := all[i]
			last := i == len(all)-1 || !slices.ContainsFunc(all[i+1:],
				func(o *jetstream.RawStreamMsg) bool { return o.Subject == m.Subject })
			sendAgain(t, js, m, m.Subject)

			have, failed := dumpStore(t.Context(), open(t, server, o))
			for what, err := range failed {
				require.ErrorIs(t, err, session.ErrCorrupt, "%s: %s %q", m.Subject, what, m.Data)
			}
			for what := range want {
				if failed[what] == nil {
					assert.Equal(t, want[what], have[what], "%s: %s %q", m.Subject, what, m.Data)
				}
			}
			chained := slices.Contains([]string{"e", "l", "f"}, strings.Split(m.Subject, ".")[2])
			if chained && !last {
				assert.NotEmpty(t, failed, "%s %q", m.Subject, m.Data)
				damaged++
			}
		}
		assert.Greater(t, damaged, 1, kind)
	}
}

// TestCopiedMessages has another program copy the messages of the streams, without what it does not
// know of: the Store reads as before, and goes on.
func TestCopiedMessages(t *testing.T) {
	server := theServer(t)
	js := jetStream(t, server.ClientURL())
	from, to := freshName(), freshName()
	s := open(t, server, natsstore.Options{Name: from, TrustSync: true})
	fillReplayed(t, s)
	want, failed := dumpStore(t.Context(), s)
	require.Empty(t, failed)
	other := open(t, server, natsstore.Options{Name: to, TrustSync: true})
	for _, kind := range []string{"log", "text"} {
		target, err := js.Stream(t.Context(), to+"_"+kind)
		require.NoError(t, err)
		seq := uint64(1)
		fill := func(until uint64) { // sequences that have no message any more
			for ; seq < until; seq++ {
				ack, err := js.Publish(t.Context(), to+"."+kind+".gap", nil)
				require.NoError(t, err)
				require.NoError(t, target.DeleteMsg(t.Context(), ack.Sequence))
			}
		}
		for _, m := range stored(t, js, from+"_"+kind) {
			fill(m.Sequence)
			sendAgain(t, js, m, strings.Replace(m.Subject, from, to, 1))
			seq++
		}
	}
	have, failed := dumpStore(t.Context(), other)
	require.Empty(t, failed)
	assert.Equal(t, want, have)
	_, err := other.Files.Put(t.Context(), replayRef("used"), strings.NewReader("x"), session.File{})
	require.NoError(t, err)
}
