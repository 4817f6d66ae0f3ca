package dirstore_test

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// newDamageable returns a disk with two trees of three batches, of which the second is idle, and a
// transcript of three lines. It returns the paths of the files by what they are.
func newDamageable(t *testing.T) (*disktest.Disk, map[string]string) {
	t.Helper()
	d := disktest.New()
	s := openOn(t, d)
	for i, due := range []time.Time{testTime, {}} {
		for n := range session.Seq(3) {
			b := batchOf(due, false, strings.Repeat("fact", 20))
			_, err := s.Journal.Append(t.Context(), treeKey(i), n, b)
			require.NoError(t, err)
		}
	}
	pos := session.Pos(0)
	for _, text := range []string{"one", "two", "three"} {
		pos = appendTexts(t, s, testRef("x"), pos, strings.Repeat(text, 50))
	}
	require.NoError(t, dirstore.Compact(s))
	require.NoError(t, s.Close())
	names := map[string]string{"transcript": "/sessions/main/x.jsonl", "mark": "/journal/closed.wal"}
	for name := range diskFiles(t, d, "/journal") {
		switch {
		case strings.HasPrefix(name, "/journal/0"):
			names["log"] = name
		case path.Base(path.Dir(name)) == "members":
			names["members"] = name
		case path.Dir(name) != "/journal":
			names["idle"] = name
		}
	}
	require.Len(t, names, 5)
	return d, names
}

// R10: what a repair does to each kind of file after each kind of damage, and what it says.
func TestRepairSaysWhatIsLost(t *testing.T) {
	d, names := newDamageable(t)
	flip := func(part string) func([]byte) []byte {
		return func(b []byte) []byte {
			at := bytes.Index(b, []byte(part))
			if part == "last" {
				at = bytes.LastIndex(b, []byte("fact")) + 1
			}
			b[at] ^= 0x80
			return b
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	empty := func([]byte) []byte { return nil }
	for name, test := range map[string]struct {
		file    string
		damage  func([]byte) []byte // nil: the file is removed
		want    dirstore.RepairedFile
		kept    []int // of the two trees, and the lines of the transcript
		unknown bool  // what else the log had
		missing bool
	}{
		"a batch of the log":     {file: "log", damage: flip("fact"), kept: []int{0, 3, 3}, unknown: true},
		"the end of the log":     {file: "log", damage: flip("last"), kept: []int{2, 3, 3}, unknown: true},
		"half of the log":        {file: "log", damage: half, kept: []int{1, 3, 3}, unknown: true},
		"all of the log":         {file: "log", damage: empty, kept: []int{0, 3, 3}, unknown: true},
		"the log is gone":        {file: "log", kept: []int{0, 3, 3}, unknown: true, missing: true},
		"the mark":               {file: "mark", damage: half, kept: []int{3, 3, 3}},
		"a batch of an idle log": {file: "idle", damage: flip("fact"), kept: []int{3, 0, 3}},
		"half of an idle log":    {file: "idle", damage: half, kept: []int{3, 1, 3}},
		"all of an idle log":     {file: "idle", damage: empty, kept: []int{3, 0, 3}, unknown: true},
		"an entry of the index":  {file: "members", damage: flip("\x00\x00"), kept: []int{3, 3, 3}},
		"half of the index":      {file: "members", damage: half, kept: []int{3, 3, 3}},
		"all of the index":       {file: "members", damage: empty, kept: []int{3, 3, 3}},
		"a first line": {
			file: "transcript", damage: flip("version"), kept: []int{3, 3, 3},
			want: dirstore.RepairedFile{Transcript: true},
		},
		"a line": {
			file: "transcript", damage: flip("twotwo"), kept: []int{3, 3, 3},
			want: dirstore.RepairedFile{Transcript: true, Lines: 1},
		},
		"two lines": {
			file: "transcript", damage: func(b []byte) []byte { return flip("twotwo")(flip("three")(b)) },
			kept: []int{3, 3, 2}, want: dirstore.RepairedFile{Transcript: true, Lines: 2},
		},
		"a transcript is empty": {
			file: "transcript", damage: empty, kept: []int{3, 3, 0},
			want: dirstore.RepairedFile{Transcript: true, Whole: true},
		},
		"half of a first line": {
			file: "transcript", damage: func(b []byte) []byte { return b[:40] }, kept: []int{3, 3, 0},
			want: dirstore.RepairedFile{Transcript: true, Whole: true},
		},
	} {
		d := d.Crash(func(int) bool { return true })
		file := names[test.file]
		if test.damage == nil {
			require.NoError(t, d.Remove(file))
		} else {
			writeAll(t, d, file, test.damage(slices.Clone(readAll(t, d, file))))
		}
		done := repair(t, d, name)
		require.Len(t, done.Files, 1, name)
		got := done.Files[0]
		require.Equal(t, file, "/"+got.Path, name)
		require.ErrorIs(t, got.Err, session.ErrCorrupt, name)
		require.Equal(t, test.missing, len(got.Aside) == 0, name)
		for _, aside := range got.Aside {
			require.True(t, fileExists(d, "/"+aside), name)
		}
		require.Equal(t, test.unknown, slices.Equal(done.Unknown, []string{got.Path}), name)
		require.Equal(t, test.unknown, len(done.Unknown) > 0, name)
		require.Equal(t, test.want, dirstore.RepairedFile{
			Transcript: got.Transcript, Lines: got.Lines, Whole: got.Whole,
		}, name)
		s := openOn(t, d)
		var kept []int
		for i := range 2 {
			log, err := readLog(t.Context(), s.Journal, treeKey(i))
			require.NoError(t, err, name)
			kept = append(kept, len(log.texts))
			if log.texts != nil {
				member := memberKey(strings.Repeat("fact", 20))
				want := session.Head{Root: treeKey(i), Last: log.last()}
				if i == 0 {
					want.Due = testTime
				}
				wantMember(t, s, member, want, name)
			}
		}
		require.Equal(t, test.kept, append(kept, len(lineTexts(t, s, testRef("x")))), name)
		told := make(map[session.Key]int)
		for _, lost := range done.Trees {
			told[lost.Root] = int(lost.Kept)
		}
		for i := range 2 {
			was, ok := told[treeKey(i)]
			right := !ok && (kept[i] == 3 || test.unknown)
			require.True(t, right || ok && was == kept[i] && was < 3, "%s: %v", name, done.Trees)
		}
		require.NoError(t, s.Close())
	}
}
