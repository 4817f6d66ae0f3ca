package dirstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// The parts of a directory; the picture in doc.go shows what is in them.
const (
	journalDir  = "journal"
	sessionsDir = "sessions"
)

// Open opens the Store in a directory, and makes the directory if there is none. A relative path is
// resolved once. The error is a *[LockedError] if another Store has the directory open, a
// *[session.CorruptError] if the write-ahead log has rotted, [session.ErrFormat] if a newer version
// has written it, and [errors.ErrUnsupported] on a system that cannot lock files.
//
// Opening takes as long as reading the trees that will be due some day and those that have become
// idle since the log was compacted the last time. It starts nothing. The caller closes the Store:
// what was written is safe without that, but the directory stays locked until the process ends.
func Open(dir string) (*session.Store, error) {
	fsys, dir, err := located(dir)
	if err != nil {
		return nil, fmt.Errorf("dirstore: open directory: %w", err)
	}
	lock := lockDir
	if fsys != disk.OS() {
		lock = unlocked
	}
	return openOn(fsys, dir, lock)
}

// located returns the file system and the path of a directory, which is the same one when the
// program changes its own later.
func located(dir string) (disk.FS, string, error) {
	if fsys := disk.At(dir); fsys != disk.OS() { // a test has it for itself
		return fsys, dir, nil
	}
	dir, err := filepath.Abs(dir)
	return disk.OS(), dir, err
}

// View opens the Store in a directory for reading, for tools: it takes no lock, changes nothing,
// and works beside the process that has the directory open. Everything that would change something
// returns [session.ErrReadOnly].
//
// Trees that were in the log when View was called stay as they were; the last moments of a process
// that was writing may be missing, or be there although a power failure would still undo them.
// Trees that were idle, and transcripts, are read when a caller asks, as they are then: a tree that
// has become idle again is seen as it is now, and one that is new may appear.
func View(dir string) (*session.Store, error) {
	fsys, dir, err := located(dir)
	if err != nil {
		return nil, fmt.Errorf("dirstore: view directory: %w", err)
	}
	return viewOn(fsys, dir)
}

// openOn is Open on any file system. lock takes the directory, once it is there, and release gives
// it back, when both parts are closed or if nothing can be opened.
func openOn(fsys disk.FS, dir string, lock func(dir string) (release func() error, err error)) (*session.Store, error) {
	if err := disk.MakeAll(fsys, dir); err != nil {
		return nil, fmt.Errorf("dirstore: open directory: %w", err)
	}
	release, err := lock(dir)
	if err != nil {
		return nil, err
	}
	part := parts(2, release)
	logs, transcripts := filepath.Join(dir, journalDir), filepath.Join(dir, sessionsDir)
	for _, d := range []string{logs, transcripts} {
		if err := disk.MakeDir(fsys, dir, d); err != nil {
			return nil, errors.Join(fmt.Errorf("dirstore: open directory: %w", err), release())
		}
	}
	j, err := openJournal(fsys, logs, part)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dirstore: open directory %q: %w", dir, err), release())
	}
	return &session.Store{Journal: j, Transcripts: newTranscripts(fsys, transcripts, false, part)}, nil
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

// unlocked takes no lock, for a disk that no other process has.
func unlocked(string) (release func() error, err error) { return func() error { return nil }, nil }

// viewOn is View on any file system.
func viewOn(fsys disk.FS, dir string) (*session.Store, error) {
	j, err := viewJournal(fsys, filepath.Join(dir, journalDir))
	if err != nil {
		return nil, fmt.Errorf("dirstore: view directory %q: %w", dir, err)
	}
	nothing := func() error { return nil }
	return &session.Store{Journal: j, Transcripts: newTranscripts(fsys, filepath.Join(dir, sessionsDir), true, nothing)}, nil
}
