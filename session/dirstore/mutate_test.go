package dirstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// mutations returns how many random changes a test makes: 200, or OFFSHOOT_MUTATIONS.
func mutations() int {
	n, _ := strconv.Atoi(os.Getenv("OFFSHOOT_MUTATIONS"))
	if n == 0 {
		n = 200
	}
	return n
}

// diskFiles returns the content of every file on a disk by its path.
func diskFiles(t *testing.T, d *disktest.Disk, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	entries, err := d.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		if e.IsDir() {
			maps.Copy(files, diskFiles(t, d, name))
		} else {
			files[name] = readAll(t, d, name)
		}
	}
	return files
}

// A closedStore is a store that was closed, and what it had.
type closedStore struct {
	disk  *disktest.Disk
	files map[string][]byte
	trees map[session.Key]*modelLog
	were  map[session.Key][][]string // the texts of each tree after each of its batches
	lines map[session.Ref][]string
}

// newClosedStore returns a store with trees in the log and in idle logs, and with transcripts.
func newClosedStore(t *testing.T) *closedStore {
	t.Helper()
	c := &closedStore{
		disk: disktest.New(), trees: make(map[session.Key]*modelLog),
		were: make(map[session.Key][][]string), lines: make(map[session.Ref][]string),
	}
	rng := rand.New(rand.NewPCG(9, 10))
	last := make(map[session.Key]session.Seq)
	for life := range 3 {
		s := openOn(t, c.disk)
		for i := range 60 {
			root := treeKey(rng.IntN(12))
			due := testTime
			if rng.IntN(3) == 0 {
				due = time.Time{}
			}
			text := fmt.Sprint(life, " ", i, strings.Repeat(" and on", rng.IntN(20)))
			b := batchOf(due, last[root] > 0 && rng.IntN(8) == 0, text, "x", "y")
			b.Entries = b.Entries[:1+rng.IntN(3)]
			var err error
			last[root], err = s.Journal.Append(t.Context(), root, last[root], b)
			require.NoError(t, err)
			now, err := readLog(t.Context(), s.Journal, root)
			require.NoError(t, err)
			c.were[root] = append(c.were[root], now.texts)
		}
		if life == 1 {
			require.NoError(t, dirstore.Compact(s))
		}
		for i := range 4 {
			ref := testRef(fmt.Sprint("s", i))
			if life == 0 {
				c.lines[ref] = nil
			}
			pos := session.Pos(0)
			if life > 0 {
				pos = lastPos(t, s, ref)
			}
			for n := range 5 {
				texts := []string{fmt.Sprint(life, n, strings.Repeat(" said", rng.IntN(9))), "ok"}
				pos = appendTexts(t, s, ref, pos, texts...)
				c.lines[ref] = append(c.lines[ref], texts...)
			}
		}
		for root := range last {
			var err error
			c.trees[root], err = readLog(t.Context(), s.Journal, root)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
	c.files = diskFiles(t, c.disk, "/")
	return c
}

// mutate changes bytes: it cuts some out, inserts or repeats some, overwrites some, exchanges two
// parts, or cuts off the end.
func mutate(rng *rand.Rand, b []byte) (out []byte, what string) {
	at := rng.IntN(len(b))
	n := min(1+rng.IntN(1<<rng.IntN(10)), len(b)-at)
	other := rng.IntN(len(b) - n + 1)
	some := slices.Clone(b[other : other+n])
	if rng.IntN(2) == 0 {
		for i := range some {
			some[i] = byte(rng.Uint32())
		}
	}
	switch rng.IntN(7) {
	case 0:
		out, what = slices.Concat(b[:at], b[at+n:]), "cut"
	case 1:
		out, what = slices.Concat(b[:at], some, b[at:]), "inserted"
	case 2:
		out, what = slices.Concat(b[:at+n], b[at:]), "repeated"
	case 3:
		out, what = slices.Concat(b[:at], some, b[at+n:]), "overwritten"
	case 4:
		out, what = slices.Clone(b[:at]), "and all behind them cut off"
	case 5:
		out, what = slices.Clone(b), "of zeros"
		clear(out[at : at+n])
	case 6:
		out, what = slices.Clone(b), "with one bit changed"
		out[at] ^= 1 << rng.IntN(8)
	}
	return out, fmt.Sprintf("%d bytes at %d %s", n, at, what)
}

// withFile returns the disk with another content of one file.
func (c *closedStore) withFile(t *testing.T, name string, b []byte) *disktest.Disk {
	t.Helper()
	d := c.disk.Crash(func(int) bool { return true })
	writeAll(t, d, name, b)
	return d
}

// requirePlace fails unless an error names a file and an offset in it.
func requirePlace(t *testing.T, err error, what string) {
	t.Helper()
	var corrupt *session.CorruptError
	if errors.Is(err, session.ErrFormat) {
		return // a version byte was changed: the error names the file and the version
	}
	require.ErrorAs(t, err, &corrupt, what)
	require.NotEmpty(t, corrupt.File, what)
	require.GreaterOrEqual(t, corrupt.Offset, int64(0), what)
}

// verifyTrees fails unless each tree is complete or refused. It returns how many are refused.
func (c *closedStore) verifyTrees(t *testing.T, s *session.Store, what string) (refused int) {
	t.Helper()
	for root, want := range c.trees {
		got, err := readLog(t.Context(), s.Journal, root)
		if err != nil {
			requirePlace(t, err, what)
			refused++
			continue
		}
		require.Equal(t, want.texts, got.texts, "%s: %s", what, root)
		require.Equal(t, want.first, got.first, what)
	}
	return refused
}

// R2: whatever is done to the bytes of a closed log, opening it loses nothing or is refused with
// the file and the offset. OFFSHOOT_MUTATIONS says how many changes are tried.
func TestChangedLogIsRefusedOrComplete(t *testing.T) {
	c := newClosedStore(t)
	const name = "/journal/00000002.wal"
	require.Contains(t, c.files, name)
	rng := rand.New(rand.NewPCG(11, 12))
	refused := 0
	for range mutations() {
		b, what := mutate(rng, c.files[name])
		d := c.withFile(t, name, b)
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			refused++
			requirePlace(t, err, what)
			require.Equal(t, b, readAll(t, d, name), "%s: the file stays as it is", what)
			continue
		}
		require.Zero(t, c.verifyTrees(t, s, what))
		require.NoError(t, s.Close())
		_, err = dirstore.ViewOn(c.withFile(t, name, b), "/")
		require.NoError(t, err, what)
	}
	t.Logf("%d of %d refused", refused, mutations())
}

// R2: whatever is done to the bytes of another file of a closed store, each tree and transcript is
// complete or refused with the file and the offset. Two changes of a transcript are told by its
// length alone, which the journal knows: an end that is cut off or that has become zeros. A third
// cannot be told: other letters within a line, also where they make one line of two.
func TestChangedFilesAreRefusedOrComplete(t *testing.T) {
	c := newClosedStore(t)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.files)), func(name string) bool {
		return name == "/journal/00000002.wal"
	})
	require.Contains(t, names, "/journal/closed.wal")
	require.Contains(t, names, "/sessions/main/s0.jsonl")
	require.True(t, slices.ContainsFunc(names, func(n string) bool {
		return strings.Contains(n, "/idle/")
	}))
	rng := rand.New(rand.NewPCG(13, 14))
	refused := 0
	for i := range mutations() {
		name := names[i%len(names)]
		b, what := mutate(rng, c.files[name])
		what = name + ": " + what
		s, err := dirstore.OpenOn(c.withFile(t, name, b), "/")
		require.NoError(t, err, what)
		bad := c.verifyTrees(t, s, what)
		require.LessOrEqual(t, bad, 1, what)
		for ref, want := range c.lines {
			got, err := readTexts(t, s, ref, session.LineQuery{})
			switch mine := strings.HasSuffix(name, "/"+ref.SessionID+".jsonl"); {
			case err != nil:
				require.True(t, mine, what)
				requirePlace(t, err, what)
				bad++
			case !mine:
				require.Equal(t, want, got, what)
			case len(got) > 0 && lastPos(t, s, ref) == session.Pos(len(c.files[name])):
				wholeLines(t, c.files[name], b, want, got, what)
			}
		}
		require.NoError(t, s.Close())
		if bad > 0 {
			refused++
		}
	}
	t.Logf("%d of %d refused", refused, mutations())
}

// wholeLines fails unless the texts of all lines that were not changed were read.
func wholeLines(t *testing.T, before, after []byte, want, got []string, what string) {
	t.Helper()
	now := bytes.Split(after, []byte("\n"))
	for i, line := range bytes.Split(before, []byte("\n"))[1:] {
		unchanged := slices.ContainsFunc(now, func(l []byte) bool { return bytes.Equal(l, line) })
		if i < len(want) && unchanged {
			require.Contains(t, got, want[i], what)
		}
	}
}
