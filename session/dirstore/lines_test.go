package dirstore_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// fileOf returns the path of the file of a transcript on a disk whose root is the directory.
func fileOf(ref session.Ref) string {
	return filepath.Join("/sessions", ref.Key.Agent(), dirstore.TranscriptNames(ref)[0])
}

// texts returns what each of the transcripts has.
func texts(t *testing.T, s *session.Store, refs ...session.Ref) (all [][]string) {
	t.Helper()
	for _, ref := range refs {
		all = append(all, lineTexts(t, s, ref))
	}
	return all
}

// A linesRun is a program whose lines go through the log, to their files, out of the log and into
// it again.
type linesRun struct {
	texts   map[session.Ref][]string // durable
	carried map[session.Ref][]string // acknowledged, and durable with the next batch
	ref     session.Ref              // of the append under way
	maybe   []string                 // its texts
}

func newLinesRun() *linesRun {
	return &linesRun{
		texts: make(map[session.Ref][]string), carried: make(map[session.Ref][]string),
	}
}

// settle notes that what was carried to a transcript is durable.
func (r *linesRun) settle(ref session.Ref) {
	r.texts[ref] = append(r.texts[ref], r.carried[ref]...)
	delete(r.carried, ref)
}

// linesRefs are transcripts of which two have the same session id.
var linesRefs = []session.Ref{
	{Key: session.Must(session.NamedKey("main", "a")), SessionID: "one"},
	{Key: session.Must(session.NamedKey("main", "b")), SessionID: "one"},
	{Key: session.Must(session.NamedKey("other", "c")), SessionID: "two"},
}

// lives are what the program does: the number of a transcript appends to it, the letter of that
// number appends to it with the next batch of a tree, t writes that batch, f has the lines written
// to their files, c compacts the log.
var linesLives = []string{"0f01c1t2", "f1tc20", "A0Bt1BfBtAcA", "AA0tBC"}

func (r *linesRun) run(t *testing.T, d *disktest.Disk) error {
	var seq session.Seq
	for life, steps := range linesLives {
		s, err := dirstore.OpenOn(d, "/")
		if err != nil {
			return err
		}
		for i, step := range steps {
			switch step {
			case 'f':
				for _, ref := range linesRefs {
					s.Transcripts.Locate(ref)
				}
			case 'c':
				err = dirstore.Compact(s)
			case 't':
				seq, err = s.Journal.Append(t.Context(), treeKey(1), seq, benchBatch())
				if err == nil {
					r.settleAll()
				}
			default:
				text := fmt.Sprintf("%d-%d %s", life, i, strings.Repeat("long ", 100*(life%2)))
				err = r.append(t, s, step, text)
			}
			if err != nil {
				return err
			}
		}
		if err := s.Close(); err != nil {
			return err
		}
		r.settleAll()
	}
	return nil
}

func (r *linesRun) settleAll() {
	for ref := range r.carried {
		r.settle(ref)
	}
}

func (r *linesRun) append(t *testing.T, s *session.Store, step rune, text string) error {
	n, withBatch := step-'0', step >= 'A'
	if withBatch {
		n = step - 'A'
	}
	ref := linesRefs[n]
	var end session.Pos
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{Last: 1}) {
		if err != nil {
			return err
		}
		end = line.Pos
	}
	r.ref, r.maybe = ref, []string{text, "and more"}
	var err error
	if withBatch {
		_, err = s.Transcripts.(session.Carrier).AppendWith(t.Context(), treeKey(1), ref, end,
			userMessages(r.maybe...)...)
	} else {
		_, err = s.Transcripts.Append(t.Context(), ref, end, userMessages(r.maybe...)...)
	}
	if err == nil {
		r.carried[ref] = append(r.carried[ref], r.maybe...)
		r.maybe = nil
	}
	if err == nil && !withBatch {
		r.settle(ref)
	}
	return err
}

// verify fails unless a disk has each acknowledged line once, and perhaps those of the append under
// way, and has them still after a second loss of power.
func (r *linesRun) verify(t *testing.T, d *disktest.Disk, when string) {
	t.Helper()
	var viewed [][]string
	if v, err := dirstore.ViewOn(d, "/"); err == nil {
		viewed = texts(t, v, linesRefs...)
		require.NoError(t, v.Close())
	} else {
		require.ErrorIs(t, err, fs.ErrNotExist, when)
		require.Empty(t, r.texts, when)
		viewed = [][]string{{}, {}, {}}
	}
	s, err := dirstore.OpenOn(d, "/")
	require.NoError(t, err, when)
	got := texts(t, s, linesRefs...)
	require.Equal(t, got, viewed, when)
	for i, ref := range linesRefs {
		want := append([]string{}, r.texts[ref]...)
		require.GreaterOrEqual(t, len(got[i]), len(want), "%s: %v", when, ref)
		extra := got[i][len(want):]
		require.Equal(t, want, got[i][:len(want):len(want)], "%s: %v", when, ref)
		may := slices.Clone(r.carried[ref])
		if ref == r.ref {
			may = append(may, r.maybe...)
		}
		require.Equal(t, append([]string{}, may[:min(len(extra), len(may))]...),
			append([]string{}, extra...), "%s: %v", when, ref)
	}
	again := openOn(t, afterCrash(d))
	require.Equal(t, got, texts(t, again, linesRefs...), when)
	end := session.Pos(0)
	if len(got[0]) > 0 {
		end = lastPos(t, again, linesRefs[0])
	}
	appendTexts(t, again, linesRefs[0], end, "on")
	require.NoError(t, again.Close(), when)
	for f, err := range dirstore.VerifyOn(t.Context(), d, "/") {
		require.NoError(t, err, "%s: %s", when, f.Path)
	}
}

// Lines that the log has acknowledged survive a loss of power before any operation, once each:
// while they are in the log alone, while they are written to their files, and while a compaction
// drops their frames.
func TestLinesSurvivePowerLoss(t *testing.T) {
	d := disktest.New()
	r := newLinesRun()
	losses := verifyLosses(t, d, 10,
		func(after *disktest.Disk, when string) { r.verify(t, after, when) })
	require.NoError(t, r.run(t, d))
	assert.Greater(t, *losses, 200)
}

// Lines that the log has acknowledged survive a failure of any operation.
func TestLinesSurviveFaults(t *testing.T) {
	verifyFaults(t, func() faultRun { return newLinesRun() })
}

// Lines reach their file about a second after their append, and are whole in it after Close. The
// goroutine that writes them ends with the store.
func TestLinesReachTheirFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s, err := dirstore.OpenTimedOn(d, "/")
		require.NoError(t, err)
		ref := testRef("x")
		end := appendTexts(t, s, ref, 0, "first")
		require.False(t, fileExists(d, fileOf(ref)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, string(readAll(t, d, fileOf(ref))), `"first"`)
		appendTexts(t, s, ref, end, "second")
		require.NotContains(t, string(readAll(t, d, fileOf(ref))), `"second"`)
		require.NoError(t, s.Close())
		require.Contains(t, string(readAll(t, afterCrash(d), fileOf(ref))), `"second"`)
	})
}

// A file that another program has cut off keeps what it has: the lines of the log that do not join
// it are put beside it, and Repair and the next Open go on.
func TestLinesThatDoNotJoinAreKept(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	end := appendTexts(t, s, ref, 0, "first")
	require.NoError(t, s.Close())
	s = openOn(t, d)
	appendTexts(t, s, ref, appendTexts(t, s, ref, end, "in the file"), "second")
	d = afterCrash(d)
	whole := readAll(t, d, fileOf(ref))
	f, err := d.OpenFile(fileOf(ref), os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(whole)-10)))
	s = openOn(t, d)
	appendTextsAtEnd(t, s, ref, "third")
	var beside string
	entries, err := d.ReadDir("/sessions/main")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".torn") {
			beside += string(readAll(t, d, filepath.Join("/sessions/main", e.Name())))
		}
	}
	assert.Contains(t, beside, `"second"`)
	assert.NotContains(t, lineTexts(t, s, ref), "second")
}

// What another program has written where lines of the log belong is put beside the file.
func TestForeignBytesInPlaceOfLinesAreKept(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "first")
	whole := readAll(t, d, s.Transcripts.Locate(ref))
	foreign := strings.ReplaceAll(string(whole), "first", "other")
	writeAll(t, d, fileOf(ref), []byte(foreign))
	s = openOn(t, d)
	require.Equal(t, []string{"first"}, lineTexts(t, s, ref))
	at := strings.Index(foreign, "other")
	torn := fmt.Sprintf("%s.torn.%d", fileOf(ref), at)
	require.Equal(t, foreign[at:], string(readAll(t, d, torn)))
	appendTextsAtEnd(t, s, ref, "on")
	require.Equal(t, []string{"first", "on"}, lineTexts(t, openOn(t, afterCrash(d)), ref))
}

// Appends fail while lines cannot be written to their files, and say why. They go on when they can.
func TestAppendsFailWhileFilesCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := disktest.New()
		s, err := dirstore.OpenTimedOn(d, "/")
		require.NoError(t, err)
		ref := testRef("x")
		end := appendTexts(t, s, ref, 0, "first")
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpWrite && strings.HasPrefix(op.Name, "/sessions") {
				return errDiskFull
			}
			return nil
		})
		end = appendTexts(t, s, ref, end, "taken by the log")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, s.Health(t.Context()), errDiskFull)
		for range 3 {
			_, err = s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
			require.ErrorIs(t, err, errDiskFull)
		}
		d.Hook(nil)
		time.Sleep(2 * time.Second)
		require.NoError(t, s.Health(t.Context()))
		appendTexts(t, s, ref, end, "after")
		require.NoError(t, s.Close())
		again := openOn(t, afterCrash(d))
		require.Equal(t, []string{"first", "taken by the log", "after"}, lineTexts(t, again, ref))
	})
}

// appendTextsAtEnd appends messages behind what a transcript has.
func appendTextsAtEnd(t *testing.T, s *session.Store, ref session.Ref, texts ...string) {
	t.Helper()
	var end session.Pos
	for line, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{Last: 1}) {
		require.NoError(t, err)
		end = line.Pos
	}
	appendTexts(t, s, ref, end, texts...)
}

// What is done to the file of a transcript as a whole is done to all of its lines, and the log does
// not bring any of them back.
func TestLinesAreGroundedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, s *session.Store, ref session.Ref) error
		want []string
	}{
		"archive": {func(t *testing.T, s *session.Store, ref session.Ref) error {
			_, err := s.Transcripts.Archive(t.Context(), ref, testTime)
			return err
		}, []string{"first", "second"}},
		"archive and restore": {func(t *testing.T, s *session.Store, ref session.Ref) error {
			if _, err := s.Transcripts.Archive(t.Context(), ref, testTime); err != nil {
				return err
			}
			return s.Transcripts.Restore(t.Context(), ref)
		}, []string{"first", "second"}},
		"archive and remove": {func(t *testing.T, s *session.Store, ref session.Ref) error {
			if _, err := s.Transcripts.Archive(t.Context(), ref, testTime); err != nil {
				return err
			}
			return s.Transcripts.Remove(t.Context(), ref)
		}, []string{}},
		"a long append": {func(t *testing.T, s *session.Store, ref session.Ref) error {
			appendTextsAtEnd(t, s, ref, strings.Repeat("long ", 40_000))
			return nil
		}, []string{"first", "second", strings.Repeat("long ", 40_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			ref := testRef("x")
			appendTexts(t, s, ref, 0, "first", "second")
			require.NoError(t, c.do(t, s, ref))
			d = afterCrash(d)
			s = openOn(t, d)
			got, archived := archivedTexts(t, s, ref)
			require.Equal(t, name == "archive", archived)
			require.Equal(t, c.want, got)
			if archived {
				return
			}
			appendTextsAtEnd(t, s, ref, "on")
			require.Equal(t, append(got, "on"), lineTexts(t, openOn(t, afterCrash(d)), ref))
		})
	}
}

// A log that is never compacted for its trees is compacted for the lines in it, so that it does not
// grow with every line that there ever was.
func TestLogIsCompactedForLines(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	line := strings.Repeat("x", 50_000)
	var end session.Pos
	for range 400 {
		end = appendTexts(t, s, ref, end, line)
	}
	dirstore.WaitForCompaction(s)
	size, _ := dirstore.LogSize(s)
	require.Less(t, size, int64(10<<20), "of 20 MB of lines")
	require.Len(t, lineTexts(t, openOn(t, afterCrash(d)), ref), 400)
}

// Lines that wait for a batch when another program removes their file are put beside it, once.
func TestCarriedLinesOfARemovedFileAreKept(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := linesRefs[0]
	end := appendTexts(t, s, ref, 0, "first")
	require.NoError(t, s.Close())
	s = openOn(t, d)
	end = appendTexts(t, s, ref, end, "in the file")
	_, err := s.Transcripts.(session.Carrier).AppendWith(t.Context(), treeKey(1), ref, end,
		userMessages("second")...)
	require.NoError(t, err)
	require.NoError(t, d.Remove(fileOf(ref)))
	require.NoError(t, d.SyncDir("/sessions/main"))
	for _, err := range s.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.Empty(t, lineTexts(t, s, ref))
	_, err = s.Journal.Append(t.Context(), treeKey(1), 0, benchBatch())
	require.NoError(t, err)
	d = afterCrash(d)
	require.NoError(t, openOn(t, d).Close())
	var beside []string
	for name, b := range diskFiles(t, d, "/sessions") {
		if strings.Contains(string(b), "second") {
			beside = append(beside, name)
		}
	}
	require.Len(t, beside, 1)
	require.Contains(t, beside[0], ".torn")
}

// Lines that a batch was to carry which the disk has not taken go with the next one.
func TestCarriedLinesOutliveAFailedBatch(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := linesRefs[0]
	_, err := s.Transcripts.(session.Carrier).AppendWith(t.Context(), treeKey(1), ref, 0,
		userMessages("first")...)
	require.NoError(t, err)
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpWrite {
			return errDiskFull
		}
		return nil
	})
	_, err = s.Journal.Append(t.Context(), treeKey(1), 0, benchBatch())
	require.ErrorIs(t, err, errDiskFull)
	d.Hook(nil)
	require.Equal(t, []string{"first"}, lineTexts(t, s, ref))
	_, err = s.Journal.Append(t.Context(), treeKey(1), 0, benchBatch())
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, lineTexts(t, openOn(t, afterCrash(d)), ref))
}

// The names of all files of a directory become durable with one sync of it.
func TestFilesShareTheSyncOfTheirDirectory(t *testing.T) {
	d := disktest.New()
	s, err := dirstore.OpenTimedOn(d, "/")
	require.NoError(t, err)
	var refs []session.Ref
	for i := range 30 {
		refs = append(refs, testRef(fmt.Sprint("chat", i)))
		appendTexts(t, s, refs[i], 0, "a line")
	}
	syncs := 0
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir && op.Name == "/sessions/main" {
			syncs++
		}
		return nil
	})
	require.NoError(t, dirstore.Compact(s))
	require.Equal(t, 1, syncs)
	d.Hook(nil)
	after := openOn(t, afterCrash(d))
	for _, ref := range refs {
		require.Equal(t, []string{"a line"}, lineTexts(t, after, ref))
	}
	require.NoError(t, s.Close())
}

// What comes to a transcript while the directory of its file is synced stays in the log: lines that
// wait for their file, and lines that are in it and not synced.
func TestLinesThatComeDuringASyncOfTheirDirectory(t *testing.T) {
	for _, inFile := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the file %t", inFile), func(t *testing.T) {
			d := disktest.New()
			s := openOn(t, d)
			ref := testRef("chat")
			end := appendTexts(t, s, ref, 0, "before")
			came := false
			d.Hook(func(op disktest.Op) error {
				if op.Kind == disktest.OpSyncDir && op.Name == "/sessions/main" && !came {
					came = true
					runApart(func() {
						appendTexts(t, s, ref, end, "meanwhile")
						if inFile {
							file(t, s, ref)
						}
					})
				}
				return nil
			})
			require.NoError(t, dirstore.Compact(s))
			require.True(t, came)
			d.Hook(nil)
			want := []string{"before", "meanwhile"}
			require.Equal(t, want, lineTexts(t, openOn(t, afterCrash(d)), ref))
			synced := 0
			d.Hook(func(op disktest.Op) error {
				if op.Kind == disktest.OpSync && op.Name == fileOf(ref) {
					synced++
				}
				return nil
			})
			require.NoError(t, dirstore.Compact(s))
			d.Hook(nil)
			require.Equal(t, 1, synced, "they are settled with the next compaction")
			require.Equal(t, want, lineTexts(t, openOn(t, afterCrash(d)), ref))
		})
	}
}

// The lines of a file whose directory could not be synced stay in the log.
func TestDirectoryThatCannotBeSynced(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("chat")
	appendTexts(t, s, ref, 0, "a line")
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSyncDir && op.Name == "/sessions/main" {
			return errDiskFull
		}
		return nil
	})
	require.NoError(t, dirstore.Compact(s))
	require.ErrorIs(t, s.Health(t.Context()), errDiskFull)
	d.Hook(nil)
	require.Equal(t, []string{"a line"}, lineTexts(t, openOn(t, afterCrash(d)), ref))
}
