package dirstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/internal/contain"
	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// The transcripts are [session.Transcripts] in a directory, one file each; see transcriptNames. A
// file is open only during a call. So the number of transcripts is unlimited, and a disk that was
// out of reach is used again when it is back.
type transcripts struct {
	fs       disk.FS
	dir      string
	readOnly bool
	release  func() error // called once, at the end of Close
	lines    *lineLog     // nil: lines go to the files at once
	syncs    int          // how many files are synced at a time before a compaction
	closing  sync.Once
	closed   atomic.Bool
	writers  sync.WaitGroup // calls that may write; none is added once closed is set

	mu      sync.Mutex
	known   map[session.Ref]*transcriptState // those in use, or with lines for their files
	resting map[refID]restingTranscript      // the others that exist and were used; see rest
	places  map[refID]session.Pos            // the last positions of those that are placed
	agents  map[string]*agentFiles           // by the name of the directory
	unsafe  map[session.Ref]bool             // those whose last call was refused
}

// Steady says that no method of t calls code of the program's, see [contain.IsSteady].
func (t *transcripts) Steady(contain.Witness) any { return t }

// A transcriptState is what the store knows about one transcript. The call that holds sem owns the
// other fields.
type transcriptState struct {
	id        refID
	names     [2]string     // see namesOf
	sem       chan struct{} // a mutex with one place: a call waits for it until its context is done
	forgotten bool          // the state is not in known any more; a waiting call must look again

	path      string      // "" if there is no transcript
	second    bool        // path has the second of the names
	head      int64       // length of the first line, in bytes
	end       int64       // offset behind the last line
	placed    bool        // the lines have positions of their own; see placeMember
	at        session.Pos // that of the last line, if they have
	pending   []byte      // the last lines, if they are in the log and not in the file
	durable   bool        // the name of the file and its last write are durable, or in the log
	torn      bool        // there may be bytes beyond the end
	inherited bool        // the bytes beyond the end are of an earlier process
	inDir     bool        // the directory was there when the call under way looked
	corrupt   error       // acknowledged lines beyond the end cannot be read; appends fail
}

// A restingTranscript is what the store keeps of a transcript that no call works with, whose lines
// are all in its file and of which nothing is wrong. So a hundred thousand chats at rest take a few
// megabytes, and the store still notices what another program does to the file of one.
type restingTranscript struct {
	end     int64
	head    uint32
	second  bool
	durable bool
	placed  bool
}

// last returns the position of the last line, or 0 if there is none.
func (x *transcriptState) last() session.Pos {
	if x.end == x.head { // another program has removed all lines
		return 0
	}
	if x.placed {
		return x.at
	}
	return session.Pos(x.end)
}

// An agentFiles is what the store knows about the directory of one agent.
type agentFiles struct {
	dir string // its path

	mu       sync.Mutex
	made     bool            // the directory exists durably
	cleaned  bool            // of what was begun by a process before
	archived map[string]bool // the names, before .deleted., of what was archived; nil: not read yet
	reserved map[string]bool // the names of files that are to be made

	// files are the names of the archived directories of files, by filesDirName; nil: not read yet
	files map[string]string
}

func newTranscripts(
	fsys disk.FS, dir string, readOnly bool, lines *lineLog, release func() error,
) *transcripts {
	return &transcripts{
		fs: fsys, dir: dir, readOnly: readOnly, release: release, lines: lines,
		syncs:   syncsAtATime,
		known:   make(map[session.Ref]*transcriptState),
		resting: make(map[refID]restingTranscript), places: make(map[refID]session.Pos),
		agents: make(map[string]*agentFiles),
	}
}

// Close makes every later call fail with [session.ErrClosed]. It returns once no call writes any
// more, so the next owner may begin then.
func (t *transcripts) Close() (err error) {
	t.closing.Do(func() {
		t.mu.Lock()
		t.closed.Store(true)
		t.mu.Unlock()
		t.writers.Wait()
		if t.lines != nil {
			err = t.closeLines()
		}
		err = errors.Join(err, t.release())
	})
	return err
}

// check returns the error of a call after Close or with a ctx that is done.
func (t *transcripts) check(ctx context.Context) error {
	if t.closed.Load() {
		return session.ErrClosed
	}
	return ctx.Err()
}

// exclusive calls f with the loaded state of a transcript, while no other call works with that
// transcript. Afterwards it forgets the state of a transcript that does not exist. It also forgets
// that of a corrupt one, so that the next call sees the repair of a person. A read-only store
// forgets every state, because another process may write.
func (t *transcripts) exclusive(
	ctx context.Context, ref session.Ref, f func(*transcriptState) error,
) error {
	return t.hold(ctx, ref, func(x *transcriptState) error {
		if err := t.load(ctx, ref, x); err != nil {
			return err
		}
		return f(x)
	})
}

// hold is exclusive without loading the state.
func (t *transcripts) hold(
	ctx context.Context, ref session.Ref, f func(*transcriptState) error,
) error {
	x, ok := t.acquire(ctx, ref)
	if !ok {
		return ctx.Err()
	}
	defer t.yield(ref, x)
	err := t.check(ctx) // the call may have waited for a long time
	if err == nil {
		x.inDir, err = t.checkDirs(ref)
	}
	if err == nil {
		err = f(x)
	}
	t.noteUnsafe(ref, err)
	return err
}

// A waiter is the context of a call that may have to wait.
type waiter interface{ Done() <-chan struct{} }

// acquire returns the state of a transcript, which no other call has until yield. It gives up when
// by is done, and returns false; a nil one is never done. It asks for Done only if it must wait:
// some contexts, such as those of package agent, then take a dozen allocations.
func (t *transcripts) acquire(by waiter, ref session.Ref) (*transcriptState, bool) {
	for {
		t.mu.Lock()
		x := t.known[ref]
		if x == nil {
			x = t.wake(ref)
		}
		t.mu.Unlock()
		select {
		case x.sem <- struct{}{}:
		default:
			var done <-chan struct{}
			if by != nil {
				done = by.Done()
			}
			select {
			case x.sem <- struct{}{}:
			case <-done:
				return nil, false
			}
		}
		if !x.forgotten {
			return x, true
		}
		<-x.sem
	}
}

// yield ends what acquire began.
func (t *transcripts) yield(ref session.Ref, x *transcriptState) {
	if len(x.pending) > 0 && (x.path == "" || x.corrupt != nil) {
		t.putBack(ref, x)
	}
	switch {
	case x.path == "" || x.corrupt != nil || t.readOnly:
		t.forget(ref, x)
	case len(x.pending) == 0 && !x.torn:
		t.rest(ref, x)
	}
	<-x.sem
}

// wake returns the state of a transcript of which none is in known, and puts it there. The caller
// holds mu.
func (t *transcripts) wake(ref session.Ref) *transcriptState {
	id := idOfRef(ref)
	x := &transcriptState{id: id, sem: make(chan struct{}, 1)}
	t.known[ref] = x
	if r, ok := t.resting[id]; ok {
		x.at = t.places[id]
		delete(t.resting, id)
		delete(t.places, id)
		x.path = filepath.Join(t.agentLocked(ref).dir, nameOf(ref, r.second))
		x.head, x.end, x.second, x.durable = int64(r.head), r.end, r.second, r.durable
		x.placed = r.placed
	}
	return x
}

// rest puts what is to be kept of a state in its place. The caller holds its sem.
func (t *transcripts) rest(ref session.Ref, x *transcriptState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.forgotten = true
	delete(t.known, ref)
	t.resting[x.id] = restingTranscript{
		end: x.end, head: uint32(x.head), second: x.second, durable: x.durable, placed: x.placed,
	}
	if x.placed { // few are, and the position of all others is their end
		t.places[x.id] = x.at
	}
}

// checkDirs returns a *[disk.UnsafeError] if something else has the name of a directory that the
// file of ref is in. A link there leads to files that need not be those of the Store.
//
// checkDirs reports whether the directory is there.
func (t *transcripts) checkDirs(ref session.Ref) (there bool, err error) {
	if err := disk.CheckDir(t.fs, t.dir); err != nil {
		return false, err
	}
	_, dir := t.agentOf(ref)
	return disk.HasDir(t.fs, dir)
}

// noteUnsafe notes for Health how a call for ref has ended.
func (t *transcripts) noteUnsafe(ref session.Ref, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch refused := errors.Is(transcriptError(err), session.ErrUnsafe); {
	case refused && t.unsafe == nil:
		t.unsafe = make(map[session.Ref]bool)
		fallthrough
	case refused:
		t.unsafe[ref] = true
	case err == nil:
		delete(t.unsafe, ref)
	}
}

// Health returns why transcripts are refused, if their last call was, and they still are, or that
// their directory is gone. Each path is reported once. See [session.Store.Health].
func (t *transcripts) Health(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	refs := slices.Collect(maps.Keys(t.unsafe))
	t.mu.Unlock()
	texts := make(map[string]error)
	for _, ref := range refs {
		err := transcriptError(t.tryFile(ref))
		if errors.Is(err, session.ErrUnsafe) {
			texts[err.Error()] = err
		} else {
			t.noteUnsafe(ref, nil)
		}
	}
	errs := []error{t.lines.lastError()}
	if _, err := t.fs.Lstat(t.dir); err != nil && !t.readOnly {
		errs = append(errs, fmt.Errorf("dirstore: transcripts: %w", logError(err)))
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		errs = append(errs, texts[text])
	}
	return errors.Join(errs...)
}

// tryFile opens the file of ref as a call would that appends, and changes nothing in it.
func (t *transcripts) tryFile(ref session.Ref) error {
	if _, err := t.checkDirs(ref); err != nil {
		return err
	}
	flag := os.O_RDWR
	if t.readOnly {
		flag = os.O_RDONLY
	}
	f, err := t.open(ref, transcriptNames(ref), flag, false)
	if f != nil {
		_ = f.f.Close()
	}
	return errors.Join(err, disk.CheckDir(t.fs, t.filesDir(ref)))
}

// forget removes the state of ref. The caller holds its sem.
func (t *transcripts) forget(ref session.Ref, x *transcriptState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.forgotten = true
	delete(t.known, ref)
}

// load finds the file of a transcript and its end. It changes nothing: the next write removes what
// a crash has left beyond the end.
func (t *transcripts) load(ctx context.Context, ref session.Ref, x *transcriptState) error {
	if x.path != "" {
		return nil
	}
	found, err := t.restore(ref)
	if err != nil {
		return err
	}
	names := x.namesOf(ref)
	f, err := t.open(ref, names, os.O_RDONLY, x.inDir)
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	f.f = duringFile{f.f, ctx}
	end, size, err := f.findEnd()
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return err
	}
	if x.placed = f.placed; f.placed {
		var placeErr error
		if x.at, placeErr = f.lastPlace(ctx, end); placeErr != nil {
			if !errors.Is(placeErr, session.ErrCorrupt) {
				return placeErr
			}
			err = cmp.Or(err, placeErr)
		}
	}
	x.path, x.head, x.end = f.path, f.head, end
	x.second = strings.EqualFold(filepath.Base(f.path), names[1])
	x.durable = found != nil && end == found.end()
	x.torn, x.inherited, x.corrupt = end < size && err == nil, true, err
	return nil
}

// open opens the file of a transcript, under either of its names. It returns nil if there is none.
// A caller that has seen its directory in the same call says so: then that is there before the
// search.
func (t *transcripts) open(
	ref session.Ref, names [2]string, flag int, seen bool,
) (f *transcriptFile, err error) {
	_, dir := t.agentOf(ref)
	look := func() error {
		for _, name := range names {
			var ok bool
			path := filepath.Join(dir, name)
			// Most transcripts are new. To learn that by an open takes twice as long.
			if there, err := hasNew(t.fs, path); err == nil && !there {
				continue
			}
			f, ok, err = openTranscript(t.fs, path, ref, flag)
			if ok || err != nil {
				return err
			}
		}
		return fs.ErrNotExist
	}
	lookUp := disk.LookUp
	if seen {
		lookUp = disk.LookUpIn
	}
	found, err := lookUp(t.fs, t.dir, look)
	return f, t.found(found, err)
}

// lookUp calls f. An fs.ErrNotExist of f is not an error unless the directory of the transcripts is
// out of reach. A read-only store may see a directory that does not have that one yet.
func (t *transcripts) lookUp(f func() error) error {
	return t.found(disk.LookUp(t.fs, t.dir, f))
}

// found returns the error of lookUp for what [disk.LookUp] has returned.
func (t *transcripts) found(found bool, err error) error {
	switch {
	case t.readOnly && errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !found:
		return held(t.fs)
	}
	return err
}

// wrapError adds the transcript and the operation to err.
func (t *transcripts) wrapError(ref session.Ref, doing string, err error) error {
	return fmt.Errorf("dirstore: transcript %q of %q: %s: %w",
		ref.SessionID, ref.Key, doing, transcriptError(err))
}

// agentOf returns the agentFiles of ref and the path of the directory.
func (t *transcripts) agentOf(ref session.Ref) (*agentFiles, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.agentLocked(ref)
	return a, a.dir
}

// agentLocked returns the agentFiles of ref. The caller holds mu.
func (t *transcripts) agentLocked(ref session.Ref) *agentFiles {
	name := agentDir(ref.Key)
	a := t.agents[name]
	if a == nil {
		a = &agentFiles{dir: filepath.Join(t.dir, name)}
		t.agents[name] = a
	}
	return a
}

// Read implements [session.Transcripts].
func (t *transcripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		err := ref.Validate()
		if err == nil {
			err = q.Validate()
		}
		if err != nil {
			yield(session.Line{}, err)
			return
		}
		err = t.read(ctx, ref, q, func(line session.Line) bool { return yield(line, nil) })
		if err != nil {
			yield(session.Line{}, t.wrapError(ref, "read", err))
		}
	}
}

func (t *transcripts) read(
	ctx context.Context, ref session.Ref, q session.LineQuery, yield func(session.Line) bool,
) error {
	var f *transcriptFile
	err := t.exclusive(ctx, ref, func(x *transcriptState) (err error) {
		if x.path != "" {
			f, err = t.file(ctx, ref, x, os.O_RDONLY)
		}
		if f == nil && err == nil {
			f, err = t.archivedFile(ctx, ref, q.Archived)
		}
		return err
	})
	if f == nil || err != nil {
		return err
	}
	defer f.f.Close() //nolint:errcheck // nothing was written
	return f.lines(ctx, q, t.check, yield)
}

// file opens the file of an existing transcript, to be read until ctx is done. If another program
// has removed the file or changed its length, that is an error once. The next call finds the file
// as it is then. A read-only store returns nil for a removed file.
func (t *transcripts) file(
	ctx context.Context, ref session.Ref, x *transcriptState, flag int,
) (f *transcriptFile, err error) {
	if x.filed() == 0 {
		f = &transcriptFile{path: x.path, head: x.head, end: x.end, placed: x.placed}
		f.f = x.withPending(ctx, nil)
		return f, nil
	}
	f, ok, err := openTranscript(t.fs, x.path, ref, flag)
	if err != nil {
		return nil, err
	}
	if !ok {
		if t.readOnly { // the owner of the directory has archived the file
			return nil, nil //nolint:nilnil // a missing file is not an error
		}
		err = &fs.PathError{Op: "open", Path: x.path, Err: fs.ErrNotExist}
		return nil, t.forgetMissing(x, err)
	}
	f.end, f.corrupt = x.end, x.corrupt
	if err = checkLength(f, x); err != nil && !t.readOnly {
		x.path = ""
		_ = f.f.Close()
		return nil, err
	}
	f.f = x.withPending(ctx, f.f)
	return f, nil
}

// forgetMissing returns err. It forgets the path of a file that err says does not exist, unless the
// whole directory is out of reach: then the file may come back with it.
func (t *transcripts) forgetMissing(x *transcriptState, err error) error {
	if _, dirErr := t.fs.Lstat(t.dir); dirErr == nil && errors.Is(err, fs.ErrNotExist) {
		x.path = ""
	}
	return err
}

// checkLength returns a *[session.CorruptError] if f does not have the length that this process
// left it with.
func checkLength(f *transcriptFile, x *transcriptState) error {
	size, err := f.f.Size()
	if err != nil {
		return err
	}
	had := x.filed()
	if size < had || size > had && !x.torn && x.corrupt == nil {
		return &session.CorruptError{
			File: x.path, Offset: min(size, had),
			Reason: fmt.Sprintf(
				"another program has changed the file, which has %d bytes and had %d", size, had),
		}
	}
	return nil
}

// Locate implements [session.Transcripts].
func (t *transcripts) Locate(ref session.Ref) string {
	if ref.Validate() != nil {
		return ""
	}
	t.fileNow(ref)
	f, err := t.open(ref, transcriptNames(ref), os.O_RDONLY, false)
	if err != nil {
		return ""
	}
	if f != nil {
		_ = f.f.Close()
		return f.path
	}
	_, dir := t.agentOf(ref)
	if name, err := t.findArchived(ref); err == nil && name != "" {
		return filepath.Join(dir, name)
	}
	return ""
}
