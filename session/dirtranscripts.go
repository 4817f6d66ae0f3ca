package session

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
)

// dirTranscripts are [Transcripts] in a directory, one file each; see transcriptNames. Files are open only while something is done with
// them, so that any number can be there and a disk that was away is used again when it is back.
type dirTranscripts struct {
	fs       disk.FS
	dir      string
	readOnly bool
	release  func() error // once, after Close
	closing  sync.Once
	closed   atomic.Bool
	writers  sync.WaitGroup // those who may change something; nobody is added once closed is set

	mu     sync.Mutex
	known  map[Ref]*dirTranscript // those that are there, as far as anybody asked, and those that somebody works with
	agents map[string]*agentFiles
}

// A dirTranscript is what is known of one transcript.
type dirTranscript struct {
	turn chan struct{} // holds the one who may work with the file
	gone bool          // is known no more; only whoever has the turn looks

	path  string // "" if there is no file
	end   int64  // the offset behind the last line
	safe  bool   // the name of the file and its last write are durable
	torn  bool   // something may stand beyond the end
	found bool   // it was there already, and is not what a write of ours has left
	rot   error  // what was acknowledged beyond the end and cannot be read; nothing is appended then
}

// mend removes what stands beyond the end, so that something can be written there.
func (x *dirTranscript) mend(fsys disk.FS, f *transcriptFile) (err error) {
	switch {
	case !x.torn:
		return nil
	case x.found:
		err = f.repair(fsys, x.end)
	default:
		err = f.cut(x.end)
	}
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	x.torn = false
	return nil
}

// secure makes durable what was there already. Whoever wrote it may have died before it was, or after a sync that failed: then the system
// shows what it will never write unless somebody writes it again.
func (x *dirTranscript) secure(fsys disk.FS, f *transcriptFile) error {
	if x.safe {
		return nil
	}
	if err := f.rewriteLast(x.end); err != nil {
		return fmt.Errorf("write again: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(x.path)); err != nil {
		return err
	}
	x.safe = true
	return nil
}

// agentFiles is what is known of the directory of one agent.
type agentFiles struct {
	mu       sync.Mutex
	made     bool
	swept    bool            // of what was begun by a process before
	archived map[string]bool // the names, before .deleted., of what was archived; nil: not read yet
}

func newDirTranscripts(fsys disk.FS, dir string, readOnly bool, release func() error) *dirTranscripts {
	return &dirTranscripts{
		fs: fsys, dir: dir, readOnly: readOnly, release: release,
		known: make(map[Ref]*dirTranscript), agents: make(map[string]*agentFiles),
	}
}

// Close makes every later call fail with [ErrClosed], and returns when nobody writes any more: the next owner may begin then.
func (t *dirTranscripts) Close() (err error) {
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed.Store(true)
		t.mu.Unlock()
		t.writers.Wait()
		err = t.release()
	})
	return err
}

// write calls f, which changes a transcript, while nobody else works with it. Close waits for it.
func (t *dirTranscripts) write(ctx context.Context, ref Ref, f func(*dirTranscript) error) error {
	t.mu.Lock()
	err := t.check(ctx)
	if err == nil && t.readOnly {
		err = ErrReadOnly
	}
	if err == nil {
		t.writers.Add(1)
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	defer t.writers.Done()
	return t.with(ctx, ref, f)
}

func (t *dirTranscripts) check(ctx context.Context) error {
	if t.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// with calls f while nobody else works with the transcript, once it is known what there is of it. It forgets what does not exist,
// and what is corrupt, so that it is looked at again when a person has seen to it.
func (t *dirTranscripts) with(ctx context.Context, ref Ref, f func(*dirTranscript) error) error {
	for {
		t.mu.Lock()
		x := t.known[ref]
		if x == nil {
			x = &dirTranscript{turn: make(chan struct{}, 1)}
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
		if x.path == "" || x.rot != nil {
			t.forget(ref, x)
		}
		<-x.turn
		return err
	}
}

func (t *dirTranscripts) forget(ref Ref, x *dirTranscript) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.gone = true
	delete(t.known, ref)
}

// load finds the file of a transcript and where it ends. It changes nothing: what a crash has left beyond that is for whoever writes.
func (t *dirTranscripts) load(ref Ref, x *dirTranscript) error {
	if x.path != "" {
		return nil
	}
	f, err := t.open(ref)
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	end, size, err := f.intact()
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	x.path, x.end, x.safe, x.torn, x.found, x.rot = f.path, end, false, end < size && err == nil, true, err
	return nil
}

// open opens the file of a transcript for reading, under whichever name it has, nil if it does not exist.
func (t *dirTranscripts) open(ref Ref) (f *transcriptFile, err error) {
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

// ifThere calls f, for which fs.ErrNotExist is no error unless everything is away. A directory that was only begun has nothing yet.
func (t *dirTranscripts) ifThere(f func() error) error {
	_, err := disk.IfThere(t.fs, t.dir, f)
	if t.readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *dirTranscripts) fail(ref Ref, doing string, err error) error {
	return fmt.Errorf("session: transcript %q of %q: %s: %w", ref.SessionID, ref.Key, doing, err)
}

func (t *dirTranscripts) Append(ctx context.Context, ref Ref, after Pos, messages ...Message) (last Pos, err error) {
	if err := ref.Validate(); err != nil {
		return 0, err
	}
	var lines []byte
	for i := 0; i < len(messages) && err == nil; i++ {
		if lines, err = messages[i].AppendJSON(lines); err == nil {
			lines = append(lines, '\n')
		}
	}
	if err == nil {
		err = t.write(ctx, ref, func(x *dirTranscript) (err error) {
			last, err = t.append(ref, x, after, lines)
			return err
		})
	}
	if err != nil {
		return 0, t.fail(ref, "append", err)
	}
	return last, nil
}

func (t *dirTranscripts) append(ref Ref, x *dirTranscript, after Pos, lines []byte) (Pos, error) {
	if x.path == "" {
		return t.begin(ref, x, after, lines)
	}
	if x.rot != nil {
		return 0, x.rot
	}
	end := Pos(x.end)
	if after != end {
		return 0, fmt.Errorf("after %d, but it ends at %d: %w", after, end, ErrConflict)
	}
	if len(lines) == 0 {
		return end, nil
	}
	f, err := t.openToWrite(ref, x)
	if err != nil {
		return 0, err
	}
	defer f.f.Close() //nolint:errcheck // what was written was synced
	if err := x.mend(t.fs, f); err != nil {
		return 0, err
	}
	if err := x.secure(t.fs, f); err != nil {
		return 0, err
	}
	lines = continued(lines)
	if _, err = f.f.WriteAt(lines, int64(end)); err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		// To cut the file and sync that is safe also after a sync that failed: what could not be written is not needed.
		x.torn, x.found = f.cut(int64(end)) != nil, false
		return 0, err
	}
	x.end += int64(len(lines))
	return Pos(x.end), nil
}

// openToWrite opens the file of a transcript that is there.
func (t *dirTranscripts) openToWrite(ref Ref, x *dirTranscript) (*transcriptFile, error) {
	f, ok, err := openTranscript(t.fs, x.path, ref, os.O_RDWR)
	if err == nil && !ok {
		err = notThere(x.path)
	}
	return f, err
}

// tmpSuffix ends the name of a transcript that is not whole yet.
const tmpSuffix = ".tmp"

// begin makes the file of a transcript, whole or not at all.
func (t *dirTranscripts) begin(ref Ref, x *dirTranscript, after Pos, lines []byte) (Pos, error) {
	name, err := t.findArchived(ref, true)
	switch {
	case err != nil:
		return 0, err
	case name != "":
		return 0, fmt.Errorf("%w as %q", ErrArchived, name)
	case after != 0:
		return 0, fmt.Errorf("after %d, but it ends at 0: %w", after, ErrConflict)
	case len(lines) == 0:
		return 0, nil
	}
	dir, err := t.makeAgentDir(ref)
	if err != nil {
		return 0, err
	}
	head, err := headLine(ref)
	if err != nil {
		return 0, err
	}
	names := transcriptNames(ref)
	tmp := filepath.Join(dir, names[1]+tmpSuffix) // nobody else's, whoever has the same id
	if err := t.writeWhole(tmp, append(head, lines...)); err != nil {
		return 0, err
	}
	path, err := t.name(ref, tmp, names)
	if err != nil {
		return 0, err
	}
	if err := t.fs.SyncDir(dir); err != nil {
		return 0, err
	}
	x.path, x.end, x.safe, x.torn = path, int64(len(head)+len(lines)), true, false
	return Pos(x.end), nil
}

// name gives a whole transcript the first of the names that is not somebody else's.
func (t *dirTranscripts) name(ref Ref, tmp string, names [2]string) (string, error) {
	a, dir := t.agent(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	path := filepath.Join(dir, names[0])
	_, err := t.fs.Lstat(path)
	switch {
	case err == nil: // if it were ours, it would have been found
		path = filepath.Join(dir, names[1])
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return path, t.fs.Rename(tmp, path)
}

func (t *dirTranscripts) writeWhole(name string, b []byte) error {
	f, err := t.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = t.fs.Remove(name)
	}
	return err
}

func (t *dirTranscripts) agent(ref Ref) (*agentFiles, string) {
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

func (t *dirTranscripts) makeAgentDir(ref Ref) (string, error) {
	a, dir := t.agent(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made {
		if _, err := t.fs.Lstat(dir); err == nil {
			return dir, nil
		}
	}
	if err := disk.MakeDir(t.fs, t.dir, dir); err != nil {
		return "", err
	}
	a.made = true
	return dir, nil
}

func (t *dirTranscripts) Read(ctx context.Context, ref Ref, w Window) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		err := ref.Validate()
		if err == nil {
			err = w.Validate()
		}
		if err != nil {
			yield(Line{}, err)
			return
		}
		if err := t.read(ctx, ref, w, func(line Line) bool { return yield(line, nil) }); err != nil {
			yield(Line{}, t.fail(ref, "read", err))
		}
	}
}

func (t *dirTranscripts) read(ctx context.Context, ref Ref, w Window, yield func(Line) bool) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	f, err := t.openToRead(ctx, ref)
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	return f.lines(ctx, w, t.check, yield)
}

// openToRead opens the file of a transcript, nil if it does not exist.
func (t *dirTranscripts) openToRead(ctx context.Context, ref Ref) (*transcriptFile, error) {
	for {
		path, end, rot, err := t.place(ctx, ref)
		if err != nil || path == "" {
			return nil, err
		}
		f, ok, err := openTranscript(t.fs, path, ref, os.O_RDONLY)
		if ok {
			f.end, f.rot = end, rot
		}
		if ok || err != nil {
			return f, err
		}
		if err := t.missed(ctx, ref, path); err != nil {
			return nil, err
		}
	}
}

// missed finds out why the file of a transcript is not where it was. That it has been archived just now is no error.
func (t *dirTranscripts) missed(ctx context.Context, ref Ref, path string) error {
	return t.with(ctx, ref, func(x *dirTranscript) error {
		switch {
		case x.path != path:
			return nil
		case t.readOnly: // whoever has the directory open has done that
			x.path = ""
			return nil
		}
		return notThere(path)
	})
}

func notThere(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }

// place returns where the file of a transcript is and where it durably ends.
func (t *dirTranscripts) place(ctx context.Context, ref Ref) (path string, end int64, rot, err error) {
	err = t.with(ctx, ref, func(x *dirTranscript) error {
		path, end, rot = x.path, x.end, x.rot
		return nil
	})
	return path, end, rot, err
}

func (t *dirTranscripts) Locate(ref Ref) string {
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
