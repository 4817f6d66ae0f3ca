package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// filed returns the offset up to which the file has the lines. The others are pending.
func (x *transcriptState) filed() int64 { return x.end - int64(len(x.pending)) }

// appendToLog adds lines to a transcript through the log: with the next batch of root, or, with the
// zero Key, at once. The first ones have head, the first line of the file, before them.
func (t *transcripts) appendToLog(
	ref session.Ref, x *transcriptState, root session.Key, head, lines []byte,
) (session.Pos, error) {
	had := len(x.pending)
	pending := append(slices.Grow(x.pending, len(head)+len(lines)), head...)
	pending = append(pending, lines...)
	// Those who wait for a batch have the same memory, which is not written to any more.
	l := loggedLines{
		ref: ref, second: x.second, off: x.end, bytes: pending[had:len(pending):len(pending)],
	}
	if root.IsZero() || !t.lines.carry(root, l) {
		alone := l
		if err := t.lines.append(&alone); err != nil {
			return 0, logError(err)
		}
	}
	x.pending = pending
	x.grow(l.bytes)
	t.waitForFile(ref)
	return x.last(), nil
}

// isIntact reports whether the file of a transcript is as this process left it, as far as its name
// tells. What is wrong with it is an error of a write to it.
func (t *transcripts) isIntact(x *transcriptState) bool {
	if x.filed() == 0 {
		return true
	}
	info, err := t.fs.Lstat(x.path)
	return err == nil && disk.IsPlain(info, x.filed())
}

// beginInLog begins a transcript in the log. Its file is made later.
func (t *transcripts) beginInLog(
	ref session.Ref, x *transcriptState, root session.Key, head, lines []byte, placed bool,
) (session.Pos, error) {
	if _, err := t.makeAgentDir(ref, x.inDir); err != nil {
		return 0, err
	}
	path, second, err := t.reserve(ref, x.namesOf(ref))
	if err != nil {
		return 0, err
	}
	fresh := transcriptState{path: path, second: second, durable: true, placed: placed}
	pos, err := t.appendToLog(ref, &fresh, root, head, lines)
	if err != nil {
		t.unreserve(ref, path)
		return 0, err
	}
	x.path, x.second, x.durable, x.torn = path, second, true, false
	x.head, x.end, x.pending = int64(len(head)), fresh.end, fresh.pending
	x.placed, x.at = fresh.placed, fresh.at
	return pos, nil
}

// reserve returns the path for the file of a new transcript. No other transcript gets it.
func (t *transcripts) reserve(
	ref session.Ref, names [2]string,
) (path string, second bool, err error) {
	a, dir := t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	path, second, err = t.freeName(a, dir, names)
	if err != nil {
		return "", false, err
	}
	if a.reserved == nil {
		a.reserved = make(map[string]bool)
	}
	a.reserved[strings.ToLower(filepath.Base(path))] = true
	return path, second, nil
}

// unreserve ends what reserve began: the file is there, or is not to be.
func (t *transcripts) unreserve(ref session.Ref, path string) {
	a, _ := t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reserved, strings.ToLower(filepath.Base(path)))
}

// flush writes the pending lines to the file, without a sync. If the file is not what this process
// left, the lines are looked at again with the next call.
func (t *transcripts) flush(ref session.Ref, x *transcriptState) error {
	f, err := t.writePending(ref, x)
	if f == nil || err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		x.torn = true
		return err
	}
	t.filed(ref, x)
	return nil
}

// filed says that the file of a transcript has its pending lines.
func (t *transcripts) filed(ref session.Ref, x *transcriptState) {
	x.pending = nil
	t.lines.filed(ref, x.second)
}

// writePending writes the pending lines, if there are any, to the file, which it returns open. They
// are pending until filed is called.
func (t *transcripts) writePending(ref session.Ref, x *transcriptState) (disk.File, error) {
	if len(x.pending) == 0 {
		return nil, nil //nolint:nilnil // nothing is to be written
	}
	if err := t.lines.sink(ref); err != nil {
		return nil, logError(err)
	}
	f, err := t.fileForLines(ref, x)
	if err != nil {
		return nil, err
	}
	from := x.filed()
	_, err = f.f.WriteAt(x.pending, from)
	if err == nil && x.torn {
		err = f.f.Truncate(x.end)
	}
	if err == nil && from == 0 {
		t.unreserve(ref, x.path)
	}
	if x.torn, x.inherited = err != nil, false; err != nil {
		return nil, errors.Join(err, f.f.Close())
	}
	return f.f, nil
}

// fileForLines opens the file that the pending lines go to, and makes it if they are the first.
func (t *transcripts) fileForLines(
	ref session.Ref, x *transcriptState,
) (*transcriptFile, error) {
	if x.filed() == 0 {
		if _, err := t.makeAgentDir(ref, x.inDir); err != nil {
			return nil, err
		}
		flag := os.O_RDWR | os.O_CREATE | os.O_EXCL
		if x.torn { // this process has begun the file
			flag &^= os.O_EXCL
		}
		f, err := t.fs.OpenFile(x.path, flag)
		if err != nil {
			return nil, err
		}
		return &transcriptFile{f: f, path: x.path}, nil
	}
	f, ok, err := openTranscript(t.fs, x.path, ref, os.O_RDWR)
	if err == nil && !ok {
		err = &fs.PathError{Op: "open", Path: x.path, Err: fs.ErrNotExist}
		err = t.forgetMissing(x, err)
	}
	if err == nil {
		if err = checkLength(f, x); err != nil {
			x.path = ""
			_ = f.f.Close()
		}
	}
	if err != nil && x.path == "" {
		t.putBack(ref, x)
	}
	return f, err
}

// putBack makes the pending lines of a state that is forgotten found ones.
func (t *transcripts) putBack(ref session.Ref, x *transcriptState) {
	t.lines.putBack(ref, &foundLines{second: x.second, off: x.filed(), bytes: x.pending})
	x.pending = nil
}

// settle makes all lines of a transcript durable in its file.
func (t *transcripts) settle(ref session.Ref, x *transcriptState) error {
	wrote, err := t.syncLines(ref, x)
	if err != nil || !wrote {
		return err
	}
	_, dir := t.agentOf(ref)
	if err = t.fs.SyncDir(dir); err != nil {
		return err
	}
	t.lines.settled(ref)
	return nil
}

// syncLines is settle, but leaves it to the caller to make the name of the file durable if it
// returns true. After a sync of the file that has failed, the system may think that the bytes are
// on the disk, and a later sync may succeed falsely. So the log keeps the lines until the directory
// is opened again, which writes them once more.
func (t *transcripts) syncLines(ref session.Ref, x *transcriptState) (wrote bool, err error) {
	f, err := t.writePending(ref, x)
	if err != nil {
		return false, err
	}
	if f != nil {
		t.filed(ref, x)
	}
	name, err := t.lines.unsynced(ref)
	switch {
	case f != nil && err != nil:
		return false, errors.Join(err, f.Close())
	case err != nil, f == nil && name == "":
		return false, err
	}
	if f == nil {
		if f, err = t.openWritten(ref, name); f == nil || err != nil {
			return false, err
		}
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return false, t.lines.doubt(ref, err)
	}
	t.lines.synced(ref)
	return true, nil
}

// openWritten opens the file that has the lines of a transcript. It returns nil for one that another
// program has removed: then there is nothing to sync.
func (t *transcripts) openWritten(ref session.Ref, name string) (disk.File, error) {
	_, dir := t.agentOf(ref)
	f, err := t.fs.OpenFile(filepath.Join(dir, name), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) && fileExists(t.fs, dir) {
		t.lines.settled(ref)
		return nil, nil //nolint:nilnil // there is none
	}
	return f, err
}

// ground settles a transcript, and has the log say so. So the next Open does not compare what is
// done to the file from then on with its frames.
func (t *transcripts) ground(ref session.Ref, x *transcriptState) error {
	if t.lines == nil {
		return nil
	}
	if err := t.settle(ref, x); err != nil {
		return err
	}
	return logError(t.lines.ground(ref))
}

// restore brings what the log has of a transcript to its file. A crash has kept it from there, or
// a sync that failed. Where the file does not agree with the log, the system has lost what was
// written to it, and the log is right. Lines that do not join the file are put beside it.
//
// It returns the lines that are in the file now, or nil.
func (t *transcripts) restore(ref session.Ref) (*foundLines, error) {
	found := t.lines.take(ref)
	if found == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	if err := t.lines.sink(ref); err != nil {
		return nil, logError(err)
	}
	dir, err := t.makeAgentDir(ref, false)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, nameOf(ref, found.second))
	joins, err := t.restoreFile(path, found)
	if err != nil {
		return nil, err
	}
	t.lines.restored(ref)
	if joins {
		t.lines.filed(ref, found.second)
		return found, nil
	}
	t.lines.settled(ref)
	return nil, logError(t.lines.ground(ref))
}

// restoreFile brings found lines to the file at path. It reports false if it has put them beside
// it.
func (t *transcripts) restoreFile(path string, found *foundLines) (joins bool, err error) {
	flag := os.O_RDWR
	if found.off == 0 {
		flag |= os.O_CREATE
	}
	f, err := t.fs.OpenFile(path, flag)
	joins = !errors.Is(err, fs.ErrNotExist)
	if err != nil && joins {
		return false, err
	}
	if err = nil; joins {
		joins, err = found.writeTo(t.fs, f, path)
		err = errors.Join(err, f.Close())
	}
	if err == nil && !joins {
		_, err = disk.SaveTorn(t.fs, offsetReader{found}, path, found.off, found.end())
	}
	return joins, err
}

// writeTo writes the lines to a file, also where it seems to have them: a sync that failed may have
// left them in memory alone. What the file has in their place is put beside it, unless it is
// nothing but zeros, which a power failure leaves. writeTo reports false if the file does not reach
// to the lines.
func (found *foundLines) writeTo(fsys disk.FS, f disk.File, path string) (joins bool, err error) {
	size, err := f.Size()
	if err != nil || size < found.off {
		return false, err
	}
	have := make([]byte, min(max(size-found.off, 0), int64(len(found.bytes))))
	n, err := f.ReadAt(have, found.off)
	if n < len(have) {
		return true, err
	}
	same := 0
	for same < len(have) && have[same] == found.bytes[same] {
		same++
	}
	if len(bytes.Trim(have[same:], "\x00")) > 0 {
		if _, err = disk.SaveTorn(fsys, f, path, found.off+int64(same), size); err != nil {
			return true, err
		}
	}
	_, err = f.WriteAt(found.bytes, found.off)
	return true, err
}

// An offsetReader reads found lines at their offsets in the file.
type offsetReader struct{ found *foundLines }

// ReadAt implements io.ReaderAt.
func (r offsetReader) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(r.found.bytes).ReadAt(b, off-r.found.off)
}

// waitForFile notes that a transcript has lines that are not in its file, and has them written
// there in its delay.
func (t *transcripts) waitForFile(ref session.Ref) {
	l := t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[ref] = true
	if l.timer == nil {
		t.writeLater()
	}
}

// writeLater has writeLines called in a moment. The caller holds lines.mu, and no timer runs.
func (t *transcripts) writeLater() {
	if l := t.lines; l.delay > 0 && !l.closing {
		l.writer.Add(1)
		l.timer = time.AfterFunc(l.delay, t.writeLines)
	}
}

// writeLines writes lines to their files, and is called again while lines come, or could not be
// written.
func (t *transcripts) writeLines() {
	l := t.lines
	defer l.writer.Done()
	l.fail(t.eachUnfiled(false, 1, t.flush))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if len(l.waiting) > 0 {
		t.writeLater()
	}
}

// stopWriting returns when writeLines does not run and will not.
func (l *lineLog) stopWriting() {
	l.mu.Lock()
	l.closing = true
	if l.timer != nil && l.timer.Stop() {
		l.writer.Done()
	}
	l.mu.Unlock()
	l.writer.Wait()
}

// eachUnfiled calls f for each transcript whose lines are not all in its file, and with unsynced
// also for those whose file is not durable. So many calls run at a time. It returns their errors.
func (t *transcripts) eachUnfiled(
	unsynced bool, atATime int, f func(session.Ref, *transcriptState) error,
) error {
	refs := t.lines.unfiled(unsynced)
	look := make(map[string]func() (bool, error)) // each directory is looked at once
	for _, ref := range refs {
		if dir := agentDir(ref.Key); look[dir] == nil {
			look[dir] = sync.OnceValues(func() (bool, error) { return t.checkDirs(ref) })
		}
	}
	errs := severalAtATime(len(refs), atATime, func(i int) error {
		return t.fileLines(refs[i], look[agentDir(refs[i].Key)], f)
	})
	return errors.Join(errs...)
}

// fileLines calls f for a transcript, which is waiting still if that fails.
func (t *transcripts) fileLines(
	ref session.Ref, look func() (bool, error), f func(session.Ref, *transcriptState) error,
) (err error) {
	x, _ := t.acquire(nil, ref)
	defer t.yield(ref, x)
	t.lines.mu.Lock()
	delete(t.lines.waiting, ref)
	t.lines.mu.Unlock()
	if x.inDir, err = look(); err == nil {
		_, err = t.restore(ref)
	}
	if err == nil {
		err = f(ref, x)
	}
	if err == nil {
		return nil
	}
	t.lines.mu.Lock()
	defer t.lines.mu.Unlock()
	t.lines.waiting[ref] = true
	return t.wrapError(ref, "write to its file", err)
}

// settleAll makes the files of all transcripts durable, as far as that can be done. What cannot be
// settled stays in the log. A directory is synced once for all of its files.
func (t *transcripts) settleAll() error {
	var mu sync.Mutex
	byDir := make(map[string][]session.Ref)
	err := t.eachUnfiled(true, t.syncs, func(ref session.Ref, x *transcriptState) error {
		wrote, err := t.syncLines(ref, x)
		if wrote {
			_, dir := t.agentOf(ref)
			mu.Lock()
			defer mu.Unlock()
			byDir[dir] = append(byDir[dir], ref)
		}
		return err
	})
	for dir, refs := range byDir {
		dirErr := t.fs.SyncDir(dir)
		if dirErr == nil {
			t.lines.named(refs)
		}
		err = errors.Join(err, dirErr)
	}
	t.lines.fail(err)
	return err
}

// fileNow writes the lines of a transcript to its file, for a person who looks at it, unless
// another call works with the transcript. The error is that of a later call.
func (t *transcripts) fileNow(ref session.Ref) {
	if t.lines == nil || t.closed.Load() {
		return
	}
	x, _ := t.acquire(nil, ref)
	defer t.yield(ref, x)
	var err error
	if x.inDir, err = t.checkDirs(ref); err == nil {
		if _, err := t.restore(ref); err == nil {
			_ = t.flush(ref, x)
		}
	}
}

// closeLines ends the lines of the log: what is in the log alone goes to the files, and the log
// says that it is there. Later appends go to the files. What cannot be done of that costs nothing:
// the log has the lines, and the next Open goes on with them. The error says that it has not all of
// them, because those that waited for a batch could not be written.
func (t *transcripts) closeLines() error {
	l := t.lines
	l.mu.Lock()
	shut := l.shut
	l.shut = true
	l.mu.Unlock()
	if shut {
		return nil
	}
	l.appends.Wait()
	l.stopWriting()
	err := t.settleAll()
	if err == nil {
		_ = l.ground(session.Ref{})
	}
	if !l.carries() {
		return nil
	}
	return fmt.Errorf("dirstore: lines that waited for a batch are lost: %w", err)
}

// pendingFile is a file whose last bytes are not in it yet. They begin at an offset.
type pendingFile struct {
	disk.File // nil: nothing is in it yet
	from      int64
	bytes     []byte
}

// ReadAt implements io.ReaderAt.
func (p pendingFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off < p.from {
		n, err = p.File.ReadAt(b[:min(int64(len(b)), p.from-off)], off)
		if err != nil || n == len(b) {
			return n, err
		}
	}
	more, err := bytes.NewReader(p.bytes).ReadAt(b[n:], off+int64(n)-p.from)
	return n + more, err
}

// Size implements disk.File.
func (p pendingFile) Size() (int64, error) { return p.from + int64(len(p.bytes)), nil }

// Close implements disk.File.
func (p pendingFile) Close() error {
	if p.File == nil {
		return nil
	}
	return p.File.Close()
}

var errPending = fmt.Errorf("dirstore: the file has pending lines: %w", errors.ErrUnsupported)

// WriteAt implements disk.File. Nothing is written before the pending bytes are in the file.
func (pendingFile) WriteAt([]byte, int64) (int, error) { return 0, errPending }

// Truncate implements disk.File.
func (pendingFile) Truncate(int64) error { return errPending }

// Sync implements disk.File.
func (pendingFile) Sync() error { return errPending }

// withPending returns the file of a transcript as a reader sees it until ctx is done.
func (x *transcriptState) withPending(ctx context.Context, f disk.File) disk.File {
	if len(x.pending) > 0 {
		f = pendingFile{f, x.filed(), x.pending}
	}
	return duringFile{f, ctx}
}
