package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// The parts of a directory; see OpenDir.
const (
	journalDir  = "journal"
	sessionsDir = "sessions"
)

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

// openDir is OpenDir on any file system. lock takes the directory, once it is there, and release gives it back, when both parts are closed
// or if nothing can be opened.
func openDir(fsys disk.FS, dir string, lock func(dir string) (release func() error, err error)) (*Store, error) {
	if err := disk.MakeAll(fsys, dir); err != nil {
		return nil, fmt.Errorf("session: open directory: %w", err)
	}
	release, err := lock(dir)
	if err != nil {
		return nil, err
	}
	part := parts(2, release)
	logs, transcripts := filepath.Join(dir, journalDir), filepath.Join(dir, sessionsDir)
	for _, d := range []string{logs, transcripts} {
		if err := disk.MakeDir(fsys, dir, d); err != nil {
			return nil, errors.Join(fmt.Errorf("session: open directory: %w", err), release())
		}
	}
	j, err := openJournal(fsys, logs, part)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session: open directory %q: %w", dir, err), release())
	}
	return &Store{Journal: j, Transcripts: newDirTranscripts(fsys, transcripts, false, part)}, nil
}

// parts returns a function that calls release when it is called for the nth time.
func parts(n int, release func() error) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		n--
		last := n == 0
		mu.Unlock()
		if last {
			return release()
		}
		return nil
	}
}

// unlocked takes no lock, for a disk that nobody else has.
func unlocked(string) (release func() error, err error) { return func() error { return nil }, nil }

// viewDir is ViewDir on any file system.
func viewDir(fsys disk.FS, dir string) (*Store, error) {
	j, err := viewJournal(fsys, filepath.Join(dir, journalDir))
	if err != nil {
		return nil, fmt.Errorf("session: view directory %q: %w", dir, err)
	}
	nothing := func() error { return nil }
	return &Store{Journal: j, Transcripts: newDirTranscripts(fsys, filepath.Join(dir, sessionsDir), true, nothing)}, nil
}
