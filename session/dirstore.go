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
