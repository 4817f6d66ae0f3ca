package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// write calls f, which changes a transcript, while no other call works with it. Close waits for it.
func (t *transcripts) write(ctx context.Context, ref session.Ref, f func(*transcript) error) error {
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
	return t.with(ctx, ref, f)
}

func (t *transcripts) Append(ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message) (last session.Pos, err error) {
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
		err = t.write(ctx, ref, func(x *transcript) (err error) {
			last, err = t.append(ref, x, after, lines)
			return err
		})
	}
	if err != nil {
		return 0, t.fail(ref, "append", err)
	}
	return last, nil
}

func (t *transcripts) append(ref session.Ref, x *transcript, after session.Pos, lines []byte) (session.Pos, error) {
	if x.path == "" {
		return t.begin(ref, x, after, lines)
	}
	if x.rot != nil {
		return 0, x.rot
	}
	if end := x.last(); after != end {
		return 0, fmt.Errorf("after %d, but it ends at %d: %w", after, end, session.ErrConflict)
	}
	if len(lines) == 0 {
		return after, nil
	}
	f, err := t.file(ref, x, os.O_RDWR)
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
	if _, err = f.f.WriteAt(lines, x.end); err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		// To cut the file and sync that is safe also after a sync that failed: what could not be
		// written is not needed.
		x.torn, x.found = f.cut(x.end) != nil, false
		return 0, err
	}
	x.end += int64(len(lines))
	return session.Pos(x.end), nil
}

// mend removes what stands beyond the end, so that something can be written there.
func (x *transcript) mend(fsys disk.FS, f *transcriptFile) (err error) {
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

// secure makes durable what was there already. The process that wrote it may have died before it
// was, or after a sync that failed: then the system shows what it will never write unless it is
// written again.
func (x *transcript) secure(fsys disk.FS, f *transcriptFile) error {
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

// tmpSuffix ends the name of a transcript that is not whole yet.
const tmpSuffix = ".tmp"

// begin makes the file of a transcript, whole or not at all.
func (t *transcripts) begin(ref session.Ref, x *transcript, after session.Pos, lines []byte) (session.Pos, error) {
	name, err := t.findArchived(ref, true)
	switch {
	case err != nil:
		return 0, err
	case name != "":
		return 0, fmt.Errorf("%w as %q", session.ErrArchived, name)
	case after != 0:
		return 0, fmt.Errorf("after %d, but it ends at 0: %w", after, session.ErrConflict)
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
	tmp := filepath.Join(dir, names[1]+tmpSuffix) // the name of no other transcript, whatever ids they have
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
	x.path, x.head, x.end, x.safe, x.torn = path, int64(len(head)), int64(len(head)+len(lines)), true, false
	return session.Pos(x.end), nil
}

// name gives a whole transcript the first of the names that no other transcript has.
func (t *transcripts) name(ref session.Ref, tmp string, names [2]string) (string, error) {
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

func (t *transcripts) writeWhole(name string, b []byte) error {
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

func (t *transcripts) makeAgentDir(ref session.Ref) (string, error) {
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
