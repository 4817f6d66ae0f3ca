package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// write is exclusive for a call that changes the transcript. Close waits for it.
func (t *transcripts) write(
	ctx context.Context, ref session.Ref, f func(*transcriptState) error,
) error {
	return t.change(ctx, ref, true, f)
}

// change is write. Without load it calls f also if the transcript cannot be read.
func (t *transcripts) change(
	ctx context.Context, ref session.Ref, load bool, f func(*transcriptState) error,
) error {
	return t.writing(ctx, func() error {
		if load {
			return t.exclusive(ctx, ref, f)
		}
		return t.hold(ctx, ref, f)
	})
}

// writing calls f, which may write. Close waits for it. The error is [session.ErrClosed] after
// Close, and [session.ErrReadOnly] if nothing may be written.
func (t *transcripts) writing(ctx context.Context, f func() error) error {
	t.mu.Lock()
	err := t.check(ctx)
	if err == nil && t.readOnly {
		err = session.ErrReadOnly
	}
	if err == nil {
		t.writers.Add(1)
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	defer t.writers.Done()
	return f()
}

// Append implements [session.Transcripts]. The first append creates the file.
func (t *transcripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	return t.appendMessages(ctx, session.Key{}, ref, after, messages)
}

// appendMessages is AppendWith, and Append for the zero root.
func (t *transcripts) appendMessages(
	ctx context.Context, root session.Key, ref session.Ref, after session.Pos,
	messages []session.Message,
) (last session.Pos, err error) {
	if err := ref.Validate(); err != nil {
		return 0, err
	}
	buf := payloadBuffers.Get().(*[]byte)
	lines, err := encodeLines((*buf)[:0], messages)
	if err == nil {
		err = t.write(ctx, ref, func(x *transcriptState) (err error) {
			last, err = t.append(ctx, ref, x, after, addition{lines: lines, root: root})
			return err
		})
	}
	if cap(lines) <= maxPooledBytes { // nothing keeps them: what goes on is a copy
		*buf = lines
		payloadBuffers.Put(buf)
	}
	if err != nil {
		return 0, t.wrapError(ref, "append", err)
	}
	return last, nil
}

// encodeLines adds the lines of messages to lines. The error is a *[LineSizeError] if one is too
// long.
func encodeLines(lines []byte, messages []session.Message) (_ []byte, err error) {
	for i := range messages {
		from := len(lines)
		if lines, err = messages[i].AppendJSON(lines); err != nil {
			return nil, err
		}
		// A write needs room for the line with its newline and the space before it.
		if size := len(lines) - from; size > maxLine-2 {
			return nil, &LineSizeError{Message: i, Size: size, Limit: maxLine - 2}
		}
		lines = append(lines, '\n')
	}
	return lines, nil
}

// An addition is what is added to a transcript.
type addition struct {
	lines  []byte      // of the caller's, who may use their memory again afterwards
	root   session.Key // of the tree whose next batch they may wait for; zero: they must not wait
	placed bool        // the lines are imported, and have their positions
}

func (t *transcripts) append(
	ctx context.Context, ref session.Ref, x *transcriptState, after session.Pos, add addition,
) (session.Pos, error) {
	if x.path == "" {
		return t.create(ref, x, after, add)
	}
	return t.extend(ctx, ref, x, after, add)
}

// extend adds lines to a transcript that exists.
func (t *transcripts) extend(
	ctx context.Context, ref session.Ref, x *transcriptState, after session.Pos, add addition,
) (session.Pos, error) {
	lines := add.lines
	if x.corrupt != nil {
		return 0, x.corrupt
	}
	if end := x.last(); after != end {
		return 0, conflictError(after, end)
	}
	if len(lines) == 0 {
		return after, nil
	}
	if add.placed && !x.placed {
		return 0, errNotPlaced
	}
	if !add.placed {
		var err error
		if lines, err = x.place(lines); err != nil {
			return 0, err
		}
	}
	if x.durable && !x.torn && t.lines.takes(len(lines)) && t.isIntact(x) {
		pos, err := t.appendToLog(ref, x, add.root, nil, markContinued(lines))
		if !errors.Is(err, errLinesShut) {
			return pos, err
		}
	}
	if err := t.ground(ref, x); err != nil {
		return 0, err
	}
	f, err := t.file(ctx, ref, x, os.O_RDWR)
	if err != nil {
		return 0, err
	}
	defer f.f.Close() //nolint:errcheck // what was written was synced
	if err := x.removeTail(t.fs, f); err != nil {
		return 0, err
	}
	if err := x.makeDurable(t.fs, f); err != nil {
		return 0, err
	}
	for len(lines) > 0 {
		n := firstWrite(lines)
		if err := x.write(f, markContinued(lines[:n:n])); err != nil {
			return 0, err
		}
		lines = lines[n:]
	}
	return x.last(), nil
}

// firstWrite returns how many bytes of lines are written at once: whole lines, or one if that is
// long. So what a crash leaves of a write has no hole that is longer than a line may be, also with
// the spaces before the lines.
func firstWrite(lines []byte) int {
	const limit = maxLine / 2
	if len(lines) <= limit {
		return len(lines)
	}
	if at := bytes.LastIndexByte(lines[:limit], '\n'); at >= 0 {
		return at + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// write adds lines at the end and makes them durable.
func (x *transcriptState) write(f *transcriptFile, lines []byte) error {
	_, err := f.f.WriteAt(lines, x.end)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		// Cutting the file and syncing it is safe even after a failed sync, because the lines that
		// could not be written are not needed.
		x.torn, x.inherited = f.cut(x.end) != nil, false
		return err
	}
	x.grow(lines)
	return nil
}

// removeTail removes the bytes beyond the end before a write. It saves those of an earlier process.
func (x *transcriptState) removeTail(fsys disk.FS, f *transcriptFile) (err error) {
	switch {
	case !x.torn:
		return nil
	case x.inherited:
		err = f.saveAndCut(fsys, x.end)
	default:
		err = f.cut(x.end)
	}
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	x.torn = false
	return nil
}

// makeDurable makes the lines and the name of the file durable before this process appends for the
// first time. The process that wrote them may have died before they were durable, or after a failed
// sync. Then reads show bytes that the disk gets only if they are written again.
func (x *transcriptState) makeDurable(fsys disk.FS, f *transcriptFile) error {
	if x.durable {
		return nil
	}
	if err := f.rewriteLast(x.end); err != nil {
		return fmt.Errorf("write again: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(x.path)); err != nil {
		return err
	}
	x.durable = true
	return nil
}

// tmpSuffix ends the name of a file that is not complete yet.
const tmpSuffix = ".tmp"

// create makes the file of a transcript, completely or not at all.
func (t *transcripts) create(
	ref session.Ref, x *transcriptState, after session.Pos, add addition,
) (session.Pos, error) {
	lines, placed := add.lines, add.placed
	names := x.namesOf(ref)
	name, err := t.archivedAs(ref, names, true)
	switch {
	case err != nil:
		return 0, err
	case name != "":
		return 0, archivedError(name)
	case after != 0:
		return 0, conflictError(after, 0)
	case len(lines) == 0:
		return 0, nil
	}
	head, err := headLine(ref, versionOf(placed))
	if err != nil {
		return 0, err
	}
	if t.lines.takes(len(lines)) {
		pos, err := t.beginInLog(ref, x, add.root, head, lines, placed)
		if !errors.Is(err, errLinesShut) {
			return pos, err
		}
	}
	dir, err := t.makeAgentDir(ref, false)
	if err != nil {
		return 0, err
	}
	tmp := filepath.Join(dir, names[1]+tmpSuffix) // only this transcript can have names[1]
	if err := t.writeFile(tmp, append(head, lines...)); err != nil {
		return 0, err
	}
	path, err := t.publish(ref, tmp, names)
	if err != nil {
		return 0, err
	}
	if err := t.fs.SyncDir(dir); err != nil {
		return 0, err
	}
	x.path, x.durable, x.torn = path, true, false
	x.second = filepath.Base(path) == names[1]
	x.head, x.end, x.placed = int64(len(head)), int64(len(head)), placed
	x.grow(lines)
	return x.last(), nil
}

// publish gives a complete transcript the first of the names that another transcript does not have.
// It returns the path.
func (t *transcripts) publish(ref session.Ref, tmp string, names [2]string) (string, error) {
	a, dir := t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	path, _, err := t.freeName(a, dir, names)
	if err != nil {
		return "", err
	}
	return path, t.fs.Rename(tmp, path)
}

// freeName returns the path of the first name that another transcript does not have, and whether
// that is the second one. The caller holds the mutex of a.
func (t *transcripts) freeName(
	a *agentFiles, dir string, names [2]string,
) (path string, second bool, err error) {
	path = filepath.Join(dir, names[0])
	taken, err := hasNew(t.fs, path)
	switch {
	case taken || a.reserved[strings.ToLower(names[0])]:
		// A file of this transcript would have been found before.
		return filepath.Join(dir, names[1]), true, nil
	case err != nil:
		return "", false, err
	}
	return path, false, nil
}

// writeFile writes a new file and makes its content durable.
func (t *transcripts) writeFile(name string, b []byte) error {
	f, err := disk.Create(t.fs, name)
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

// makeAgentDir makes the directory of an agent unless it exists, and returns its path. A caller
// that has just seen the directory says so.
func (t *transcripts) makeAgentDir(ref session.Ref, seen bool) (string, error) {
	a, dir := t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made {
		if seen {
			return dir, nil
		}
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
