package dirstore

import (
	"bytes"
	"context"
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

// The idleLogs hold the trees that are never due, each in a file of its own. The name of the file
// is made from the root. So opening the store costs nothing for idle trees, and finding one costs
// the same however many there are.
//
//	<dir>/idle/3f/3f9a....wal     frameIdleHead, then the batches
//	<dir>/members/00000007.idx    which sessions are members of which of them
//
// If the write-ahead log has batches of a tree, these are newer than the file of the tree. A file
// is replaced when its tree becomes idle again. It is never removed.
type idleLogs struct {
	fs       disk.FS
	dir      string
	unsynced map[string]bool // directories with names that are not durable; for moveIdleTrees alone
	made     map[string]bool // directories that exist; for moveIdleTrees alone
	members  memberIndex
}

const idleSuffix = ".wal"

func newIdleLogs(fsys disk.FS, dir string) idleLogs {
	return idleLogs{
		fs: fsys, dir: filepath.Join(dir, "idle"),
		unsynced: make(map[string]bool), made: make(map[string]bool),
		members: newMemberIndex(fsys, dir),
	}
}

// during returns the idle logs whose files can be read until ctx is done. They are good for reading
// alone.
func (x *idleLogs) during(ctx context.Context) *idleLogs {
	fsys := duringFS{x.fs, ctx}
	return &idleLogs{fs: fsys, dir: x.dir, members: memberIndex{fsys, x.members.dir}}
}

// path returns the path of the idle log of root.
func (x *idleLogs) path(root session.Key) string { return x.pathOf(idOf(root)) }

// pathOf returns the path of the idle log of a root with this id.
func (x *idleLogs) pathOf(root keyID) string {
	name := hex.EncodeToString(root[:])
	return filepath.Join(x.dir, name[:2], name+idleSuffix)
}

// read returns the idle log of root. It returns the zero idleTree if there is none.
func (x *idleLogs) read(root session.Key) (t idleTree, err error) {
	_, err = disk.LookUp(x.fs, x.parentDir(), func() error {
		t = idleTree{}
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

// parentDir returns the directory of the journal. It exists as long as the store is in reach.
func (x *idleLogs) parentDir() string { return filepath.Dir(x.dir) }

// replay calls batch with each batch of the file name. The error is a *[session.CorruptError]
// unless the file is complete and has the tree that its name and its head promise.
func (x *idleLogs) replay(
	name string, batch func(wal.Kind, []byte) (storedBatch, error),
) (wal.Report, error) {
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
		err = &session.CorruptError{
			File: name, Offset: r.Bytes,
			Reason: fmt.Sprintf("the log ends at entry %d, its head says at %d", last, head.Last),
		}
	}
	return r, err
}

// parseIdleBatch parses a frame of an idle log behind its head.
func parseIdleBatch(kind wal.Kind, payload []byte) (storedBatch, error) {
	if kind != frameBatch && kind != frameFirst {
		return storedBatch{}, &wal.FormatError{What: fmt.Sprintf("frame kind %d", kind)}
	}
	return parseBatch(payload, session.ParseRoot)
}

// parseIdleHead parses the payload of a frameIdleHead.
func parseIdleHead(b []byte) (session.Head, error) {
	last, n := binary.Uvarint(b)
	if n < 1 {
		return session.Head{}, errBatch
	}
	root, err := session.ParseRoot(string(b[n:]))
	return session.Head{Root: root, Last: session.Seq(last)}, err
}

// prepare makes the directory of the idle log of root. It is not safe for concurrent use.
func (x *idleLogs) prepare(root session.Key) error {
	shard := filepath.Dir(x.path(root))
	for _, d := range []string{x.dir, shard} {
		if x.made[d] {
			continue
		}
		if err := disk.MakeDir(x.fs, filepath.Dir(d), d); err != nil {
			return fmt.Errorf("make idle log: %w", err)
		}
		x.made[d] = true
		x.removeTemporary(d)
	}
	x.unsynced[shard] = true
	return nil
}

// write writes the batches at these places to the idle log of root, and replaces the one before.
// Its directory is prepared. The file is durable after sync.
func (x *idleLogs) write(root session.Key, view *wal.View, frames []batchSpan) error {
	return wal.WriteFile(x.fs, x.path(root), func(w *wal.Writer) error {
		head := binary.AppendUvarint(nil, uint64(frames[len(frames)-1].last()))
		if _, err := w.Append(frameIdleHead, append(head, root.String()...)); err != nil {
			return err
		}
		_, err := copyBatches(view, w, frames)
		return err
	})
}

// removeTemporary removes the temporary files of dead processes in a directory. Only this process
// writes there, and it has no temporary file there yet.
func (x *idleLogs) removeTemporary(dir string) {
	files, _ := x.fs.ReadDir(dir) // a later process tries again
	for _, f := range files {
		if strings.HasSuffix(f.Name(), idleSuffix+tmpSuffix) {
			_ = x.fs.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// sync makes the names of the written files durable.
func (x *idleLogs) sync() error {
	for d := range x.unsynced {
		if err := x.fs.SyncDir(d); err != nil {
			return fmt.Errorf("sync idle logs: %w", err)
		}
		delete(x.unsynced, d)
	}
	return nil
}

// files yields the paths of all idle logs. It yields an error beside the path of a directory that
// cannot be read, and goes on with the next one.
func (x *idleLogs) files() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var shards []fs.DirEntry
		_, err := disk.LookUp(x.fs, x.parentDir(), func() (err error) {
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
				if !strings.HasSuffix(f.Name(), idleSuffix) {
					continue
				}
				if !yield(filepath.Join(dir, f.Name()), nil) {
					return
				}
			}
		}
	}
}

// checkLog returns a *[session.CorruptError] if there is an idle log and the directory has no log,
// which is made first.
func (x *idleLogs) checkLog() error {
	begun, err := wal.Exists(x.fs, x.parentDir())
	if err == nil && !begun {
		err = x.checkEmpty()
	}
	return err
}

// checkEmpty returns an error if there is an idle log.
func (x *idleLogs) checkEmpty() error {
	for name, err := range x.files() {
		if err == nil {
			const reason = "there is an idle log, and the write-ahead log is missing, which is made first"
			err = &session.CorruptError{File: name, Reason: reason}
		}
		return err
	}
	return nil
}

// heads yields the heads of all idle logs that can be read. If some cannot be read, it then yields
// the error of the first of them.
func (x *idleLogs) heads() iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		var first error
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
					first = logError(err)
				}
			}
		}
		if n > 1 {
			first = fmt.Errorf("%w (the first of %d, which Verify lists)", first, n)
		}
		if first != nil {
			yield(session.Head{}, first)
		}
	}
}

// head returns the head of the idle log name.
func (x *idleLogs) head(name string) (h session.Head, err error) {
	_, err = wal.ReadFile(x.fs, name, func(_ wal.Span, kind wal.Kind, payload []byte) (err error) {
		if h, err = x.parseHead(name, kind, payload); err == nil {
			err = wal.ErrStop
		}
		return err
	})
	if err == nil && h.Root.IsZero() {
		err = &session.CorruptError{File: name, Reason: "the log is empty"}
	}
	return h, err
}

// lookUpHead returns the head of the idle log of a root with this id. ok is false if there is none.
func (x *idleLogs) lookUpHead(root keyID) (h session.Head, ok bool, err error) {
	ok, err = disk.LookUp(x.fs, x.parentDir(), func() (err error) {
		h, err = x.head(x.pathOf(root))
		return err
	})
	return h, ok, err
}

// parseHead parses the first frame of the file name. It returns an error if the name is not that of
// the root in the frame.
func (x *idleLogs) parseHead(name string, kind wal.Kind, payload []byte) (session.Head, error) {
	if kind != frameIdleHead {
		return session.Head{}, errBatch
	}
	h, err := parseIdleHead(payload)
	if err == nil && x.path(h.Root) != name {
		err = fmt.Errorf("the log of %q has the name of another root", h.Root)
	}
	return h, err
}
