package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A Store is where everything durable is kept. The two fields may be views of one engine or have nothing to do
// with each other; both are needed.
type Store struct {
	Journal     Journal
	Transcripts Transcripts
}

// NewMemory returns a Store that lives and dies with the process. It is for programs that need no restart and for tests, and is as
// fast as memory allows: payloads are kept as they are given, and logs do not wait for each other.
func NewMemory() *Store {
	return &Store{Journal: newMemoryJournal(), Transcripts: newMemoryTranscripts()}
}

// OpenDir opens the Store in a directory, which it makes if there is none, with the standard library alone. Everything that a method
// said was done is still there after the process was killed or the power was lost, as far as the disk tells the truth; on Windows, which
// cannot be asked when a name is on the disk, the power may take names that are only moments old, and the files with them.
//
//	<dir>/lock                               who has the directory open, or had it last
//	<dir>/journal/00000001.wal               one write-ahead log for all trees, compacted as it grows
//	<dir>/journal/idle/3f/3f9a....wal        trees that are never due, read when somebody asks for one
//	<dir>/sessions/<agent>/<session id>.jsonl                          transcripts, to tail and grep
//	<dir>/sessions/<agent>/<session id>.jsonl.deleted.<timestamp>      and those that were archived
//	<dir>/sessions/<agent>/<session id>.jsonl.torn.<offset>[.<n>]      what had to be cut off and may be of use to a person; kept
//	*.tmp                                    what was not whole when a process died; removed by the next one that writes there
//
// Files are for the user alone: 0600, directories 0700. Appends of different trees share one sync of the disk. Opening takes as long
// as reading the trees that will be due some day and those that have become idle since the log was compacted the last time; it starts
// nothing. A relative path is resolved once. Whoever has opened a Store closes it: what was written is safe without that, but the
// directory is locked until the process ends.
//
// A directory has one Store at a time: another gets a *[LockedError] that says who has it. The lock ends with the process that holds
// it, however that ends. It needs a system that can lock files: Linux, macOS, the BSDs, Windows. On others OpenDir returns
// [errors.ErrUnsupported], and only ViewDir works.
//
// A crash leaves at most the last thing that nobody was told of, and that is cut off. What was acknowledged and is not there any more as
// it was is a *[CorruptError], with file and offset, for whoever meets it: rot of the log for OpenDir, of an idle tree and of a
// transcript for whoever reads it or would append to it. What a newer version wrote is [ErrFormat]. [VerifyDir] looks at everything.
// Nobody can see these: rot in the very last group of a log that was not closed, and in the last write of a transcript, if it looks like what
// a crash leaves; a letter of a transcript that has become another one, for lines that are made to be read with other tools have no
// checksum; that somebody has removed the whole file of an idle tree or of a transcript, which then begins anew; and that the
// directory is an older copy of itself.
//
// A disk that is full or away for a while makes appends fail, and they work again when it does; only an [ErrSync] of the journal stays
// until the directory is opened again. [Store.Health] says what has gone wrong that no append was refused for.
func OpenDir(dir string) (*Store, error) {
	fsys, dir, err := located(dir)
	if err != nil {
		return nil, fmt.Errorf("session: open directory: %w", err)
	}
	lock := lockDir
	if fsys != disk.OS() {
		lock = unlocked
	}
	return openDir(fsys, dir, lock)
}

// located returns the file system and the path of a directory, which is the same one when the program changes its own later.
func located(dir string) (disk.FS, string, error) {
	if fsys := disk.At(dir); fsys != disk.OS() { // a test has it for itself
		return fsys, dir, nil
	}
	dir, err := filepath.Abs(dir)
	return disk.OS(), dir, err
}

// ViewDir opens the Store in a directory for reading, for tools: it takes no lock, changes nothing, and works beside whoever has the
// directory open. Everything that would change something returns [ErrReadOnly].
//
// Trees that were in the log when ViewDir was called stay as they were; the last moments of a process that was writing may be missing, or be
// there although a power failure would still undo them. Trees that were idle, and transcripts, are read when somebody asks, as they are
// then: a tree that has become idle again is seen as it is now, and one that is new may appear.
func ViewDir(dir string) (*Store, error) {
	fsys, dir, err := located(dir)
	if err != nil {
		return nil, fmt.Errorf("session: view directory: %w", err)
	}
	return viewDir(fsys, dir)
}

// Close closes each field that is an [io.Closer] and returns their errors joined. Where both are views of one engine, Close is called on
// both, and it is theirs to see that the engine is closed once.
func (s *Store) Close() error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts} {
		if c, ok := part.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Health returns what is wrong that no call may have said, since everything that was asked for could still be done: work that a field does
// by itself and that fails, or that it takes nothing more until it is opened again. Nil means that nothing is known to be wrong. It asks
// each field that has a method of this name and signature, and joins their errors.
//
// The Journal of [OpenDir] says here why its log could not be compacted the last time it tried, for example with a *[CorruptError] that
// no reader has met; the next OpenDir would meet it, and it is best looked at while the process still runs. To ask costs nothing, so a
// program may ask every minute and log what is new. On a field that lives somewhere else it may be a question to a server, and ends
// with ctx.
func (s *Store) Health(ctx context.Context) error {
	var errs []error
	for _, part := range []any{s.Journal, s.Transcripts} {
		if h, ok := part.(interface {
			Health(ctx context.Context) error
		}); ok {
			errs = append(errs, h.Health(ctx))
		}
	}
	return errors.Join(errs...)
}
