package wal

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// A View reads frames by their places, which are those in one file: what a rewrite does meanwhile does not concern it.
type View struct {
	file    *file
	release func() error
	once    sync.Once
}

// Read returns the frame at a place, having checked every bit of it. The payload is the caller's.
func (v *View) Read(s Span) (Kind, []byte, error) { return v.file.read(s) }

// Close lets go of the file.
func (v *View) Close() (err error) {
	v.once.Do(func() { err = v.release() })
	return err
}

// Share returns a View of the same file that may be closed without any effect, and is good for as long as v.
func (v *View) Share() *View { return &View{file: v.file, release: func() error { return nil }} }

// View returns a View of the log as it is now. Places that [Log.Append] or a rewrite said before are good in it.
func (l *Log) View() (*View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	return l.view(), nil
}

// view is View for a caller that holds mu.
func (l *Log) view() *View {
	f := l.file
	l.pins[f]++
	return &View{file: f, release: func() error { return l.unpin(f) }}
}

// unpin ends one reading of f, and f itself if it was the last and the log has no use for it.
func (l *Log) unpin(f *file) error {
	l.mu.Lock()
	l.pins[f]--
	gone, remove := l.pins[f] == 0 && (f != l.file || l.retired), f != l.file
	if l.pins[f] == 0 {
		delete(l.pins, f)
	}
	l.mu.Unlock()
	if !gone {
		return nil
	}
	return l.drop(f, remove)
}

// retire ends the file of a log that is closed, now or with the last that reads it.
func (l *Log) retire(f *file) error {
	l.mu.Lock()
	l.retired = true
	pinned := l.pins[f] > 0
	l.mu.Unlock()
	if pinned {
		return nil
	}
	return l.drop(f, false)
}

func (l *Log) drop(f *file, remove bool) error {
	err := f.f.Close()
	if remove {
		_ = l.fs.Remove(f.name) // or when the log is opened the next time
	}
	return err
}

// attempts is how often OpenView looks at a log whose owner writes and rewrites it meanwhile.
const attempts = 5

// OpenView replays the log in a directory as it is at the moment, changes nothing, and may be called beside its owner. What the owner
// is writing just then is not seen, or is seen before it is durable. It calls restart before it
// replays, and perhaps again to replay from the beginning.
func OpenView(fsys disk.FS, dir string, restart func(), replay Replay) (*View, Report, error) {
	var report Report
	var err error
	for range attempts {
		var f *file
		restart()
		if f, report, err = openView(fsys, dir, replay); err == nil {
			return &View{file: f, release: f.f.Close}, report, nil
		}
	}
	return nil, report, err
}

func openView(fsys disk.FS, dir string, replay Replay) (*file, Report, error) {
	gens, _, err := generations(fsys, dir)
	if err != nil {
		return nil, Report{}, err
	}
	if len(gens) == 0 {
		return nil, Report{}, fmt.Errorf("wal: no log in %s: %w", dir, fs.ErrNotExist)
	}
	gen := slices.Max(gens)
	name := fileName(dir, gen)
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, Report{}, fmt.Errorf("wal: %w", err)
	}
	s := &scan{name: name, f: f}
	if s.size, err = f.Size(); err == nil {
		err = s.run(replay)
	}
	if err != nil {
		_ = f.Close()
		return nil, s.report(), err
	}
	return &file{f: f, name: name, gen: gen, id: s.id}, s.report(), nil
}
