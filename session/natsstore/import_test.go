package natsstore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/storecopy/storecopytest"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// empty opens a Store that has nothing.
func empty(t *testing.T) *session.Store {
	s := theServer(t)
	return open(t, s, natsstore.Options{Name: freshName(), TrustSync: true})
}

func TestCopiesOfRandomHistories(t *testing.T) { storecopytest.TestHistories(t, empty) }

func TestCopyThatIsCutOff(t *testing.T) { storecopytest.TestCutOff(t, 11, empty) }

func TestTargetIsNotEmpty(t *testing.T) { storecopytest.TestNotEmpty(t, empty) }

// An importedText is what a transcript should have.
type importedText struct {
	t     *testing.T
	rng   *rand.Rand
	store *session.Store
	ref   session.Ref
	want  []session.Line
}

func (x *importedText) end() session.Pos {
	if len(x.want) == 0 {
		return 0
	}
	return x.want[len(x.want)-1].Pos
}

// step changes the transcript.
func (x *importedText) step() {
	ctx := x.t.Context()
	switch x.rng.IntN(10) {
	case 0:
		_, err := x.store.Transcripts.Archive(ctx, x.ref, time.Unix(7, 0))
		require.NoError(x.t, err)
		if x.rng.IntN(3) == 0 {
			require.NoError(x.t, x.store.Transcripts.Remove(ctx, x.ref))
			x.want = nil
		} else if len(x.want) > 0 {
			require.NoError(x.t, x.store.Transcripts.Restore(ctx, x.ref))
		}
	case 1, 2, 3, 4:
		x.write(true)
	default:
		x.write(false)
	}
}

// write imports or appends lines, some of them large.
func (x *importedText) write(imported bool) {
	ctx, after, at := x.t.Context(), x.end(), x.end()
	var lines []session.Line
	var messages []session.Message
	for range 1 + x.rng.IntN(4) {
		text := fmt.Sprint("line\n", x.rng.Uint32())
		if x.rng.IntN(50) == 0 {
			text = strings.Repeat("x", 1<<20)
		}
		at += 1 + session.Pos(x.rng.IntN(2)*x.rng.IntN(1<<x.rng.IntN(30)))
		m := session.Message{Role: session.MessageUser, Text: text}
		lines = append(lines, session.Line{Pos: at, Message: m})
		messages = append(messages, m)
	}
	importer := x.store.Transcripts.(session.TranscriptsImporter)
	if imported {
		last, err := importer.Import(ctx, x.ref, after, lines...)
		require.NoError(x.t, err)
		require.Equal(x.t, at, last)
		_, err = importer.Import(ctx, x.ref, after, lines...)
		require.ErrorIs(x.t, err, session.ErrConflict)
	} else {
		last, err := x.store.Transcripts.Append(ctx, x.ref, after, messages...)
		require.NoError(x.t, err)
		require.Greater(x.t, last, after)
		for i := range lines {
			lines[i].Pos = last + 1 - session.Pos(len(lines)-i)
		}
	}
	x.want = append(x.want, lines...)
}

// check compares what queries select.
func (x *importedText) check() {
	queries := []session.LineQuery{{}, {Last: 1 + x.rng.IntN(6)}, {After: math.MaxUint64}}
	for range 3 {
		if len(x.want) > 0 {
			at := x.want[x.rng.IntN(len(x.want))].Pos + session.Pos(x.rng.IntN(3)) - 1
			queries = append(queries, session.LineQuery{After: at},
				session.LineQuery{After: at, Last: 1 + x.rng.IntN(4)})
		}
	}
	for _, q := range queries {
		var got, want []string
		for l, err := range x.store.Transcripts.Read(x.t.Context(), x.ref, q) {
			require.NoError(x.t, err)
			got = append(got, fmt.Sprint(l.Pos, l.Message.Text))
		}
		for _, l := range x.want {
			if l.Pos > q.After {
				want = append(want, fmt.Sprint(l.Pos, l.Message.Text))
			}
		}
		if q.Last > 0 {
			want = want[max(0, len(want)-q.Last):]
		}
		require.Equal(x.t, want, got, "%+v", q)
	}
}

// A transcript that was imported, or of which a part was, has the positions that it had, whatever
// is appended, archived, taken into use again, or removed and begun anew.
func TestImportedTranscript(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	stores := []*session.Store{open(t, s, o), open(t, s, o)}
	for seed := range uint64(5) {
		x := &importedText{
			t: t, rng: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // any will do
			ref: session.Ref{Key: root, SessionID: fmt.Sprint("s", seed)},
		}
		for range 15 {
			x.store = stores[x.rng.IntN(2)] // which have seen different ends
			x.step()
			x.check()
		}
	}
	x := stores[0].Transcripts.(session.TranscriptsImporter)
	ref := session.Ref{Key: root, SessionID: "refused"}
	line := func(pos session.Pos) session.Line {
		return session.Line{Pos: pos, Message: session.Message{Role: session.MessageUser}}
	}
	for _, lines := range [][]session.Line{{line(0)}, {line(4), line(4)}, {line(1 << 63)}} {
		_, err := x.Import(t.Context(), ref, 0, lines...)
		require.ErrorIs(t, err, session.ErrInvalidLine)
	}
	last, err := x.Import(t.Context(), ref, 0)
	require.NoError(t, err)
	require.Zero(t, last)
	last, err = x.Import(t.Context(), ref, 0, line(math.MaxInt64))
	require.NoError(t, err)
	last, err = stores[0].Transcripts.Append(t.Context(), ref, last, line(0).Message)
	require.NoError(t, err)
	require.EqualValues(t, uint64(1<<63), last)
}

// A log that is imported may begin anywhere, and has no gap behind that, over resets and in another
// process.
func TestImportedLog(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	stores := []*session.Store{open(t, s, o), open(t, s, o)}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // any will do
		key := session.Must(session.NamedKey("main", fmt.Sprint("n", seed)))
		var want []string
		var last session.Seq
		placed := false
		for step := range 20 {
			store := stores[rng.IntN(2)]
			x := store.Journal.(session.JournalImporter)
			b := entries(fmt.Sprint(step), 1+rng.IntN(3))
			b.Reset, b.Due = rng.IntN(6) == 0, time.Unix(int64(step), 0)
			n := session.Seq(len(b.Entries))
			before, first := last, last+1
			if last == 0 {
				first = session.Seq(1 + rng.IntN(1<<rng.IntN(40)))
			}
			var err error
			if rng.IntN(2) == 0 {
				last, err = x.Import(t.Context(), key, before, first, b)
				placed = true
			} else {
				last, err = store.Journal.Append(t.Context(), key, before, b)
			}
			require.NoError(t, err)
			require.GreaterOrEqual(t, last, before+n)
			if placed {
				require.Equal(t, first+n-1, last)
			}
			_, err = x.Import(t.Context(), key, before, first, b)
			require.ErrorIs(t, err, session.ErrConflict)
			if b.Reset {
				want = nil
			}
			for i := range b.Entries {
				want = append(want, fmt.Sprint(last+1-n+session.Seq(i), " ", b.ID))
			}
			for _, after := range []session.Seq{0, last, before, last - n/2, 1} {
				var got, behind []string
				for e, err := range stores[0].Journal.Read(t.Context(), key, after) {
					require.NoError(t, err)
					got = append(got, fmt.Sprint(e.Seq, " ", e.Batch))
				}
				for _, text := range want {
					var seq session.Seq
					_, err := fmt.Sscan(strings.Fields(text)[0], &seq)
					require.NoError(t, err)
					if seq > after {
						behind = append(behind, text)
					}
				}
				require.Equal(t, behind, got, "behind %d", after)
			}
		}
	}
	x := stores[0].Journal.(session.JournalImporter)
	for _, at := range [][2]session.Seq{
		{0, 0}, {5, 5}, {5, 7}, {1 << 63, 1 << 63}, {0, 1 << 63}, {0, math.MaxUint64},
	} {
		_, err := x.Import(t.Context(), root, at[0], at[1], entries("b", 2))
		require.ErrorIs(t, err, session.ErrInvalidBatch, "%v", at)
	}
}

// Whichever message of an imported log or transcript is gone, a reader is told.
func TestDamagedImport(t *testing.T) {
	s := theServer(t)
	js := jetStream(t, s.ClientURL())
	ref := session.Ref{Key: root, SessionID: "one"}
	for gone := range uint64(3) {
		o := natsstore.Options{Name: freshName(), TrustSync: true}
		store := open(t, s, o)
		for i := range session.Seq(4) {
			b := entries(fmt.Sprint(i), 1)
			_, err := store.Journal.(session.JournalImporter).Import(t.Context(), root,
				min(i, 1)*(9+i), 10+i, b)
			require.NoError(t, err)
			_, err = store.Transcripts.(session.TranscriptsImporter).Import(t.Context(), ref,
				session.Pos(i*10), session.Line{
					Pos:     session.Pos(i*10 + 10),
					Message: session.Message{Role: session.MessageUser},
				})
			require.NoError(t, err)
		}
		for _, kind := range []string{"log", "text"} {
			stream, err := js.Stream(t.Context(), o.Name+"_"+kind)
			require.NoError(t, err)
			require.NoError(t, stream.DeleteMsg(t.Context(), gone+1))
		}
		var failed error
		for _, err := range store.Journal.Read(t.Context(), root, 0) {
			failed = err
		}
		require.ErrorIs(t, failed, session.ErrCorrupt, "%d of the log", gone)
		for _, q := range []session.LineQuery{{}, {Last: 4}, {After: 5}} {
			failed = nil
			for _, err := range store.Transcripts.Read(t.Context(), ref, q) {
				failed = err
			}
			require.ErrorIs(t, failed, session.ErrCorrupt, "%d of the transcript, %+v", gone, q)
		}
	}
}

// A damaged list of files, and a transcript whose last message is not one, hide no other from the
// listers, which tell of them at the end.
func TestListersOfADamagedStore(t *testing.T) {
	s := theServer(t)
	o := natsstore.Options{Name: freshName(), TrustSync: true}
	store := open(t, s, o)
	js := jetStream(t, s.ClientURL())
	ref := session.Ref{Key: root, SessionID: "one"}
	m := session.Message{Role: session.MessageUser}
	_, err := store.Transcripts.Append(t.Context(), ref, 0, m)
	require.NoError(t, err)
	_, err = store.Files.Put(t.Context(), ref, strings.NewReader("x"), session.File{})
	require.NoError(t, err)
	for _, text := range []string{"hello", `{"name":"agent:main:main two"}`, `{"name":" "}`} {
		for _, kind := range []string{"l", "f"} {
			subject := fmt.Sprintf("%s.text.%s.%x", o.Name, kind, text)
			_, err = js.Publish(t.Context(), subject, []byte(text))
			require.NoError(t, err)
		}
	}
	for name, refs := range map[string]func(func(session.Ref, error) bool){
		"transcripts": store.Transcripts.(session.TranscriptsLister).Refs(t.Context()),
		"files":       store.Files.(session.FilesLister).Refs(t.Context(), nil),
	} {
		var found []session.Ref
		var failed error
		for ref, err := range refs {
			if failed = err; err == nil {
				found = append(found, ref)
			}
		}
		require.Equal(t, []session.Ref{ref}, found, name)
		require.ErrorIs(t, failed, session.ErrCorrupt, name)
	}
	require.NoError(t, store.Close())
	for _, err := range store.Transcripts.(session.TranscriptsLister).Refs(t.Context()) {
		require.ErrorIs(t, err, session.ErrClosed)
	}
}
