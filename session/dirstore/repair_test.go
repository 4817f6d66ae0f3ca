package dirstore_test

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A protected disk can be made read-only at any time.
type protected struct {
	*disktest.Disk
	on atomic.Bool
}

func (p *protected) check(op, name string) error {
	if p.on.Load() {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS}
	}
	return nil
}

func (p *protected) OpenFile(name string, flag int) (disk.File, error) {
	if flag != os.O_RDONLY {
		if err := p.check("open", name); err != nil {
			return nil, err
		}
	}
	return p.Disk.OpenFile(name, flag)
}

func (p *protected) Mkdir(name string) error {
	if err := p.check("mkdir", name); err != nil {
		return err
	}
	return p.Disk.Mkdir(name)
}

func (p *protected) Rename(from, to string) error {
	if err := p.check("rename", from); err != nil {
		return err
	}
	return p.Disk.Rename(from, to)
}

func (p *protected) Remove(name string) error {
	if err := p.check("remove", name); err != nil {
		return err
	}
	return p.Disk.Remove(name)
}

const (
	halfLine = `{"role":"user","te`
	remains  = `{"role":"us` + "\x00\x00\x00" + `er"}` + "\n" + halfLine // what lay beyond a part that has not reached the disk
)

// left appends what a crash could have left to the file of a transcript.
func left(t *testing.T, d *disktest.Disk, path, text string) {
	t.Helper()
	writeAll(t, d, path, append(readAll(t, d, path), text...))
}

func exists(d *disktest.Disk, name string) bool {
	_, err := d.Lstat(name)
	return err == nil
}

// What a read-only disk has can be read, also what a crash has left; what must write says why it
// cannot, and can when the disk can.
func TestTranscriptsOfReadOnlyDisk(t *testing.T) {
	for _, text := range []string{"", halfLine, remains} {
		p := &protected{Disk: disktest.New()}
		s, err := dirstore.OpenOn(p, "/")
		require.NoError(t, err)
		ref, old := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}, session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "old"}
		end := say(t, s, ref, 0, "one", "two")
		say(t, s, old, 0, "gone")
		_, err = s.Transcripts.Archive(t.Context(), old, noon)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		path := "/sessions/main/x.jsonl"
		left(t, p.Disk, path, text)
		before := readAll(t, p.Disk, path)

		s, err = dirstore.OpenOn(p, "/")
		require.NoError(t, err)
		p.on.Store(true)
		for range 2 {
			assert.Equal(t, []string{"one", "two"}, lineTexts(t, s, ref))
			assert.Equal(t, path, s.Transcripts.Locate(ref))
			assert.NotEmpty(t, s.Transcripts.Locate(old))
			_, err = s.Transcripts.Append(t.Context(), ref, end, says("lost")...)
			require.ErrorIs(t, err, syscall.EROFS)
			assert.ErrorContains(t, err, path)
			_, err = s.Transcripts.Append(t.Context(), ref, 0, says("lost")...)
			require.ErrorIs(t, err, session.ErrConflict, "that is known without writing")
			_, err = s.Transcripts.Append(t.Context(), session.Ref{Key: session.Must(session.MainKey("new")), SessionID: "x"}, 0, says("lost")...)
			require.ErrorIs(t, err, syscall.EROFS)
			_, err = s.Transcripts.Archive(t.Context(), ref, noon)
			require.ErrorIs(t, err, syscall.EROFS)
		}
		assert.Equal(t, before, readAll(t, p.Disk, path))
		p.on.Store(false)
		say(t, s, ref, end, "three")
		assert.Equal(t, []string{"one", "two", "three"}, lineTexts(t, s, ref))
		assert.NotContains(t, string(readAll(t, p.Disk, path)), "\x00")
		assert.Equal(t, text == remains, exists(p.Disk, "/sessions/main/x.jsonl.torn."+position(end)), "what may have been lines is kept")
		require.NoError(t, s.Close())
	}
}

func position(p session.Pos) string { return fmt.Sprint(uint64(p)) }

// What a crash has left does not go along when a transcript is archived.
func TestArchiveTorn(t *testing.T) {
	for _, text := range []string{halfLine, remains} {
		d := disktest.New()
		s := openOn(t, d)
		ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
		end := say(t, s, ref, 0, "one")
		require.NoError(t, s.Close())
		path := "/sessions/main/x.jsonl"
		whole := readAll(t, d, path)
		left(t, d, path, text)
		s = openOn(t, d)
		cut := false
		d.Hook(func(op disktest.Op) error {
			if op.Kind == disktest.OpTruncate {
				cut = true
				after := d.Crash(func(int) bool { return false })
				assert.Equal(t, text == remains, exists(after, "/sessions/main/x.jsonl.torn."+position(end)), "durable before it is cut off")
			}
			return nil
		})
		name, err := s.Transcripts.Archive(t.Context(), ref, noon)
		require.NoError(t, err)
		assert.True(t, cut)
		assert.Equal(t, whole, readAll(t, d.Crash(func(int) bool { return false }), "/sessions/main/"+name))
		if text == remains {
			assert.Equal(t, text, string(readAll(t, d, "/sessions/main/x.jsonl.torn."+position(end))))
		}
	}
}

// A transcript that somebody had begun who died, and that nobody was told of, goes when the next
// one is begun; a tool that only looks leaves it alone.
func TestTranscriptThatWasOnlyBegun(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	say(t, s, ref, 0, "one")
	require.NoError(t, s.Close())
	dead, others := "/sessions/main/y.jsonl.tmp", "/sessions/main/notes.tmp"
	writeAll(t, d, dead, []byte(`{"role":"note","disc`))
	writeAll(t, d, others, []byte("of a person"))
	v, err := dirstore.ViewOn(d, "/")
	require.NoError(t, err)
	assert.Empty(t, v.Transcripts.Locate(session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "y"}))
	assert.True(t, exists(d, dead))
	require.NoError(t, v.Close())
	s = openOn(t, d)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, ref))
	say(t, s, session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "z"}, 0, "two")
	assert.False(t, exists(d, dead))
	assert.True(t, exists(d, others))
	require.NoError(t, s.Close())
}

// One that is being begun is not taken away by somebody who looks for another one meanwhile.
func TestTranscriptThatIsBeingBegun(t *testing.T) {
	d := disktest.New()
	s := openOn(t, d)
	old, ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "old"}, session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "x"}
	say(t, s, old, 0, "gone")
	_, err := s.Transcripts.Archive(t.Context(), old, noon)
	require.NoError(t, err)
	looked := false
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.OpSync && !looked {
			looked = true
			assert.NotEmpty(t, s.Transcripts.Locate(old))
		}
		return nil
	})
	say(t, s, ref, 0, "one")
	assert.True(t, looked)
	d.Hook(nil)
	assert.Equal(t, []string{"one"}, lineTexts(t, s, ref))
	require.NoError(t, s.Close())
}
