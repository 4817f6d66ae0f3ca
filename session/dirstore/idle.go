package dirstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// idleLogs keep the logs of trees that are never due, one file each under a name made from the
// root, so that opening costs nothing for them and finding one does not depend on how many there
// are:
//
//	<dir>/idle/3f/3f9a....wal     head frame, then the batches
//
// What the write-ahead log says of a tree is newer. A file is replaced when its tree becomes idle
// again, and never removed.
type idleLogs struct {
	fs    disk.FS
	dir   string
	dirty map[string]bool // directories with names that are not durable; only freeze uses it
	made  map[string]bool // directories that are there, likewise
}

const idleSuffix = ".wal"

func newIdleLogs(fsys disk.FS, dir string) idleLogs {
	return idleLogs{fs: fsys, dir: filepath.Join(dir, "idle"), dirty: make(map[string]bool), made: make(map[string]bool)}
}

func (x *idleLogs) path(root session.Key) string {
	sum := sha256.Sum256([]byte(root.String()))
	name := hex.EncodeToString(sum[:16])
	return filepath.Join(x.dir, name[:2], name+idleSuffix)
}

// read returns the log of root, which has no batches if there is none.
func (x *idleLogs) read(root session.Key) (t thaw, err error) {
	_, err = disk.LookUp(x.fs, x.journal(), func() error {
		t = thaw{}
		_, err := x.replay(x.path(root), func(kind wal.Kind, payload []byte) (storedBatch, error) {
			payload = bytes.Clone(payload)
			b, err := parseIdleBatch(kind, payload)
			if err == nil {
				err = t.add(kind, payload, b)
			}
			return b, err
		})
		return err
	})
	return t, err
}

// journal returns the directory that is there as long as anything is.
func (x *idleLogs) journal() string { return filepath.Dir(x.dir) }

// replay calls batch with each batch of a file, and fails unless the file is whole and has what its
// name and its head say.
func (x *idleLogs) replay(name string, batch func(wal.Kind, []byte) (storedBatch, error)) (wal.Report, error) {
	var head session.Head
	var last session.Seq
	r, err := wal.ReadFile(x.fs, name, func(_ wal.Span, kind wal.Kind, payload []byte) (err error) {
		if head.Root.IsZero() {
			head, err = x.parseHead(name, kind, payload)
			return err
		}
		b, err := batch(kind, payload)
		if err == nil && b.root != head.Root {
			err = fmt.Errorf("a batch of %q in the log of %q", b.root, head.Root)
		}
		last = b.last()
		return err
	})
	if err == nil && (head.Root.IsZero() || last != head.Last) {
		err = &session.CorruptError{File: name, Offset: r.Bytes, Reason: fmt.Sprintf("the log ends at entry %d, and says at %d", last, head.Last)}
	}
	return r, err
}

func parseIdleBatch(kind wal.Kind, payload []byte) (storedBatch, error) {
	if kind != frameBatch && kind != frameImage {
		return storedBatch{}, &wal.FormatError{What: fmt.Sprintf("frame kind %d", kind)}
	}
	return parseBatch(payload, session.ParseRoot)
}

func parseIdleHead(b []byte) (session.Head, error) {
	last, n := binary.Uvarint(b)
	if n < 1 {
		return session.Head{}, errBatch
	}
	root, err := session.ParseRoot(string(b[n:]))
	return session.Head{Root: root, Last: session.Seq(last)}, err
}

// write makes the log of root what is at the frames. It is durable after sync.
func (x *idleLogs) write(root session.Key, view *wal.View, frames []batchSpan) error {
	name := x.path(root)
	shard := filepath.Dir(name)
	for _, d := range []string{x.dir, shard} {
		if x.made[d] {
			continue
		}
		if err := disk.MakeDir(x.fs, filepath.Dir(d), d); err != nil {
			return fmt.Errorf("make idle log: %w", err)
		}
		x.made[d] = true
		x.sweep(d)
	}
	x.dirty[shard] = true
	return wal.WriteFile(x.fs, name, func(w *wal.Writer) error {
		head := binary.AppendUvarint(nil, uint64(frames[len(frames)-1].last()))
		if _, err := w.Append(frameIdle, append(head, root.String()...)); err != nil {
			return err
		}
		_, err := carry(view, w, frames)
		return err
	})
}

// sweep removes what a process that died has left half written in a directory. Nothing else writes
// there.
func (x *idleLogs) sweep(dir string) {
	files, _ := x.fs.ReadDir(dir) // or the next time
	for _, f := range files {
		if strings.HasSuffix(f.Name(), idleSuffix+tmpSuffix) {
			_ = x.fs.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// sync makes the names of what was written durable.
func (x *idleLogs) sync() error {
	for d := range x.dirty {
		if err := x.fs.SyncDir(d); err != nil {
			return fmt.Errorf("sync idle logs: %w", err)
		}
		delete(x.dirty, d)
	}
	return nil
}

// files yields the paths of all idle logs. What cannot be read is yielded as an error, beside the
// path of its directory, and does not hide the rest.
func (x *idleLogs) files() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var shards []fs.DirEntry
		_, err := disk.LookUp(x.fs, x.journal(), func() (err error) {
			shards, err = x.fs.ReadDir(x.dir)
			return err
		})
		if err != nil {
			yield(x.dir, err)
			return
		}
		for _, shard := range shards {
			if !shard.IsDir() {
				continue
			}
			dir := filepath.Join(x.dir, shard.Name())
			files, err := x.fs.ReadDir(dir)
			if err != nil && !yield(dir, err) {
				return
			}
			for _, f := range files {
				if strings.HasSuffix(f.Name(), idleSuffix) && !yield(filepath.Join(dir, f.Name()), nil) {
					return
				}
			}
		}
	}
}

// none returns an error if there is any idle log.
func (x *idleLogs) none() error {
	for name, err := range x.files() {
		if err == nil {
			err = &session.CorruptError{File: name, Reason: "an idle log, but the write-ahead log is missing that is always made before one"}
		}
		return err
	}
	return nil
}

// heads yields the heads of all idle logs that can be read, and then, if there are others, what is
// wrong with the first of them.
func (x *idleLogs) heads() iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		var bad error
		n := 0
		for name, err := range x.files() {
			var h session.Head
			if err == nil {
				h, err = x.head(name)
			}
			switch {
			case err == nil && !yield(h, nil):
				return
			case err != nil:
				if n++; n == 1 {
					bad = logError(err)
				}
			}
		}
		if n > 1 {
			bad = fmt.Errorf("%w (the first of %d, which Verify lists)", bad, n)
		}
		if bad != nil {
			yield(session.Head{}, bad)
		}
	}
}

// head returns what the first frame of an idle log says.
func (x *idleLogs) head(name string) (h session.Head, err error) {
	_, err = wal.ReadFile(x.fs, name, func(_ wal.Span, kind wal.Kind, payload []byte) (err error) {
		if h, err = x.parseHead(name, kind, payload); err == nil {
			err = wal.ErrStop
		}
		return err
	})
	if err == nil && h.Root.IsZero() {
		err = &session.CorruptError{File: name, Reason: "nothing is in the log"}
	}
	return h, err
}

// parseHead reads the first frame of a file, which must be that of the root whose log has this
// name.
func (x *idleLogs) parseHead(name string, kind wal.Kind, payload []byte) (session.Head, error) {
	if kind != frameIdle {
		return session.Head{}, errBatch
	}
	h, err := parseIdleHead(payload)
	if err == nil && x.path(h.Root) != name {
		err = fmt.Errorf("the log of %q under the name of another", h.Root)
	}
	return h, err
}
