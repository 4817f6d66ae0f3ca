package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// archiveMark stands between the plain name and the time in the name of an archived transcript.
const archiveMark = transcriptSuffix + ".deleted."

// isTorn reports whether a file has what was cut off or put aside.
func isTorn(name string) bool {
	mark := strings.LastIndex(name, tornMark) // a session id may contain it too
	return mark >= 0 && strings.Trim(name[mark+len(tornMark):], "0123456789.") == ""
}

// tornMark stands between the name of a file and the offset in the name of its .torn file.
const tornMark = ".torn."

// findArchived returns the name of the archived file of ref, or "" if there is none. It reads the
// directory the first time, and when the name may be there.
func (t *transcripts) findArchived(ref session.Ref) (string, error) {
	return t.archivedAs(ref, transcriptNames(ref), false)
}

// archivedAs is findArchived for a caller that has the names of the file. If creating is set for
// the first time, it also removes the temporary files of dead processes. These were never
// acknowledged.
func (t *transcripts) archivedAs(
	ref session.Ref, bases [2]string, creating bool,
) (string, error) {
	a, dir := t.agentOf(ref)
	a.mu.Lock()
	defer a.mu.Unlock()
	clean := creating && !a.cleaned
	known := a.archived != nil && !clean && !t.readOnly
	if known && !a.archived[strings.ToLower(bases[0])] && !a.archived[strings.ToLower(bases[1])] {
		return "", nil
	}
	var entries []fs.DirEntry
	if err := t.lookUp(func() (err error) {
		entries, err = t.fs.ReadDir(dir)
		return err
	}); err != nil {
		return "", err
	}
	all := make(map[string]bool)
	found := ""
	for _, e := range entries {
		// This process has not created a temporary file here yet.
		if clean && strings.HasSuffix(e.Name(), transcriptSuffix+tmpSuffix) {
			_ = t.fs.Remove(filepath.Join(dir, e.Name())) // a later process tries again
		}
		mark := strings.LastIndex(e.Name(), archiveMark) // a session id may contain it too
		if mark < 0 || isTorn(e.Name()) || isFilesDir(e.Name()) {
			continue
		}
		base := e.Name()[:mark] + transcriptSuffix
		all[strings.ToLower(base)] = true
		if found != "" || base != bases[0] && base != bases[1] {
			continue
		}
		f, ok, err := openTranscript(t.fs, filepath.Join(dir, e.Name()), ref, os.O_RDONLY)
		if err != nil {
			return "", err
		}
		if ok {
			_ = f.f.Close()
			found = e.Name()
		}
	}
	a.archived, a.cleaned = all, a.cleaned || clean
	return found, nil
}

// Archive implements [session.Transcripts]. It cuts off what a crash has left before it renames the
// file.
func (t *transcripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	if err := ref.Validate(); err != nil {
		return "", err
	}
	err = t.write(ctx, ref, func(x *transcriptState) (err error) {
		name, err = t.archive(ctx, ref, x, at)
		return err
	})
	if err != nil {
		return "", t.wrapError(ref, "archive", err)
	}
	return name, nil
}

func (t *transcripts) archive(
	ctx context.Context, ref session.Ref, x *transcriptState, at time.Time,
) (string, error) {
	a, dir := t.agentOf(ref)
	if x.path == "" {
		name, err := t.findArchived(ref)
		if name != "" && err == nil {
			err = t.fs.SyncDir(dir) // the Archive before may have died before it did this
		}
		return name, err
	}
	if err := t.ground(ref, x); err != nil {
		return "", err
	}
	if err := t.repairFile(ctx, ref, x); err != nil {
		return "", err
	}
	path := x.path
	base := filepath.Base(path)
	name, err := freeArchiveName(t.fs, path, at)
	if err != nil {
		return "", err
	}
	if err := t.fs.Rename(path, filepath.Join(dir, name)); err != nil {
		return "", t.forgetMissing(x, err)
	}
	x.path = "" // the next call looks for a file again
	a.mu.Lock()
	if a.archived != nil {
		a.archived[strings.ToLower(base)] = true
	}
	a.mu.Unlock()
	return name, t.fs.SyncDir(dir)
}

// freeArchiveName returns the name for what is at path, with the first time from at on for which
// the name is free.
func freeArchiveName(fsys disk.FS, path string, at time.Time) (string, error) {
	dir, base := filepath.Split(path)
	for ; ; at = at.Add(time.Millisecond) {
		name := session.ArchiveName(base, at)
		if _, err := fsys.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// archivedFile opens an archived transcript for reading, or returns nil if there is none. Unless
// wanted is set, it returns an error for one that there is.
func (t *transcripts) archivedFile(
	ctx context.Context, ref session.Ref, wanted bool,
) (*transcriptFile, error) {
	name, err := t.findArchived(ref)
	switch {
	case err != nil || name == "":
		return nil, err
	case !wanted:
		return nil, archivedError(name)
	}
	_, dir := t.agentOf(ref)
	f, ok, err := openTranscript(t.fs, filepath.Join(dir, name), ref, os.O_RDONLY)
	if err != nil || !ok { // removed just now
		return nil, err
	}
	f.f = duringFile{f.f, ctx}
	if f.end, _, err = f.findEnd(); errors.Is(err, session.ErrCorrupt) {
		f.corrupt, err = err, nil
	}
	if err != nil {
		_ = f.f.Close()
		return nil, err
	}
	return f, nil
}

func archivedError(name string) error { return fmt.Errorf("%w as %q", session.ErrArchived, name) }

// Restore implements [session.Transcripts]. It renames the file to the name that it had, or to the
// other one if another transcript has that name now.
func (t *transcripts) Restore(ctx context.Context, ref session.Ref) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	err := t.write(ctx, ref, func(x *transcriptState) error {
		_, dir := t.agentOf(ref)
		if x.path != "" {
			return t.fs.SyncDir(dir) // the Restore before may have died before it did this
		}
		name, err := t.findArchived(ref)
		if err == nil && name == "" {
			err = session.ErrNotFound
		}
		if err != nil {
			return err
		}
		base := name[:strings.LastIndex(name, archiveMark)] + transcriptSuffix
		if fileExists(t.fs, filepath.Join(dir, base)) {
			base = transcriptNames(ref)[1]
		}
		if fileExists(t.fs, filepath.Join(dir, base)) {
			return fmt.Errorf("%q is the name of another transcript: %w", base, fs.ErrExist)
		}
		if err := t.fs.Rename(filepath.Join(dir, name), filepath.Join(dir, base)); err != nil {
			return err
		}
		return t.fs.SyncDir(dir)
	})
	if err != nil {
		return t.wrapError(ref, "restore", err)
	}
	return nil
}

// Archives implements [session.Transcripts]. It leaves out a file of which a repair has lost whose
// it is.
func (t *transcripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	return func(yield func(session.Archived, error) bool) {
		more := true
		err := t.eachName(ctx, func(agent, name string) (bool, error) {
			a, ok, err := t.archiveAt(filepath.Join(t.dir, agent), name, before)
			if ok {
				more = yield(a, nil)
			}
			return more, err
		})
		if err != nil && more {
			yield(session.Archived{}, fmt.Errorf("dirstore: archived transcripts: %w", transcriptError(err)))
		}
	}
}

// names returns the names in a directory, which need not exist.
func (t *transcripts) names(ctx context.Context, dir string) (names []string, err error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	err = t.lookUp(func() error {
		entries, err := t.fs.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return err
	})
	return names, err
}

// archiveAt returns the transcript that was archived before a time as a file of a directory. It
// returns false for a file that is not one, and for one that is gone.
func (t *transcripts) archiveAt(
	dir, name string, before time.Time,
) (a session.Archived, ok bool, err error) {
	a.At, ok = session.ArchiveTime(name)
	if !strings.Contains(name, archiveMark) || !ok || isTorn(name) || isFilesDir(name) ||
		!before.IsZero() && !a.At.Before(before) {
		return a, false, nil
	}
	path := filepath.Join(dir, name)
	f, err := t.fs.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	id, _, err := readHead(f, path)
	_ = f.Close()
	if err != nil || id.isLost() {
		return a, false, err
	}
	a.Ref.SessionID = id.SessionID
	if a.Ref.Key, err = session.Parse(id.Key); err == nil {
		err = a.Ref.Validate()
	}
	return a, err == nil, err
}

// Remove implements [session.Transcripts]. It also removes what was cut off or put aside of the
// transcript, and the file itself last.
func (t *transcripts) Remove(ctx context.Context, ref session.Ref) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	err := t.write(ctx, ref, func(x *transcriptState) error {
		if x.path != "" {
			return session.ErrNotArchived
		}
		_, dir := t.agentOf(ref)
		name, err := t.findArchived(ref)
		if err == nil && name != "" {
			err = t.removeArchived(dir, name)
		}
		if err != nil || !fileExists(t.fs, dir) {
			return err
		}
		return t.fs.SyncDir(dir) // also if the Remove before has died before it did this
	})
	if err != nil {
		return t.wrapError(ref, "remove", err)
	}
	return nil
}

// removeArchived removes an archived file and the .torn files of it. Those of its name before the
// archive are left alone if another transcript has that name now.
func (t *transcripts) removeArchived(dir, name string) error {
	base := name[:strings.LastIndex(name, archiveMark)] + transcriptSuffix
	free := !fileExists(t.fs, filepath.Join(dir, base))
	entries, err := t.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		mine := strings.HasPrefix(e.Name(), name+tornMark) ||
			free && strings.HasPrefix(e.Name(), base+tornMark)
		if !mine || !isTorn(e.Name()) {
			continue
		}
		if err := t.fs.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return t.fs.Remove(filepath.Join(dir, name))
}

// repairFile cuts off what a crash has left beyond the end of the file. No later call would do it
// in an archived file.
func (t *transcripts) repairFile(
	ctx context.Context, ref session.Ref, x *transcriptState,
) error {
	if !x.torn {
		return nil
	}
	f, err := t.file(ctx, ref, x, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(x.removeTail(t.fs, f), f.f.Close())
}
