package dirstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// mend mends a transcript.
func mend(t *testing.T, s *session.Store, ref session.Ref) session.Mended {
	t.Helper()
	m, ok := s.Transcripts.(session.Mender)
	require.True(t, ok)
	done, err := m.Mend(t.Context(), ref)
	require.NoError(t, err)
	return done
}

// R10: after any change of the bytes of a transcript, Mend makes it readable. No line is lost that
// was not changed, no line moves, the damaged bytes are in the files that Mend names, and a second
// Mend has nothing to do.
func TestMendKeepsEveryIntactLine(t *testing.T) {
	c := newClosedStore(t)
	const name = "/sessions/main/s1.jsonl"
	ref := testRef("s1")
	rng := rand.New(rand.NewPCG(15, 16))
	mended := 0
	for range mutations() {
		b, what := mutate(rng, c.files[name])
		d := c.withFile(t, name, b)
		s := openOn(t, d)
		_, err := readTexts(t, s, ref, session.LineQuery{})
		done := mend(t, s, ref)
		require.Equal(t, err != nil, done.Bytes > 0, "%s: %v", what, err)
		got, err := readTexts(t, s, ref, session.LineQuery{})
		require.NoError(t, err, what)
		sum := 0
		for _, aside := range done.Aside {
			kept := readAll(t, d, aside)
			sum += len(kept)
			require.True(t, bytes.Contains(b, kept), what)
		}
		require.EqualValues(t, done.Bytes, sum, what)
		require.Zero(t, mend(t, s, ref), what)
		if done.Bytes > 0 && fileExists(d, name) {
			mended++
			require.Len(t, readAll(t, d, name), len(b), what)
			wholeLines(t, c.files[name], b, c.lines[ref], got, what)
		}
		end := session.Pos(0)
		if len(got) > 0 {
			end = lastPos(t, s, ref)
		}
		appendTexts(t, s, ref, end, "on")
		require.NoError(t, s.Close())
	}
	t.Logf("%d of %d mended", mended, mutations())
}

// R10: the power is lost at any moment of a Mend. The next Mend completes it, and the damaged bytes
// are kept.
func TestMendIsCompletedAfterPowerLoss(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	texts := []string{"one", "two", "three", "four"}
	end := session.Pos(0)
	for _, text := range texts {
		end = appendTexts(t, s, ref, end, text)
	}
	require.NoError(t, s.Close())
	const path = "/sessions/main/x.jsonl"
	broken := bytes.Replace(readAll(t, d, path), []byte(`"two"`), []byte(`"two,`), 1)
	broken = bytes.Replace(broken, []byte(`"note"`), []byte("\"no\x00e\""), 1)
	writeAll(t, d, path, broken)
	d = d.Crash(func(int) bool { return true })
	s = openOn(t, d)
	losses := verifyLosses(t, d, 40, func(after *disktest.Disk, when string) {
		s := openOn(t, after)
		mend(t, s, ref)
		got, err := readTexts(t, s, ref, session.LineQuery{})
		require.NoError(t, err, when)
		require.Equal(t, []string{"one", "Lines have been lost here.", "three", "four"}, got, when)
		require.Equal(t, end, lastPos(t, s, ref), when)
		kept := ""
		for name, b := range diskFiles(t, after, "/sessions/main") {
			if strings.Contains(name, ".torn.") {
				kept += string(b)
			}
		}
		require.Contains(t, kept, `"two,`, when)
		require.Contains(t, kept, "no\x00e", when)
	})
	assert.Len(t, mend(t, s, ref).Aside, 2)
	assert.GreaterOrEqual(t, *losses, 20)
}

// R10: a file whose first line cannot be written again is put aside as a whole. One that a newer
// version has written is left alone, and a View changes nothing.
func TestMendOfFirstLine(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "one")
	file(t, s, ref)
	const path = "/sessions/main/x.jsonl"
	whole := readAll(t, d, path)
	require.NoError(t, s.Close())

	short := whole[3:]
	writeAll(t, d, path, short)
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	_, err = v.Transcripts.(session.Mender).Mend(t.Context(), ref)
	require.ErrorIs(t, err, session.ErrReadOnly)
	require.NoError(t, v.Close())
	s = openOn(t, d)
	done := mend(t, s, ref)
	assert.Equal(t, session.Mended{Bytes: int64(len(short)), Aside: []string{path + ".torn.0"}}, done)
	assert.Equal(t, short, readAll(t, d, path+".torn.0"))
	assert.Empty(t, lineTexts(t, s, ref))
	appendTexts(t, s, ref, 0, "anew")
	require.NoError(t, s.Close())

	newer := bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":7`), 1)
	writeAll(t, d, path, newer)
	s = openOn(t, d)
	_, err = s.Transcripts.(session.Mender).Mend(t.Context(), ref)
	require.ErrorIs(t, err, session.ErrFormat)
	_, err = s.Transcripts.(session.Mender).Mend(t.Context(), session.Ref{})
	require.ErrorIs(t, err, session.ErrInvalidKey)
	assert.Equal(t, newer, readAll(t, d, path))
	require.NoError(t, s.Close())
	_, err = s.Transcripts.(session.Mender).Mend(t.Context(), ref)
	require.ErrorIs(t, err, session.ErrClosed)
	_, err = d.OpenFile(path, os.O_RDONLY)
	require.NoError(t, err)
}

// R10: Repair does not know whose transcript a file is. It keeps the lines that Mend keeps, which
// is told, whatever is done to the file, and to its first line above all.
func TestRepairKeepsWhatMendKeeps(t *testing.T) {
	c := newClosedStore(t)
	const name = "/sessions/main/s1.jsonl"
	whole, ref := c.files[name], testRef("s1")
	head := bytes.IndexByte(whole, '\n') + 1
	type change struct {
		b    []byte
		what string
	}
	var changes []change
	for at := range head {
		for _, to := range []byte{0, '\n', '{', whole[at] ^ 0x80} {
			b := bytes.Clone(whole)
			b[at] = to
			changes = append(changes, change{b, fmt.Sprintf("byte %d becomes %q", at, to)})
		}
	}
	zeros := append(make([]byte, head-1), whole[head-1:]...)
	torn := append(bytes.Clone(zeros), tornLine...)
	changes = append(changes, change{zeros, "zeros"}, change{torn, "zeros, and half a line"},
		change{append(bytes.Clone(zeros[:head]), tornLine...), "zeros, and nothing but half a line"},
		change{zeros[:head], "zeros, and nothing else"})
	rng := rand.New(rand.NewPCG(25, 26))
	for range mutations() / 4 {
		b, what := mutate(rng, whole)
		changes = append(changes, change{b, what})
	}
	kept, played := 0, 0
	for i := 0; i < len(changes); i = onward(i, 4) {
		played++
		x := changes[i]
		lines := func(mendIt func(*disktest.Disk)) (texts []string, end session.Pos) {
			d := c.withFile(t, name, x.b)
			mendIt(d)
			s := openOn(t, d)
			texts, err := readTexts(t, s, ref, session.LineQuery{})
			require.NoError(t, err, x.what)
			end = endOf(t, s, ref)
			appendTexts(t, s, ref, end, "on")
			on := append(slices.Clip(texts), "on")
			require.Equal(t, on, lineTexts(t, s, ref), x.what)
			_, err = s.Transcripts.Archive(t.Context(), ref, testTime)
			require.NoError(t, err, x.what)
			require.NotEmpty(t, s.Transcripts.Locate(ref), x.what)
			require.NoError(t, s.Close())
			return texts, end
		}
		var newer error
		want, wantEnd := lines(func(d *disktest.Disk) {
			s := openOn(t, d)
			_, newer = s.Transcripts.(session.Mender).Mend(t.Context(), ref)
			require.NoError(t, s.Close())
		})
		require.NoError(t, newer, x.what)
		got, end := lines(func(d *disktest.Disk) { repair(t, d, x.what) })
		require.Equal(t, want, got, x.what)
		require.Equal(t, wantEnd, end, x.what)
		if len(want) > 0 {
			kept++
		}
	}
	if !underRace { // else what is played is drawn
		require.Greater(t, kept, 4*head*3/4)
	}
	require.Positive(t, kept, "of %d", played)
}
