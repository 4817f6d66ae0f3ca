package dirstore

import (
	"errors"
	"fmt"
	"io/fs"
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
// The files have what was said as it was said, secrets included, and are readable for the user of
// the process alone. A directory that exists must belong to that user. Open takes the permissions
// of other users away, unless the directory holds more than a Store; the package documentation has
// the rules, and says what is not masked.
//
// The error is a *[LockedError] if another Store has the directory open, an *[UnsafeError] if
// another user may control a file or directory, a *[session.CorruptError] if the write-ahead log
// has rotted, [session.ErrFormat] if a newer version has written the log, [fs.ErrInvalid] for an
// empty path, and [errors.ErrUnsupported] on a system that cannot lock files. The page
// docs/when-a-store-does-not-open.md says what a person does about each; [Repair] is the last
// resort.
func Open(dir string) (*session.Store, error) {
	fsys, dir, err := resolveDir(dir)
	if err != nil {
		return nil, dirError("open", dir, err)
	}
	if fsys != disk.OS() {
		return openOn(fsys, dir, noLock)
	}
	return openOn(fsys, dir, lockDir)
}

// resolveDir returns the file system and the absolute path of a directory. An empty path is an
// error: it would be the working directory.
func resolveDir(dir string) (disk.FS, string, error) {
	if dir == "" {
		return nil, "", fmt.Errorf("the path is empty: %w", fs.ErrInvalid)
	}
	if fsys := disk.At(dir); fsys != disk.OS() { // a test has mounted a disk there
		return fsys, dir, nil
	}
	dir, err := filepath.Abs(dir)
	return disk.OS(), dir, err
}

// View opens the Store in a directory for reading. It is for tools: it takes no lock, changes
// nothing, and works beside the process that has the directory open. Every method that would change
// something returns [session.ErrReadOnly]. The error is fs.ErrNotExist if there is no Store in the
// directory, a *[MissingLogError] if its log was removed, else one of those of [Open].
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
		return nil, dirError("view", dir, err)
	}
	return viewOn(fsys, dir)
}

// openOn is Open on any file system. It gives the directory up when both parts are closed, or when
// nothing can be opened.
func openOn(fsys disk.FS, dir string, lock lockFunc) (*session.Store, error) {
	h, err := lock(fsys, dir)
	if err != nil {
		return nil, dirError("open", dir, err)
	}
	if h != nil {
		fsys = heldFS{fsys, h}
	}
	releasePart := afterCalls(2, h.release)
	j, err := openJournal(fsys, filepath.Join(dir, journalDir), releasePart)
	if err != nil {
		return nil, errors.Join(dirError("open", dir, err), h.release())
	}
	j.hold = h
	t := newTranscripts(fsys, filepath.Join(dir, sessionsDir), false, j.lines, releasePart)
	j.settleLines, j.closeLines = t.settleAll, t.closeLines
	return &session.Store{Journal: j, Transcripts: t, Files: newFiles(t)}, nil
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
func noLock(fsys disk.FS, dir string) (*hold, error) {
	return nil, makeDir(fsys, dir, func() error { return nil })
}

// viewOn is View on any file system.
func viewOn(fsys disk.FS, dir string) (*session.Store, error) {
	watch := watchLog(fsys, filepath.Join(dir, journalDir))
	j, err := viewJournal(fsys, filepath.Join(dir, journalDir))
	if err != nil {
		return nil, dirError("view", dir, err)
	}
	release := func() error { return nil }
	fsys = j.lines.over(fsys, filepath.Join(dir, sessionsDir), watch)
	t := newTranscripts(fsys, filepath.Join(dir, sessionsDir), true, nil, release)
	return &session.Store{Journal: j, Transcripts: t, Files: newFiles(t)}, nil
}
