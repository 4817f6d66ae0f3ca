package dirstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// importTexts imports lines with these texts behind a position, with gaps, and returns them.
func importTexts(
	t *testing.T, s *session.Store, ref session.Ref, rng *rand.Rand, after session.Pos, n int,
) (lines []session.Line) {
	t.Helper()
	pos := after
	for range n {
		pos += session.Pos(1 + rng.IntN(3)*rng.IntN(5000))
		m := userMessages(fmt.Sprintf("line %d %s", pos, strings.Repeat("é", rng.IntN(100))))[0]
		lines = append(lines, session.Line{Pos: pos, Message: m})
	}
	x := s.Transcripts.(session.TranscriptsImporter)
	last, err := x.Import(t.Context(), ref, after, lines...)
	require.NoError(t, err)
	require.Equal(t, pos, last)
	return lines
}

// selected returns the lines that a query selects.
func selected(lines []session.Line, q session.LineQuery) (all []session.Line) {
	for _, l := range lines {
		if l.Pos > q.After {
			all = append(all, l)
		}
	}
	if q.Last > 0 {
		all = all[max(0, len(all)-q.Last):]
	}
	return all
}

// requireLines fails the test unless the lines that a query selects are these, as far as their
// position and text tell.
func requireLines(
	t *testing.T, s *session.Store, ref session.Ref, q session.LineQuery, want []session.Line,
) {
	t.Helper()
	var got, wanted []string
	for l, err := range s.Transcripts.Read(t.Context(), ref, q) {
		require.NoError(t, err)
		got = append(got, fmt.Sprint(l.Pos, " ", l.Message.Text))
	}
	for _, l := range selected(want, q) {
		wanted = append(wanted, fmt.Sprint(l.Pos, " ", l.Message.Text))
	}
	require.Equal(t, wanted, got, "%+v", q)
}

// A transcript that was imported has the positions that it had in another Store, whatever is done
// to it: appends, further imports, a restart, a crash, an archive and its restoring.
func TestImportedTranscriptKeepsItsPositions(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := disktest.New()
		s := openOn(t, d)
		ref := testRef("x")
		lines := importTexts(t, s, ref, rng, 0, 1+rng.IntN(5))
		for range 40 {
			end := lines[len(lines)-1].Pos
			switch rng.IntN(8) {
			case 0:
				lines = append(lines, importTexts(t, s, ref, rng, end, 1+rng.IntN(4))...)
			case 1, 2:
				text := fmt.Sprint("more ", rng.Uint32())
				require.Equal(t, end+1, appendTexts(t, s, ref, end, text))
				lines = append(lines, session.Line{Pos: end + 1, Message: userMessages(text)[0]})
			case 3:
				require.NoError(t, s.Close())
				s = openOn(t, d)
			case 4:
				d = d.Crash(func(int) bool { return rng.IntN(2) == 0 })
				s = openOn(t, d)
			case 5:
				_, err := s.Transcripts.Archive(t.Context(), ref, time.Unix(1, 0))
				require.NoError(t, err)
				requireLines(t, s, ref, session.LineQuery{Archived: true, Last: rng.IntN(3)}, lines)
				require.NoError(t, s.Transcripts.Restore(t.Context(), ref))
			case 6:
				dirstore.WriteLinesAtOnce(s)
			}
			for _, q := range []session.LineQuery{
				{},
				{Last: 1 + rng.IntN(4)},
				{After: session.Pos(rng.IntN(int(end) + 2))},
				{After: lines[rng.IntN(len(lines))].Pos, Last: 1 + rng.IntN(3)},
			} {
				requireLines(t, s, ref, q, lines)
			}
			_, err := s.Transcripts.Append(t.Context(), ref, end-1, userMessages("wrong")...)
			require.ErrorIs(t, err, session.ErrConflict)
		}
		require.NoError(t, s.Close())
		v, err := dirstore.ViewOn(d, "/")
		require.NoError(t, err)
		requireLines(t, v, ref, session.LineQuery{}, lines)
		for f, err := range dirstore.VerifyOn(t.Context(), d, "/") {
			require.NoError(t, err, f.Path)
		}
	}
}

// After any change of the bytes of an imported transcript, Mend makes it readable, and what is
// appended comes behind it. A digit of a position that is another one costs two lines at most: it
// may say what the line before it says.
func TestMendOfImportedTranscript(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	rng := rand.New(rand.NewPCG(3, 4))
	lines := importTexts(t, s, ref, rng, 0, 6)
	end := lines[len(lines)-1].Pos
	appendTexts(t, s, ref, end, "after")
	lines = append(lines, session.Line{Pos: end + 1, Message: userMessages("after")[0]})
	require.NoError(t, s.Close())
	const path = "/sessions/main/x.jsonl"
	whole := readAll(t, d, path)
	at := map[string]session.Pos{}
	for _, l := range lines {
		at[l.Message.Text] = l.Pos
	}
	mended := 0
	for n := range 3 * mutations() {
		b, what := mutate(rng, whole)
		if n%3 == 0 { // a digit of a position
			b = []byte(string(whole))
			i := strings.Index(string(b), `{"pos":`) + len(`{"pos":`)
			for range rng.IntN(len(lines)) {
				i += strings.Index(string(b[i:]), `{"pos":`) + len(`{"pos":`)
			}
			b[i] = byte('1' + rng.IntN(9))
			what = fmt.Sprintf("a digit at %d", i)
		}
		d := d.Crash(func(int) bool { return true })
		writeAll(t, d, path, b)
		s := openOn(t, d)
		_, err := readTexts(t, s, ref, session.LineQuery{})
		done := mend(t, s, ref)
		require.Equal(t, err != nil, done.Bytes > 0, "%s: %v", what, err)
		if done.Bytes > 0 {
			mended++
		}
		require.Zero(t, mend(t, s, ref), what)
		last, intact := session.Pos(0), 0
		for l, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
			require.NoError(t, err, what)
			require.Greater(t, l.Pos, last, what)
			last = l.Pos
			if pos, ok := at[l.Message.Text]; ok && pos == l.Pos {
				intact++
			}
		}
		if n%3 == 0 {
			require.GreaterOrEqual(t, intact, len(lines)-2, what)
		}
		appendTexts(t, s, ref, last, "on")
		if last > 0 { // else the file was put aside, and a new one begins
			require.Equal(t, last+1, lastPos(t, s, ref), what)
		}
		require.NoError(t, s.Close())
	}
	require.NotZero(t, mended)
}

// A transcript that Append has begun takes no lines at other positions, and one that was imported
// none that do not grow.
func TestImportThatIsRefused(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	x := s.Transcripts.(session.TranscriptsImporter)
	end := appendTexts(t, s, testRef("x"), 0, "one")
	line := func(pos session.Pos) session.Line {
		return session.Line{Pos: pos, Message: userMessages("two")[0]}
	}
	_, err := x.Import(t.Context(), testRef("x"), end, line(end+1))
	require.ErrorIs(t, err, session.ErrConflict)
	for _, lines := range [][]session.Line{{line(0)}, {line(5), line(5)}, {line(5), line(4)}} {
		_, err = x.Import(t.Context(), testRef("y"), 0, lines...)
		require.ErrorIs(t, err, session.ErrInvalidLine)
	}
	_, err = x.Import(t.Context(), testRef("y"), 1, line(5))
	require.ErrorIs(t, err, session.ErrConflict)
	require.Empty(t, lineTexts(t, s, testRef("y")))
	require.Equal(t, []string{"one"}, lineTexts(t, s, testRef("x")))
	require.NoError(t, s.Close())
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	x = v.Transcripts.(session.TranscriptsImporter)
	_, err = x.Import(t.Context(), testRef("z"), 0, line(1))
	require.ErrorIs(t, err, session.ErrReadOnly)
}
