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

// A File is what [Verify] says of one file.
type File struct {
	Path  string // within the directory
	Bytes int64  // that are intact
	Parts int    // batches of a log, lines of a transcript

	// Torn is how many bytes at the end were never acknowledged: a crash has left them, and the
	// next Open, or write to the transcript, cuts them off; or the owner is writing them just now.
	Torn int64
}

// Verify reads every frame and entry of the log and of the idle trees, and every line of the
// transcripts, archived ones included, in a directory of [Open], and yields each file, with an
// error if it is not intact: a *[session.CorruptError], also for an entry that never was the JSON
// that its [session.Payload] should have been, which Append does not look into;
// [session.ErrFormat]; or that of the system if it cannot be read. It passes over what a repair has
// put aside, what is not whole, and the files of others. Like [View] it changes nothing and works
// beside the process that has the directory open. The package documentation says what it cannot
// see. An error beside the zero File says that the directory cannot be read, or that ctx is done,
// and ends the sequence.
func Verify(ctx context.Context, dir string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		fsys, abs, err := located(dir)
		v := verifier{fs: fsys, dir: abs, yield: func(f File, err error) bool {
			if rel, relErr := filepath.Rel(abs, f.Path); f.Path != "" && relErr == nil {
				f.Path = rel
			}
			return yield(f, logError(err))
		}}
		if err == nil {
			err = v.all(ctx)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(File{}, fmt.Errorf("dirstore: verify directory %q: %w", dir, err))
		}
	}
}

// errStopped ends a verification of which the caller has seen enough.
var errStopped = errors.New("dirstore: seen enough")

type verifier struct {
	fs    disk.FS
	dir   string
	yield func(File, error) bool
}

func (v verifier) say(ctx context.Context, f File, err error) error {
	if !v.yield(f, err) {
		return errStopped
	}
	return ctx.Err()
}

func (v verifier) all(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	logs := filepath.Join(v.dir, journalDir)
	if _, err := v.fs.Lstat(logs); err != nil {
		return err
	}
	if err := v.log(ctx, logs); err != nil {
		return err
	}
	idle := newIdleLogs(v.fs, logs)
	for name, err := range idle.files() {
		if err != nil {
			err = v.say(ctx, File{Path: name}, err)
		} else {
			err = v.idleLog(ctx, &idle, name)
		}
		if err != nil {
			return err
		}
	}
	return v.transcripts(ctx, filepath.Join(v.dir, sessionsDir))
}

func (v verifier) log(ctx context.Context, dir string) error {
	var j *journal
	view, r, err := wal.OpenView(v.fs, dir, func() { j = newJournal(v.fs, dir, nil) },
		func(at wal.Span, kind wal.Kind, payload []byte) error {
			if err := j.replay(at, kind, payload); err != nil {
				return err
			}
			return verifyBatch(payload)
		})
	if err == nil {
		err = view.Close()
	}
	if r.File == "" {
		r.File = dir
	}
	return v.say(ctx, File{Path: r.File, Bytes: r.Bytes, Parts: r.Frames, Torn: r.Torn}, err)
}

func (v verifier) idleLog(ctx context.Context, idle *idleLogs, name string) error {
	var t thaw
	r, err := idle.replay(name, func(kind wal.Kind, payload []byte) (storedBatch, error) {
		b, err := parseIdleBatch(kind, payload)
		if err == nil {
			err = t.add(kind, nil, b)
		}
		if err == nil {
			err = verifyBatch(payload)
		}
		return b, err
	})
	return v.say(ctx, File{Path: name, Bytes: r.Bytes, Parts: max(r.Frames-1, 0)}, err)
}

// verifyBatch looks at every entry of a batch.
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

func (v verifier) transcripts(ctx context.Context, dir string) error {
	agents, err := v.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.Type().IsRegular() { // a person's
			continue
		}
		if err := v.agent(ctx, filepath.Join(dir, a.Name())); err != nil {
			return err
		}
	}
	return nil
}

// agent verifies the transcripts in one directory, under whichever name they have by then: one that
// is gone was archived.
func (v verifier) agent(ctx context.Context, dir string) error {
	seen := make(map[string]bool)
	for gone := true; gone; {
		gone = false
		files, err := v.fs.ReadDir(dir)
		if err != nil {
			return v.say(ctx, File{Path: dir}, err)
		}
		for _, f := range files {
			name := f.Name()
			if seen[name] || !strings.HasSuffix(name, transcriptSuffix) && !strings.Contains(name, archiveMark) {
				continue
			}
			seen[name] = true
			err := v.transcript(ctx, filepath.Join(dir, name))
			if gone = gone || errors.Is(err, errGone); err != nil && !errors.Is(err, errGone) {
				return err
			}
		}
	}
	return nil
}

var errGone = errors.New("dirstore: the file is not there any more")

func (v verifier) transcript(ctx context.Context, path string) error {
	f, err := v.fs.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	if err != nil {
		return v.say(ctx, File{Path: path}, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	t := transcriptFile{f: f, path: path}
	d := File{Path: path}
	err = t.verify(&d)
	return v.say(ctx, d, err)
}

// verify looks at every line.
func (t *transcriptFile) verify(d *File) error {
	end, size, err := t.intact()
	if err != nil {
		return err
	}
	d.Torn = size - end
	r := lineReader{f: t.f, end: end}
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
			if _, err := parseHeadLine(t.path, line); err != nil {
				return err
			}
		default:
			var m session.Message
			if err := json.Unmarshal(line, &m); err != nil {
				return &session.CorruptError{File: t.path, Offset: d.Bytes, Reason: fmt.Sprintf("the line is not a message: %v", err)}
			}
		}
	}
}
