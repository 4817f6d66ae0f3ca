package dirstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// The directories of the two parts of a Store. The picture in doc.go shows their files.
const (
	journalDir  = "journal"
	sessionsDir = "sessions"
)

// Open opens the Store in a directory, and makes the directory if it does not exist. A relative
// path is resolved once, so the program may change its working directory later.
//
// Opening reads the trees that will be due some day, and those that have become idle since the log
// was compacted the last time. Open starts no goroutine. The caller closes the Store. Everything
// that was acknowledged is safe without that, but the directory stays locked until the process
// ends.
//
// The error is a *[LockedError] if another Store has the directory open, a *[session.CorruptError]
// if the write-ahead log has rotted, [session.ErrFormat] if a newer version has written the log,
// and [errors.ErrUnsupported] on a system that cannot lock files. The page
// docs/when-a-store-does-not-open.md says what a person does about each; [Repair] is the last
// resort.
func Open(dir string) (*session.Store, error) {
	fsys, dir, err := resolveDir(dir)
	if err != nil {
		return nil, fmt.Errorf("dirstore: open directory: %w", err)
	}
	lock := lockDir
	if fsys != disk.OS() {
		lock = noLock
	}
	return openOn(fsys, dir, lock)
}

// resolveDir returns the file system and the absolute path of a directory.
func resolveDir(dir string) (disk.FS, string, error) {
	if fsys := disk.At(dir); fsys != disk.OS() { // a test has mounted a disk there
		return fsys, dir, nil
	}
	dir, err := filepath.Abs(dir)
	return disk.OS(), dir, err
}

// View opens the Store in a directory for reading. It is for tools: it takes no lock, changes
// nothing, and works beside the process that has the directory open. Every method that would change
// something returns [session.ErrReadOnly]. The error is fs.ErrNotExist if there is no Store in the
// directory, else one of those of [Open].
//
// A View reads different parts as of different times:
//
//	trees in the log     as they were when View was called
//	idle trees           when a caller asks for them
//	transcripts          when a caller asks for them
//
// So a tree that has become idle again is seen as it is now, and a new idle tree may appear. View
// may miss what the owner was just writing. It may also see that before it is durable, and a power
// failure may still undo it.
func View(dir string) (*session.Store, error) {
	fsys, dir, err := resolveDir(dir)
	if err != nil {
		return nil, fmt.Errorf("dirstore: view directory: %w", err)
	}
	return viewOn(fsys, dir)
}

// openOn is Open on any file system. It calls lock once the directory exists. It calls release when
// both parts are closed, or when nothing can be opened.
func openOn(fsys disk.FS, dir string, lock lockFunc) (*session.Store, error) {
	if err := disk.MakeAll(fsys, dir); err != nil {
		return nil, fmt.Errorf("dirstore: open directory: %w", err)
	}
	release, err := lock(dir)
	if err != nil {
		return nil, err
	}
	releasePart := afterCalls(2, release)
	logs, transcripts := filepath.Join(dir, journalDir), filepath.Join(dir, sessionsDir)
	for _, d := range []string{logs, transcripts} {
		if err := disk.MakeDir(fsys, dir, d); err != nil {
			return nil, errors.Join(fmt.Errorf("dirstore: open directory: %w", err), release())
		}
	}
	j, err := openJournal(fsys, logs, releasePart)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dirstore: open directory %q: %w", dir, err), release())
	}
	t := newTranscripts(fsys, transcripts, false, releasePart)
	return &session.Store{Journal: j, Transcripts: t}, nil
}

// afterCalls returns a function that calls release when it is called for the nth time. The function
// may be called from several goroutines at once.
func afterCalls(n int, release func() error) func() error {
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

// noLock is the lockFunc of a disk that no other process has.
func noLock(string) (release func() error, err error) { return func() error { return nil }, nil }

// viewOn is View on any file system.
func viewOn(fsys disk.FS, dir string) (*session.Store, error) {
	j, err := viewJournal(fsys, filepath.Join(dir, journalDir))
	if err != nil {
		return nil, fmt.Errorf("dirstore: view directory %q: %w", dir, err)
	}
	release := func() error { return nil }
	t := newTranscripts(fsys, filepath.Join(dir, sessionsDir), true, release)
	return &session.Store{Journal: j, Transcripts: t}, nil
}
