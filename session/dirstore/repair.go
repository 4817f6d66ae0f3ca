package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Repaired is what [Repair] has done. The zero Repaired says that nothing was damaged.
type Repaired struct {
	Files []RepairedFile // the files that were damaged
	Trees []LostTree     // the trees of which something is known to be lost
	// Unknown are the files of the journal of which it is not known what else they had: a log that
	// was damaged or is missing, because what it had last of a tree leaves no gap, and an idle log
	// that does not tell its tree.
	Unknown []string
}

// A RepairedFile is one file that was damaged. Paths are relative to the directory.
type RepairedFile struct {
	Path  string
	Aside []string // the files that have what was damaged; empty: the file was missing
	Bytes int64    // how many bytes of the file could not be read
	Err   error    // what was wrong with it

	Transcript bool // the file is a transcript
	Lines      int  // of a transcript: the lines in whose place is a note
	Whole      bool // of a transcript: nothing of the file is left in its place
}

// Repair makes a directory usable that [Open] refuses or in which [Verify] finds damage. Nothing is
// removed: what is damaged stays beside what is left of it, in files with .torn in their names.
//
//	the log          is copied aside. A new one has all trees, each up to its last whole batch
//	                 before the damage. A snapshot behind the damage counts as well, and so does
//	                 the idle log of a tree if it has more of the tree. A log that is missing, or
//	                 is not the one that was closed, leaves the idle trees.
//	an idle tree     likewise. Its batches move to the log.
//	the members      of idle trees are looked for again, and their index is written anew. So they
//	                 are after each repair of the journal.
//	a transcript     keeps its intact lines at their positions, with notes in the place of the
//	                 others; see [session.Mender]. A damaged first line is replaced by one for the
//	                 session that fits the name of the file. A file is put aside as a whole if the
//	                 end of its first line is lost.
//	a kept file      is put aside as a whole. Open then returns [session.ErrNotFound] for it.
//
// A tree of which something is lost is as it was earlier. Its next owner opens it like one that
// another process left at that moment. What lies beyond that in its transcripts is fenced off.
//
// A repair of the log or of an idle tree leaves a [session.RepairMark]. The keys of what leaves a
// tree from then on have its ID, so that none is one that was handed out before the damage.
//
// Repair takes the lock of the directory. A second call finds nothing to do. If a process dies
// during the repair, another call completes it.
//
// The error is a *[LockedError] if a Store has the directory open, fs.ErrNotExist if there is
// nothing of a Store in the directory, [session.ErrFormat] if a newer version has written the log
// or another file, an *[UnsafeError] for a file that must not be used, the error of ctx, or one of
// the system. A file of a newer version other than the log keeps no other file from being repaired,
// nor does an unsafe one the log. The Repaired beside an error says what was done until then.
func Repair(ctx context.Context, dir string) (Repaired, error) {
	fsys, abs, err := resolveDir(dir)
	if err != nil {
		return Repaired{}, fmt.Errorf("dirstore: repair directory: %w", err)
	}
	lock := lockDir
	if fsys != disk.OS() {
		lock = noLock
	}
	return repairOn(ctx, fsys, abs, lock)
}

// repairOn is Repair on any file system.
func repairOn(
	ctx context.Context, fsys disk.FS, dir string, lock lockFunc,
) (done Repaired, err error) {
	r := repairer{fs: duringFS{fsys, ctx}, dir: dir}
	if err := needStore(fsys, dir); err != nil {
		return done, dirError("repair", dir, err)
	}
	held, err := lock(fsys, dir)
	if err != nil {
		return done, dirError("repair", dir, err)
	}
	if held != nil {
		r.fs = duringFS{heldFS{fsys, held}, ctx}
	}
	err = r.all(ctx)
	if err = errors.Join(err, held.release()); err != nil {
		err = dirError("repair", dir, err)
	}
	return r.done, err
}

// A repairer repairs one directory.
type repairer struct {
	fs   disk.FS
	dir  string
	done Repaired
}

// note adds a file to what was done.
func (r *repairer) note(path string, bytes int64, err error, aside ...string) {
	for i := range aside {
		aside[i] = r.relative(aside[i])
	}
	f := RepairedFile{Path: r.relative(path), Bytes: bytes, Err: err, Aside: aside}
	r.done.Files = append(r.done.Files, f)
}

func (r *repairer) relative(path string) string {
	if rel, err := filepath.Rel(r.dir, path); err == nil {
		return rel
	}
	return path
}

// A damagedFile is a file in which the verifier has found damage.
type damagedFile struct {
	path string
	err  error
}

// A findings has the damaged files of a directory by what they are.
type findings struct{ logs, idle, members, transcripts, files []damagedFile }

// findDamage returns the damaged files of a directory.
func (r *repairer) findDamage(ctx context.Context) (found findings, err error) {
	journals := filepath.Join(r.dir, journalDir)
	members := newMemberIndex(r.fs, journals).dir
	v := verifier{fs: r.fs, dir: r.dir, yield: func(f File, err error) bool {
		d := damagedFile{f.Path, logError(err)}
		switch {
		case err == nil:
		case isFilesDir(filepath.Base(filepath.Dir(f.Path))):
			found.files = append(found.files, d)
		case strings.HasPrefix(f.Path, filepath.Join(r.dir, sessionsDir)):
			found.transcripts = append(found.transcripts, d)
		case f.Path == members:
			if len(found.members) == 0 { // one of them is enough
				found.members = append(found.members, d)
			}
		case filepath.Dir(f.Path) == members:
			found.members = append(found.members, d)
		case filepath.Dir(f.Path) == journals || f.Path == journals:
			found.logs = append(found.logs, d)
		default:
			found.idle = append(found.idle, d)
		}
		return true
	}}
	err = v.all(ctx)
	return found, err
}

// all repairs the journal, then the transcripts and the kept files.
func (r *repairer) all(ctx context.Context) error {
	if err := r.lines(); err != nil {
		return err
	}
	found, err := r.findDamage(ctx)
	if err != nil {
		return err
	}
	idle, left := onlyCorrupt(found.idle)
	members, leftAlso := onlyCorrupt(found.members)
	transcripts, leftToo := onlyCorrupt(found.transcripts)
	files, leftFiles := onlyCorrupt(found.files)
	if err := r.journal(ctx, found.logs, idle); err != nil {
		return err
	}
	if len(found.logs)+len(idle)+len(members) > 0 {
		if err := r.members(ctx, members); err != nil {
			return err
		}
	}
	for _, d := range transcripts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.transcript(d); err != nil {
			return err
		}
	}
	for _, d := range files {
		if err := errors.Join(ctx.Err(), r.putAside(d)); err != nil {
			return err
		}
	}
	return errors.Join(left, leftAlso, leftToo, leftFiles)
}

// lines brings the lines of transcripts that are intact in the log to their files: a new log does
// not have them. What a file has that differs is damage. An unsafe file is left alone.
func (r *repairer) lines() error {
	x, err := salvageLog(r.fs, filepath.Join(r.dir, journalDir))
	if err != nil {
		return err
	}
	nothing := func() error { return nil }
	t := newTranscripts(r.fs, filepath.Join(r.dir, sessionsDir), false, x.lines, nothing)
	err = t.settleFound()
	if errors.Is(err, session.ErrUnsafe) {
		return nil
	}
	return err
}

// members puts damaged files of the index of members aside, and writes the members of all idle
// trees to a new one.
func (r *repairer) members(ctx context.Context, damaged []damagedFile) error {
	idle := newIdleLogs(r.fs, filepath.Join(r.dir, journalDir))
	for _, d := range damaged {
		if d.path == idle.members.dir {
			r.note(d.path, 0, d.err)
			continue
		}
		if err := r.putAside(d); err != nil {
			return err
		}
	}
	var entries []memberEntry
	for name, err := range idle.files() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		h, err := idle.head(name)
		if err != nil {
			continue // it was reported, and a newer version may know its members
		}
		if t, err := idle.read(h.Root); err == nil {
			entries = append(entries, t.members(h.Root)...)
		}
	}
	return idle.members.add(entries)
}

// onlyCorrupt returns the files that are corrupt. The error is about the others, which a newer
// version has written or the system cannot read. A repair leaves them alone.
func onlyCorrupt(files []damagedFile) (corrupt []damagedFile, others error) {
	for _, d := range files {
		if errors.Is(d.err, session.ErrCorrupt) {
			corrupt = append(corrupt, d)
		} else {
			others = errors.Join(others, d.err)
		}
	}
	return corrupt, others
}

// journal repairs the log and the idle logs. It puts the idle logs aside last, when the new log has
// what is left of them. Whatever was damaged, there is a new log, with a mark: what the damage took
// of which tree is not known for certain.
func (r *repairer) journal(ctx context.Context, logs, idle []damagedFile) error {
	if len(logs)+len(idle) == 0 {
		return nil
	}
	dir := filepath.Join(r.dir, journalDir)
	mark, logErr, err := sortLogs(r.fs, dir, logs)
	if err != nil {
		return err
	}
	x, err := salvageLog(r.fs, dir)
	if err != nil {
		return err
	}
	err = r.salvageIdle(x, idle)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := x.markRepaired(time.Now()); err != nil {
		return err
	}
	aside, err := x.log.Replace(r.fs, dir, logErr != nil, x.writeTo)
	if err != nil {
		return logError(err)
	}
	if logErr != nil {
		if _, ok := errors.AsType[*MissingLogError](logErr); ok {
			logErr = &session.CorruptError{File: x.log.File, Reason: "the log is missing"}
		}
		bytes := int64(0)
		for _, p := range x.log.Damaged {
			bytes += p.To - p.From
		}
		r.note(x.log.File, bytes, logErr, nonEmpty(aside)...)
		r.done.Unknown = append(r.done.Unknown, r.relative(x.log.File))
	}
	r.done.Trees = append(r.done.Trees, x.lostTrees()...)
	for _, d := range append(idle, mark...) {
		if err := r.putAside(d); err != nil {
			return err
		}
	}
	return nil
}

// nonEmpty returns a list of s, or of nothing if s is empty.
func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// sortLogs tells the mark of the end of the log from the log. The error says that one of the files
// is not damaged but cannot be repaired.
func sortLogs(
	fsys disk.FS, dir string, damaged []damagedFile,
) (mark []damagedFile, log, err error) {
	name, _ := wal.VerifyMark(fsys, dir)
	for _, d := range damaged {
		switch {
		case !errors.Is(d.err, session.ErrCorrupt) && !errors.Is(d.err, fs.ErrNotExist) &&
			(d.path != name || !errors.Is(d.err, session.ErrFormat)):
			return nil, nil, d.err
		case d.path == name:
			mark = append(mark, d)
		default:
			log = d.err
		}
	}
	return mark, log, nil
}

// salvageIdle adds what is intact of damaged idle logs to x, unless x has a newer state of the
// tree.
func (r *repairer) salvageIdle(x *salvage, damaged []damagedFile) error {
	idle := newIdleLogs(r.fs, filepath.Join(r.dir, journalDir))
	for _, d := range damaged {
		head, t, err := salvageIdle(&idle, d.path)
		if err != nil {
			return err
		}
		if head.Root.IsZero() {
			r.done.Unknown = append(r.done.Unknown, r.relative(d.path))
			continue
		}
		if old := x.trees[head.Root]; old != nil && len(old.batches) > 0 {
			continue
		}
		x.trees[head.Root] = t
	}
	return nil
}

// putAside gives a damaged file of which nothing more is needed another name.
func (r *repairer) putAside(d damagedFile) error {
	info, err := r.fs.Lstat(d.path)
	if err != nil {
		return err
	}
	name, err := moveAside(r.fs, d.path)
	if err == nil {
		r.note(d.path, info.Size(), d.err, name)
	}
	return err
}

// transcript repairs one transcript.
func (r *repairer) transcript(d damagedFile) error {
	f, err := r.fs.OpenFile(d.path, os.O_RDWR)
	if err != nil {
		return err
	}
	m := mender{fs: r.fs, f: transcriptFile{f: f, path: d.path}}
	err = m.mend(session.Ref{}, true)
	if err = errors.Join(err, f.Close()); err == nil && m.useless {
		err = m.moveAside()
	}
	if len(m.done.Aside) > 0 {
		r.note(d.path, m.done.Bytes, d.err, m.done.Aside...)
		f := &r.done.Files[len(r.done.Files)-1]
		f.Transcript, f.Lines, f.Whole = true, m.lines, m.useless
	}
	return err
}
