package wal

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A View reads frames of one file by their places. A rewrite does not affect it. Its methods may be
// called from several goroutines at once.
type View struct {
	file    *file
	release func() error
	once    sync.Once
}

// Read returns the frame at a place. The caller may keep the payload. The error is a [CorruptError]
// if any bit of the frame has changed.
func (v *View) Read(s Span) (Kind, []byte, error) { return v.file.read(s) }

// Close releases the file. A second Close does nothing.
func (v *View) Close() (err error) {
	v.once.Do(func() { err = v.release() })
	return err
}

// Share returns a View of the same file whose Close does nothing. It is good until v is closed.
func (v *View) Share() *View { return &View{file: v.file, release: func() error { return nil }} }

// View returns a View of the log as it is now. Places that [Log.Append] or a Rewrite has notified
// before are good in it.
func (l *Log) View() (*View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	return l.view(), nil
}

// view is View without its checks. The caller holds mu.
func (l *Log) view() *View {
	f := l.file
	l.pins[f]++
	return &View{file: f, release: func() error { return l.unpin(f) }}
}

// unpin ends one View of f. The last View of a file that the log does not use any more closes it,
// and removes it if a rewrite has replaced it.
func (l *Log) unpin(f *file) error {
	l.mu.Lock()
	l.pins[f]--
	replaced := f != l.file
	unused := l.pins[f] == 0 && (replaced || l.fileReleased)
	if l.pins[f] == 0 {
		delete(l.pins, f)
	}
	l.mu.Unlock()
	if !unused {
		return nil
	}
	return l.closeFile(f, replaced)
}

// releaseFile closes the file of a log that was closed, or leaves that to the last View of it.
func (l *Log) releaseFile(f *file) error {
	l.mu.Lock()
	l.fileReleased = true
	pinned := l.pins[f] > 0
	l.mu.Unlock()
	if pinned {
		return nil
	}
	return l.closeFile(f, false)
}

// closeFile closes f, and removes it if remove is set.
func (l *Log) closeFile(f *file, remove bool) error {
	err := f.f.Close()
	if remove {
		_ = l.fs.Remove(f.name) // the next Open tries again
	}
	return err
}

// maxViewAttempts is how often OpenView reads a log that its owner writes and rewrites meanwhile.
const maxViewAttempts = 5

// OpenView replays the log in a directory as it is now. It changes nothing and may be called beside
// the owner of the log. It may miss what the owner is writing, or see it before it is durable.
// OpenView calls restart before each replay: a replay that fails is repeated from the beginning,
// because the owner may have replaced the file meanwhile.
func OpenView(fsys disk.FS, dir string, restart func(), replay Replay) (*View, Report, error) {
	var report Report
	var err error
	for range maxViewAttempts {
		var f *file
		restart()
		if f, report, err = openView(fsys, dir, replay); err == nil {
			return &View{file: f, release: f.f.Close}, report, nil
		}
	}
	return nil, report, err
}

// openView is one attempt of OpenView.
func openView(fsys disk.FS, dir string, replay Replay) (*file, Report, error) {
	mark, err := knownMark(fsys, dir) // before the log, which may become longer meanwhile
	if err != nil {
		return nil, Report{}, err
	}
	gens, _, err := generations(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	gen, err := mark.newest(dir, gens)
	if err != nil {
		return nil, Report{}, err
	}
	if gen == 0 {
		return nil, Report{}, fmt.Errorf("wal: no log in %s: %w", dir, fs.ErrNotExist)
	}
	name := fileName(dir, gen)
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, Report{}, fmt.Errorf("wal: %w", err)
	}
	s := &scan{name: name, f: f, gen: gen, mark: mark}
	if s.size, err = f.Size(); err == nil {
		err = s.run(replay)
	}
	if err != nil {
		_ = f.Close()
		return nil, s.report(), err
	}
	return &file{f: f, name: name, gen: gen, id: s.id}, s.report(), nil
}
