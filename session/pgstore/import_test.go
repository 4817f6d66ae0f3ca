package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/stretchr/testify/require"
)

// linesOf returns the positions and texts of the lines that a query selects.
func linesOf(
	t *testing.T, s *session.Store, ref session.Ref, q session.LineQuery,
) (all []string, err error) {
	t.Helper()
	for l, err := range s.Transcripts.Read(t.Context(), ref, q) {
		if err != nil {
			return all, err
		}
		all = append(all, fmt.Sprint(l.Pos, " ", l.Message.Text))
	}
	return all, nil
}

// A transcript that was imported has the positions that it had in another Store, whatever is
// appended, and a line of it that is missing is noticed.
func TestImportedTranscript(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	store := s.open(t, memberOptions(schema, "a", 0))
	x := store.Transcripts.(session.TranscriptsImporter)
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ref := session.Ref{Key: root, SessionID: fmt.Sprint("s", seed)}
		var want []session.Line
		end := session.Pos(0)
		for step := range 12 {
			var lines []session.Line
			for range 1 + rng.IntN(3) {
				m := session.Message{Role: session.MessageUser, Text: fmt.Sprint("line ", rng.Uint32())}
				lines = append(lines, session.Line{Message: m})
			}
			imported := step == 0 || rng.IntN(2) == 0
			messages := make([]session.Message, len(lines))
			after := end
			for i := range lines {
				end++
				if imported {
					end += session.Pos(rng.IntN(2) * rng.IntN(5000))
				}
				lines[i].Pos, messages[i] = end, lines[i].Message
			}
			var last session.Pos
			var err error
			if imported {
				last, err = x.Import(t.Context(), ref, after, lines...)
			} else {
				last, err = store.Transcripts.Append(t.Context(), ref, after, messages...)
			}
			require.NoError(t, err)
			require.Equal(t, end, last)
			_, err = x.Import(t.Context(), ref, after, lines...)
			require.ErrorIs(t, err, session.ErrConflict)
			want = append(want, lines...)
			for _, q := range []session.LineQuery{
				{},
				{Last: 1 + rng.IntN(5)},
				{After: session.Pos(rng.IntN(int(end) + 2))},
				{After: want[rng.IntN(len(want))].Pos, Last: 1 + rng.IntN(3)},
			} {
				got, err := linesOf(t, store, ref, q)
				require.NoError(t, err)
				var wanted []string
				for _, l := range want {
					if l.Pos > q.After {
						wanted = append(wanted, fmt.Sprint(l.Pos, " ", l.Message.Text))
					}
				}
				if q.Last > 0 {
					wanted = wanted[max(0, len(wanted)-q.Last):]
				}
				require.Equal(t, wanted, got, "%+v", q)
			}
		}
		gone := want[rng.IntN(len(want))].Pos
		s.query(t, `delete from `+schema+`.lines where pos = $1 and transcript =
			(select id from `+schema+`.transcripts where session = $2)`, int64(gone), ref.SessionID)
		_, err := linesOf(t, store, ref, session.LineQuery{})
		require.ErrorIs(t, err, session.ErrCorrupt)
	}
}

// A log that is imported may begin anywhere, and has no gap behind that. Its first entries are
// missed if they are gone.
func TestImportedLog(t *testing.T) {
	s, schema := theServer(t), freshSchema()
	store := s.open(t, memberOptions(schema, "a", 0))
	x := store.Journal.(session.JournalImporter)
	b := entries("first", 2)
	b.Due = time.Unix(5, 0)
	for _, reset := range []bool{false, true} {
		root := enginetest.Numbered(map[bool]int{false: 1, true: 2}[reset])
		b.Reset = reset
		for _, at := range [][2]session.Seq{{0, 0}, {5, 5}, {5, 7}, {1 << 63, 1 << 63}} {
			_, err := x.Import(t.Context(), root, at[0], at[1], b)
			require.ErrorIs(t, err, session.ErrInvalidBatch, "%v", at)
		}
		last, err := x.Import(t.Context(), root, 0, 1000, b)
		require.NoError(t, err)
		require.EqualValues(t, 1001, last)
		_, err = x.Import(t.Context(), root, 0, 1000, b)
		require.ErrorIs(t, err, session.ErrConflict)
		last, err = store.Journal.Append(t.Context(), root, last, entries("next", 1))
		require.NoError(t, err)
		last, err = x.Import(t.Context(), root, last, last+1, entries("more", 1))
		require.NoError(t, err)
		var got []session.Seq
		for e, err := range store.Journal.Read(t.Context(), root, 0) {
			require.NoError(t, err)
			got = append(got, e.Seq)
		}
		require.Equal(t, []session.Seq{1000, 1001, 1002, 1003}, got)
		require.EqualValues(t, 1003, last)
	}
	s.query(t, `delete from `+schema+`.batches where first = 1000`)
	for _, err := range store.Journal.Read(t.Context(), enginetest.Numbered(1), 0) {
		require.ErrorIs(t, err, session.ErrCorrupt)
	}
}
