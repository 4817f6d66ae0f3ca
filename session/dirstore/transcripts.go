package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// transcripts are [session.Transcripts] in a directory, one file each; see transcriptNames. Files
// are open only while something is done with them, so that any number can be there and a disk that
// was away is used again when it is back.
type transcripts struct {
	fs       disk.FS
	dir      string
	readOnly bool
	release  func() error // once, after Close
	closing  sync.Once
	closed   atomic.Bool
	writers  sync.WaitGroup // calls that may change something; none is added once closed is set

	mu     sync.Mutex
	known  map[session.Ref]*transcript // those that are there, as far as callers asked, and those that a call works with
	agents map[string]*agentFiles
}

// A transcript is what is known of one transcript.
type transcript struct {
	turn chan struct{} // holds the call that may work with the file
	gone bool          // is known no more; only the holder of the turn looks

	path  string // "" if there is no file
	head  int64  // the length of its first line
	end   int64  // the offset behind the last line
	safe  bool   // the name of the file and its last write are durable
	torn  bool   // something may stand beyond the end
	found bool   // it was there already, and is not what a write of ours has left
	rot   error  // what was acknowledged beyond the end and cannot be read; nothing is appended then
}

// last returns the position of the last line.
func (x *transcript) last() session.Pos {
	if x.end == x.head { // another program has taken all lines away
		return 0
	}
	return session.Pos(x.end)
}

// agentFiles is what is known of the directory of one agent.
type agentFiles struct {
	mu       sync.Mutex
	made     bool
	swept    bool            // of what was begun by a process before
	archived map[string]bool // the names, before .deleted., of what was archived; nil: not read yet
}

func newTranscripts(fsys disk.FS, dir string, readOnly bool, release func() error) *transcripts {
	return &transcripts{
		fs: fsys, dir: dir, readOnly: readOnly, release: release,
		known: make(map[session.Ref]*transcript), agents: make(map[string]*agentFiles),
	}
}

// Close makes every later call fail with [session.ErrClosed], and returns when no call writes any
// more: the next owner may begin then.
func (t *transcripts) Close() (err error) {
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed.Store(true)
		t.mu.Unlock()
		t.writers.Wait()
		err = t.release()
	})
	return err
}

func (t *transcripts) check(ctx context.Context) error {
	if t.closed.Load() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// with calls f while no other call works with the transcript, once it is known what there is of it.
// It forgets what does not exist, what is corrupt, so that it is looked at again when a person has
// seen to it, and all if another process has the directory open and writes.
func (t *transcripts) with(ctx context.Context, ref session.Ref, f func(*transcript) error) error {
	for {
		t.mu.Lock()
		x := t.known[ref]
		if x == nil {
			x = &transcript{turn: make(chan struct{}, 1)}
			t.known[ref] = x
		}
		t.mu.Unlock()
		select {
		case x.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if x.gone {
			<-x.turn
			continue
		}
		err := t.check(ctx) // it may have been a long time
		if err == nil {
			err = t.load(ref, x)
		}
		if err == nil {
			err = f(x)
		}
		if x.path == "" || x.rot != nil || t.readOnly {
			t.forget(ref, x)
		}
		<-x.turn
		return err
	}
}

func (t *transcripts) forget(ref session.Ref, x *transcript) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.gone = true
	delete(t.known, ref)
}

// load finds the file of a transcript and where it ends. It changes nothing: what a crash has left
// beyond that is for the next write.
func (t *transcripts) load(ref session.Ref, x *transcript) error {
	if x.path != "" {
		return nil
	}
	f, err := t.open(ref)
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	end, size, err := f.intact()
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	x.path, x.head, x.end, x.safe = f.path, f.head, end, false
	x.torn, x.found, x.rot = end < size && err == nil, true, err
	return nil
}

// open opens the file of a transcript for reading, under whichever name it has, nil if it does not
// exist.
func (t *transcripts) open(ref session.Ref) (f *transcriptFile, err error) {
	look := func() error {
		for _, name := range transcriptNames(ref) {
			var ok bool
			f, ok, err = openTranscript(t.fs, filepath.Join(t.dir, agentDir(ref.Key), name), ref, os.O_RDONLY)
			if ok || err != nil {
				return err
			}
		}
		return fs.ErrNotExist
	}
	err = t.ifThere(look)
	return f, err
}

// ifThere calls f, for which fs.ErrNotExist is not an error unless everything is away. A directory
// that was only begun has nothing yet.
func (t *transcripts) ifThere(f func() error) error {
	_, err := disk.LookUp(t.fs, t.dir, f)
	if t.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *transcripts) fail(ref session.Ref, doing string, err error) error {
	return fmt.Errorf("dirstore: transcript %q of %q: %s: %w", ref.SessionID, ref.Key, doing, err)
}

func (t *transcripts) agent(ref session.Ref) (*agentFiles, string) {
	name := agentDir(ref.Key)
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.agents[name]
	if a == nil {
		a = new(agentFiles)
		t.agents[name] = a
	}
	return a, filepath.Join(t.dir, name)
}

func (t *transcripts) Read(ctx context.Context, ref session.Ref, w session.LineQuery) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		err := ref.Validate()
		if err == nil {
			err = w.Validate()
		}
		if err != nil {
			yield(session.Line{}, err)
			return
		}
		if err := t.read(ctx, ref, w, func(line session.Line) bool { return yield(line, nil) }); err != nil {
			yield(session.Line{}, t.fail(ref, "read", err))
		}
	}
}

func (t *transcripts) read(ctx context.Context, ref session.Ref, w session.LineQuery, yield func(session.Line) bool) error {
	var f *transcriptFile
	err := t.with(ctx, ref, func(x *transcript) (err error) {
		if x.path != "" {
			f, err = t.file(ref, x, os.O_RDONLY)
		}
		return err
	})
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	return f.lines(ctx, w, t.check, yield)
}

// file opens the file of a transcript that is there. If another program has taken it away, or has
// cut it or written to it, that is an error once; the next call finds what is there then.
func (t *transcripts) file(ref session.Ref, x *transcript, flag int) (f *transcriptFile, err error) {
	f, ok, err := openTranscript(t.fs, x.path, ref, flag)
	if err != nil {
		return nil, err
	}
	if !ok {
		if t.readOnly { // the process that has the directory open has archived it
			return nil, nil //nolint:nilnil // there is none, which is not an error
		}
		return nil, t.missing(x, &fs.PathError{Op: "open", Path: x.path, Err: fs.ErrNotExist})
	}
	f.end, f.rot = x.end, x.rot
	if err = unchanged(f, x); err != nil && !t.readOnly {
		x.path = ""
		_ = f.f.Close()
		return nil, err
	}
	return f, nil
}

// missing forgets where a file was if it is not there any more, unless everything is away and may
// come back.
func (t *transcripts) missing(x *transcript, err error) error {
	if _, away := t.fs.Lstat(t.dir); away == nil && errors.Is(err, fs.ErrNotExist) {
		x.path = ""
	}
	return err
}

// unchanged returns an error if a file has not the length that it was left with.
func unchanged(f *transcriptFile, x *transcript) error {
	size, err := f.f.Size()
	if err != nil {
		return err
	}
	if size < x.end || size > x.end && !x.torn && x.rot == nil {
		return &session.CorruptError{
			File: x.path, Offset: min(size, x.end),
			Reason: fmt.Sprintf("another program has changed the file, which has %d bytes and had %d", size, x.end),
		}
	}
	return nil
}

func (t *transcripts) Locate(ref session.Ref) string {
	if ref.Validate() != nil {
		return ""
	}
	f, err := t.open(ref)
	if err != nil {
		return ""
	}
	if f != nil {
		_ = f.f.Close()
		return f.path
	}
	_, dir := t.agent(ref)
	if name, err := t.findArchived(ref, false); err == nil && name != "" {
		return filepath.Join(dir, name)
	}
	return ""
}
