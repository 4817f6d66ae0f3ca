package dirstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// A File is what [Verify] reports about one file.
type File struct {
	Path  string // relative to the directory
	Bytes int64  // length of the intact part
	Parts int    // number of batches of a log, or lines of a transcript; of a kept file 0

	// Torn is the number of bytes at the end that were never acknowledged. A crash has left them,
	// or the owner of the directory is writing them just now. The next Open, or the next write to
	// the transcript, cuts them off.
	Torn int64
}

// Verify reads every byte of a directory of [Open]: the frames and entries of the log and of the
// idle trees, the lines of the transcripts, and the kept files against their hashes, archived ones
// included. It yields each file, with an error if the file is not intact:
//
//	*[session.CorruptError]   the file has rotted, or an entry is not JSON; Append does not
//	                          check that a [session.Payload] has encoded JSON
//	[session.ErrFormat]       a newer version has written the file
//	another error             the system cannot read the file
//
// Verify passes over .torn files, temporary files, and the files of other programs. Like [View] it
// changes nothing and works beside the process that has the directory open. The package
// documentation lists what it cannot see.
//
// An error beside the zero File says that the directory cannot be read or that ctx is done. It ends
// the sequence.
func Verify(ctx context.Context, dir string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		fsys, abs, err := resolveDir(dir)
		if err != nil {
			yield(File{}, dirError("verify", abs, err))
			return
		}
		verifyOn(ctx, fsys, abs)(yield)
	}
}

// verifyOn is Verify on any file system.
func verifyOn(ctx context.Context, fsys disk.FS, abs string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		v := verifier{fs: fsys, dir: abs, yield: func(f File, err error) bool {
			if rel, relErr := filepath.Rel(abs, f.Path); f.Path != "" && relErr == nil {
				f.Path = rel
			}
			return yield(f, logError(err))
		}}
		if err := v.all(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(File{}, dirError("verify", abs, err))
		}
	}
}

// errStopped ends a verification whose caller has left the loop.
var errStopped = errors.New("dirstore: the caller has left the loop")

// A verifier verifies one directory.
type verifier struct {
	fs    disk.FS
	dir   string
	yield func(File, error) bool
}

// report yields one file. The error says that the verification must end.
func (v verifier) report(ctx context.Context, f File, err error) error {
	if done := ctx.Err(); done != nil && errors.Is(err, done) {
		return done // the file was not read to its end
	}
	if !v.yield(f, err) {
		return errStopped
	}
	return ctx.Err()
}

// all verifies the log, the idle logs, the transcripts and their files.
func (v verifier) all(ctx context.Context) error {
	during := verifier{fs: duringFS{v.fs, ctx}, dir: v.dir, yield: v.yield}
	return during.files(ctx)
}

// files is all on files that can be read until ctx is done.
func (v verifier) files(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	logs := filepath.Join(v.dir, journalDir)
	if _, err := v.fs.Lstat(logs); errors.Is(err, fs.ErrNotExist) {
		return missingLog(v.fs, v.dir, err)
	} else if err != nil {
		return err
	}
	watch := watchLog(v.fs, logs)
	inLog, lines, err := v.log(ctx, logs)
	if err != nil {
		return err
	}
	idle := newIdleLogs(v.fs, logs)
	if err := v.members(ctx, &idle.members); err != nil {
		return err
	}
	for name, err := range idle.files() {
		if err != nil {
			err = v.report(ctx, File{Path: name}, err)
		} else {
			err = v.idleLog(ctx, &idle, name, inLog)
		}
		if err != nil {
			return err
		}
	}
	sessions := filepath.Join(v.dir, sessionsDir)
	over := v
	over.fs = lines.over(v.fs, sessions, watch)
	return over.transcripts(ctx, sessions)
}

// members verifies the index of members. A file that disappears meanwhile was merged with others,
// which are verified then.
func (v verifier) members(ctx context.Context, x *memberIndex) error {
	seen := make(map[uint64]bool)
	for gone := true; gone; {
		gone = false
		numbers, _, err := x.files()
		if err != nil {
			return v.report(ctx, File{Path: x.dir}, err)
		}
		for _, n := range numbers {
			if seen[n] {
				continue
			}
			seen[n] = true
			all, r, err := x.read(x.path(n))
			if gone = gone || errors.Is(err, fs.ErrNotExist); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			d := File{Path: x.path(n), Bytes: r.Bytes, Parts: len(all)}
			if err := v.report(ctx, d, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// log verifies the write-ahead log, and returns the trees and the lines of transcripts that it has.
// It yields the mark of its end only if that is damaged.
func (v verifier) log(
	ctx context.Context, dir string,
) (trees map[session.Key]*treeLog, lines *lineLog, err error) {
	var j *journal
	batches := 0
	view, r, err := wal.OpenView(v.fs, dir,
		func() { j, batches = newJournal(v.fs, dir, nil), 0 },
		func(at wal.Span, kind wal.Kind, payload []byte) error {
			if err := j.replay(at, kind, payload); err != nil {
				return err
			}
			if kind == frameLines || kind == frameGrounded {
				return nil
			}
			batches++
			return verifyBatch(payload)
		})
	if err == nil {
		err = view.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = missingLog(v.fs, v.dir, err)
	}
	if r.File == "" {
		r.File = dir
	}
	err = v.report(ctx, File{Path: r.File, Bytes: r.Bytes, Parts: batches, Torn: r.Torn}, err)
	if err != nil {
		return nil, nil, err
	}
	if name, err := wal.VerifyMark(v.fs, dir); err != nil {
		return j.logs, j.lines, v.report(ctx, File{Path: name}, err)
	}
	return j.logs, j.lines, nil
}

// idleLog verifies one idle log, and that the index has its members, unless the tree is in the
// write-ahead log: the file is out of date then.
func (v verifier) idleLog(
	ctx context.Context, idle *idleLogs, name string, inLog map[session.Key]*treeLog,
) error {
	var t idleTree
	var root session.Key
	r, err := idle.replay(name, func(kind wal.Kind, payload []byte) (storedBatch, error) {
		b, err := parseIdleBatch(kind, payload)
		if err == nil {
			root = b.root
			err = t.add(kind, nil, b)
		}
		if err == nil {
			err = verifyBatch(payload)
		}
		return b, err
	})
	d := File{Path: name, Bytes: r.Bytes, Parts: max(r.Frames-1, 0)}
	if err := v.report(ctx, d, err); err != nil || root.IsZero() || inLog[root] != nil {
		return err
	}
	if err := idle.members.lacks(t.members(root)); err != nil {
		return v.report(ctx, File{Path: idle.members.dir}, err)
	}
	return nil
}

// verifyBatch returns an error if a batch or one of its entries is not intact.
func verifyBatch(payload []byte) error {
	b, err := parseBatch(payload, session.ParseRoot)
	if err != nil {
		return err
	}
	bad := session.Seq(0)
	err = b.each(func(seq session.Seq, r session.Raw) bool {
		if !json.Valid(r) {
			bad = seq
		}
		return bad == 0
	})
	if bad != 0 {
		return fmt.Errorf("entry %d of %q is not JSON", bad, b.root)
	}
	return err
}

// transcripts verifies the directories of all agents.
func (v verifier) transcripts(ctx context.Context, dir string) error {
	if err := disk.CheckDir(v.fs, dir); err != nil {
		return v.report(ctx, File{Path: dir}, err)
	}
	agents, err := v.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.Type().IsRegular() { // a file of another program
			continue
		}
		if err := v.agentDir(ctx, filepath.Join(dir, a.Name())); err != nil {
			return err
		}
	}
	return nil
}

// agentDir verifies the transcripts in one directory. A transcript that disappears meanwhile was
// archived, so agentDir reads the directory again and verifies it under its new name.
func (v verifier) agentDir(ctx context.Context, dir string) error {
	if err := disk.CheckDir(v.fs, dir); err != nil {
		return v.report(ctx, File{Path: dir}, err)
	}
	seen := make(map[string]bool)
	for gone := true; gone; {
		gone = false
		entries, err := v.fs.ReadDir(dir)
		if err != nil {
			return v.report(ctx, File{Path: dir}, err)
		}
		for _, e := range entries {
			if seen[e.Name()] {
				continue
			}
			seen[e.Name()] = true
			err := v.entry(ctx, filepath.Join(dir, e.Name()))
			if gone = gone || errors.Is(err, errGone); err != nil && !errors.Is(err, errGone) {
				return err
			}
		}
	}
	return nil
}

// entry verifies what is in the directory of an agent: a transcript, or the files of one. It passes
// over everything else.
func (v verifier) entry(ctx context.Context, path string) error {
	name := filepath.Base(path)
	current := strings.HasSuffix(name, transcriptSuffix)
	archived := strings.Contains(name, archiveMark)
	switch {
	case isTorn(name):
		return nil
	case isFilesDir(name):
		return v.filesDir(ctx, path)
	case current || archived:
		return v.transcript(ctx, path)
	}
	return nil
}

// filesDir verifies the files of one transcript. The error is errGone if the directory does not
// exist any more.
func (v verifier) filesDir(ctx context.Context, dir string) error {
	if err := disk.CheckDir(v.fs, dir); err != nil {
		return v.report(ctx, File{Path: dir}, err)
	}
	entries, err := v.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	if err != nil {
		return v.report(ctx, File{Path: dir}, err)
	}
	gone := false
	for _, e := range entries {
		if !isFileName(e.Name()) {
			continue
		}
		err := v.file(ctx, filepath.Join(dir, e.Name()))
		if gone = gone || errors.Is(err, errGone); err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	if gone {
		return errGone
	}
	return nil
}

// file verifies one kept file. The error is errGone if the file does not exist any more.
func (v verifier) file(ctx context.Context, path string) error {
	f, err := openFile(v.fs, path)
	if err != nil {
		return v.report(ctx, File{Path: path}, err)
	}
	if f == nil {
		return errGone
	}
	defer f.Close() //nolint:errcheck // nothing was written
	d := File{Path: path}
	if _, err = io.Copy(io.Discard, f); err == nil {
		d.Bytes = f.size
	}
	return v.report(ctx, d, err)
}

// errGone is returned by the methods of a verifier for what does not exist any more.
var errGone = errors.New("dirstore: the file does not exist any more")

// transcript verifies one file. The error is errGone if the file does not exist any more.
func (v verifier) transcript(ctx context.Context, path string) error {
	f, err := v.fs.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	if err != nil {
		return v.report(ctx, File{Path: path}, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	t := transcriptFile{f: f, path: path}
	d := File{Path: path}
	err = t.verify(&d)
	return v.report(ctx, d, err)
}

// verify reads every line and fills in f.
func (t *transcriptFile) verify(d *File) error {
	end, size, err := t.findEnd()
	if err != nil {
		return err
	}
	d.Torn = size - end
	r := t.reader(0, end)
	var before session.Pos
	for ; ; d.Parts++ {
		d.Bytes = r.off
		line, err := r.next()
		switch {
		case errors.Is(err, io.EOF) && d.Parts > 0:
			d.Parts-- // the first line is not a message
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case d.Parts == 0:
			id, err := parseHeadLine(t.path, line)
			if err == nil {
				err = id.checkName(t.path)
			}
			if err != nil {
				return err
			}
			t.placed = id.Version == placedVersion
		case t.placed:
			l, err := placedLine(line, before)
			if err != nil {
				return messageError(t.path, d.Bytes, err)
			}
			before = max(before, l.Pos)
		case !isBlank(line):
			if _, err := parseLine(line); err != nil {
				return messageError(t.path, d.Bytes, err)
			}
		}
	}
}
