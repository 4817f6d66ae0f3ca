package dirstore_test

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A protectedDisk is a disk that a test can make read-only at any time.
type protectedDisk struct {
	*disktest.Disk
	on atomic.Bool
}

func (p *protectedDisk) check(op, name string) error {
	if p.on.Load() {
		return &fs.PathError{Op: op, Path: name, Err: errDiskReadOnly}
	}
	return nil
}

func (p *protectedDisk) OpenFile(name string, flag int) (disk.File, error) {
	if flag != os.O_RDONLY {
		if err := p.check("open", name); err != nil {
			return nil, err
		}
	}
	return p.Disk.OpenFile(name, flag)
}

func (p *protectedDisk) Mkdir(name string) error {
	if err := p.check("mkdir", name); err != nil {
		return err
	}
	return p.Disk.Mkdir(name)
}

func (p *protectedDisk) Rename(from, to string) error {
	if err := p.check("rename", from); err != nil {
		return err
	}
	return p.Disk.Rename(from, to)
}

func (p *protectedDisk) Remove(name string) error {
	if err := p.check("remove", name); err != nil {
		return err
	}
	return p.Disk.Remove(name)
}

const (
	tornLine  = `{"role":"user","te`
	tornLines = `{"role":"us` + "\x00\x00\x00" + `er"}` + "\n" + tornLine // a part has not reached the disk
)

// appendBytes appends the remains of a crash to the file of a transcript.
func appendBytes(t *testing.T, d *disktest.Disk, path, text string) {
	t.Helper()
	writeAll(t, d, path, append(readAll(t, d, path), text...))
}

// Transcripts of a read-only disk can be read, also behind the remains of a crash. Writes return
// the error of the disk, and succeed when it is writable.
func TestReadOnlyDiskCanBeRead(t *testing.T) {
	for _, text := range []string{"", tornLine, tornLines} {
		p := &protectedDisk{Disk: disktest.New()}
		s, err := dirstore.OpenOn(p, "/")
		require.NoError(t, err)
		ref, old := testRef("x"), testRef("old")
		end := appendTexts(t, s, ref, 0, "one", "two")
		appendTexts(t, s, old, 0, "gone")
		_, err = s.Transcripts.Archive(t.Context(), old, testTime)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		path := "/sessions/main/x.jsonl"
		appendBytes(t, p.Disk, path, text)
		before := readAll(t, p.Disk, path)

		s, err = dirstore.OpenOn(p, "/")
		require.NoError(t, err)
		p.on.Store(true)
		for range 2 {
			assert.Equal(t, []string{"one", "two"}, lineTexts(t, s, ref))
			assert.Equal(t, path, s.Transcripts.Locate(ref))
			assert.NotEmpty(t, s.Transcripts.Locate(old))
			_, err = s.Transcripts.Append(t.Context(), ref, end, userMessages("lost")...)
			require.ErrorIs(t, err, errDiskReadOnly)
			assert.ErrorContains(t, err, path)
			_, err = s.Transcripts.Append(t.Context(), ref, 0, userMessages("lost")...)
			require.ErrorIs(t, err, session.ErrConflict, "the conflict is known without a write")
			fresh := session.Ref{Key: session.Must(session.MainKey("new")), SessionID: "x"}
			_, err = s.Transcripts.Append(t.Context(), fresh, 0, userMessages("lost")...)
			require.ErrorIs(t, err, errDiskReadOnly)
			_, err = s.Transcripts.Archive(t.Context(), ref, testTime)
			require.ErrorIs(t, err, errDiskReadOnly)
		}
		assert.Equal(t, before, readAll(t, p.Disk, path))
		p.on.Store(false)
		appendTexts(t, s, ref, end, "three")
		assert.Equal(t, []string{"one", "two", "three"}, lineTexts(t, s, ref))
		assert.NotContains(t, string(readAll(t, p.Disk, path)), "\x00")
		assert.Equal(t, text == tornLines, fileExists(p.Disk, "/sessions/main/x.jsonl.torn."+posText(end)), "possible lines are saved")
		require.NoError(t, s.Close())
	}
}

// posText returns a position as a .torn file has it in its name.
func posText(p session.Pos) string { return fmt.Sprint(uint64(p)) }

// An archived transcript does not have the remains of a crash.
func TestArchiveCutsOffRemainsOfCrash(t *testing.T) {
	for _, text := range []string{tornLine, tornLines} {
		d := disktest.New()
		s := openOn(t, d)
		ref := testRef("x")
		end := appendTexts(t, s, ref, 0, "one")
		require.NoError(t, s.Close())
		path := "/sessions/main/x.jsonl"
		whole := readAll(t, d, path)
		appendBytes(t, d, path, text)
		s = openOn(t, d)
		cut := false
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpTruncate {
				cut = true
				after := afterCrash(d)
				assert.Equal(t, text == tornLines, fileExists(after, "/sessions/main/x.jsonl.torn."+posText(end)), "the saved lines are durable before the cut")
			}
			return nil
		})
		name, err := s.Transcripts.Archive(t.Context(), ref, testTime)
		require.NoError(t, err)
		assert.True(t, cut)
		assert.Equal(t, whole, readAll(t, afterCrash(d), "/sessions/main/"+name))
		if text == tornLines {
			assert.Equal(t, text, string(readAll(t, d, "/sessions/main/x.jsonl.torn."+posText(end))))
		}
	}
}

// The first transcript that a process creates removes the temporary files of dead processes. A View
// leaves them alone.
func TestTemporaryTranscriptsAreRemoved(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := testRef("x")
	appendTexts(t, s, ref, 0, "one")
	require.NoError(t, s.Close())
	dead, others := "/sessions/main/y.jsonl.tmp", "/sessions/main/notes.tmp"
	writeAll(t, d, dead, []byte(`{"role":"note","disc`))
	writeAll(t, d, others, []byte("of a person"))
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	assert.Empty(t, v.Transcripts.Locate(testRef("y")))
	assert.True(t, fileExists(d, dead))
	require.NoError(t, v.Close())
	s = openOn(t, d)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, ref))
	appendTexts(t, s, testRef("z"), 0, "two")
	assert.False(t, fileExists(d, dead))
	assert.True(t, fileExists(d, others))
	require.NoError(t, s.Close())
}

// A transcript that is being created survives a lookup of another one.
func TestLookupKeepsTranscriptBeingCreated(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	old, ref := testRef("old"), testRef("x")
	appendTexts(t, s, old, 0, "gone")
	_, err := s.Transcripts.Archive(t.Context(), old, testTime)
	require.NoError(t, err)
	looked := false
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync && !looked {
			looked = true
			assert.NotEmpty(t, s.Transcripts.Locate(old))
		}
		return nil
	})
	appendTexts(t, s, ref, 0, "one")
	assert.True(t, looked)
	d.Hook(nil)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, ref))
	require.NoError(t, s.Close())
}
