package dirstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// A hold is the ownership of a directory. Two locks keep other processes out: that of the journal
// directory, which cannot be removed without the log, and that of the file lock, which is all that
// earlier versions know. Both belong to what was opened, wherever it is moved. So a hold also knows
// whether the directory, its file lock and its journal are still found under their names: nothing
// is acknowledged that the next Open would not find. The nil hold is that of a disk of tests.
type hold struct {
	dir     string
	root    *os.Root // the directory, also after it was moved
	journal *os.File
	lock    *os.File
	holder  lockHolder

	lockPath, journalPath string // each write looks there

	dirInfo, journalInfo, lockInfo fs.FileInfo

	// over is why every later change is refused, or nil.
	over atomic.Pointer[error]
}

// end makes check return err from now on, unless it returns another error already.
func (h *hold) end(err error) { h.over.CompareAndSwap(nil, &err) }

// check returns nil if this process may change the directory. A *[LostError] is final. Any other
// error says that the directory is out of reach at the moment.
func (h *hold) check() error {
	if h == nil {
		return nil
	}
	if over := h.over.Load(); over != nil {
		return *over
	}
	if disk.IsSame(h.lockPath, h.lockInfo) && disk.IsSame(h.journalPath, h.journalInfo) {
		return nil
	}
	err := h.look()
	if lost, ok := errors.AsType[*LostError](err); ok {
		h.end(lost)
		return *h.over.Load()
	}
	return err
}

// look finds out why a name is not what it was. It looks into the directory itself first, because a
// path says nothing while a disk is not mounted.
func (h *hold) look() error {
	for _, part := range []struct {
		name, what string
		info       fs.FileInfo
	}{
		{lockName, "its file lock was removed or replaced", h.lockInfo},
		{journalDir, "its journal was renamed, removed or replaced", h.journalInfo},
	} {
		info, err := h.root.Lstat(part.name)
		switch {
		case err == nil && os.SameFile(info, part.info):
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return dirError("look at", h.dir, err)
		case err == nil && !disk.SameDevice(info, part.info):
			return h.away(fs.ErrNotExist)
		default:
			return &LostError{Dir: h.dir, Reason: part.what}
		}
	}
	info, err := os.Stat(h.dir)
	switch {
	case err == nil && os.SameFile(info, h.dirInfo):
		return nil // it has come back since check
	case err == nil:
		err = fs.ErrNotExist
	case !errors.Is(err, fs.ErrNotExist):
		return dirError("look at", h.dir, err)
	}
	if h.isUnmounted() {
		return h.away(err)
	}
	return &LostError{Dir: h.dir, Reason: "it was renamed, removed or replaced"}
}

// away returns the error of a directory whose disk is not mounted at the moment: with the reason of
// err, without the path in it.
func (h *hold) away(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return fmt.Errorf("dirstore: directory %q is out of reach, its disk is not mounted: %w", h.dir, err)
}

// isUnmounted reports whether the path of the directory leads to another disk than that of the
// directory.
func (h *hold) isUnmounted() bool {
	for path := h.dir; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err == nil {
			return !disk.SameDevice(info, h.dirInfo)
		}
		if path == filepath.Dir(path) {
			return false
		}
	}
}

// explain returns err, or the *[LostError] that is the reason of a file that does not exist.
func (h *hold) explain(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if lost, ok := errors.AsType[*LostError](h.check()); ok {
		return lost
	}
	return err
}

// release gives the directory up, and refuses every later change.
func (h *hold) release() error {
	if h == nil {
		return nil
	}
	h.end(session.ErrClosed)
	if !h.holder.Since.IsZero() {
		h.holder.Until = time.Now().UTC().Truncate(time.Second)
		writeHolder(h.lock, h.holder)
	}
	var errs []error
	for _, f := range []*os.File{h.lock, h.journal} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, h.root.Close())...)
}

// A heldFS is the disk of a Store with a hold. It refuses every change to a directory that is not
// held any more, and what another user may control; see secure.
type heldFS struct {
	disk.FS
	hold *hold
}

// OpenFile implements [disk.FS].
func (x heldFS) OpenFile(name string, flag int) (disk.File, error) {
	// A call that only opens a file changes nothing. What it writes then is another call.
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		if err := x.hold.check(); err != nil {
			return nil, err
		}
	}
	used := name
	if flag&os.O_EXCL != 0 { // nothing has the name, or the call fails
		used = filepath.Dir(name)
	}
	if err := x.secure(used); err != nil {
		return nil, err
	}
	f, err := x.FS.OpenFile(name, flag)
	if err != nil {
		return nil, x.hold.explain(err)
	}
	if flag&(os.O_RDWR|os.O_WRONLY|os.O_CREATE|os.O_TRUNC) != 0 {
		f = heldFile{f, x.hold}
	}
	return f, nil
}

// Mkdir implements [disk.FS].
func (x heldFS) Mkdir(name string) error {
	return x.change(filepath.Dir(name), func() error { return x.FS.Mkdir(name) })
}

// Rename implements [disk.FS].
func (x heldFS) Rename(from, to string) error {
	return x.change(filepath.Dir(to), func() error { return x.FS.Rename(from, to) })
}

// Remove implements [disk.FS].
func (x heldFS) Remove(name string) error {
	return x.change(filepath.Dir(name), func() error { return x.FS.Remove(name) })
}

// change calls f, which changes the names in a directory, if that of the Store is held.
func (x heldFS) change(dir string, f func() error) error {
	err := x.hold.check()
	if err == nil {
		err = x.secure(dir)
	}
	if err != nil {
		return err
	}
	return x.hold.explain(f())
}

// secure takes the permissions of other users away from a file or directory of the Store that is
// about to be used, and from each directory that leads to it from that of the Store. It looks each
// time, because a person may unpack a backup while the Store is open. The error is a
// *[disk.UnsafeError] for what belongs to another user, and for a link in the place of a directory.
func (x heldFS) secure(name string) error {
	end := len(strings.TrimSuffix(x.hold.dir, string(filepath.Separator)))
	below := strings.HasPrefix(name, x.hold.dir[:end]) && len(name) > end &&
		name[end] == filepath.Separator
	for below {
		rest := name[end+1:]
		n := strings.IndexByte(rest, filepath.Separator)
		if below = n >= 0; !below {
			n = len(rest)
		}
		end += 1 + n
		if err := disk.Secure(name[:end], below); err != nil {
			return err
		}
	}
	return nil
}

// ReadDir implements [disk.FS].
func (x heldFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := x.secure(name); err != nil {
		return nil, err
	}
	entries, err := x.FS.ReadDir(name)
	return entries, x.hold.explain(err)
}

// Lstat implements [disk.FS].
func (x heldFS) Lstat(name string) (fs.FileInfo, error) {
	info, err := x.FS.Lstat(name)
	return info, x.hold.explain(err)
}

// Look implements [disk.Looker].
func (x heldFS) Look(name string) (kind fs.FileMode, there bool, err error) {
	if kind, there, err = disk.Look(x.FS, name); err == nil && !there {
		err = held(x)
	}
	return kind, there, err
}

// hasNew reports whether something has a name that is most likely free. It does not ask why there
// is nothing: that would be two more looks at the disk for each new name. The caller calls held
// where it matters.
func hasNew(fsys disk.FS, name string) (bool, error) {
	if x, ok := fsys.(heldFS); ok {
		fsys = x.FS
	}
	_, there, err := disk.Look(fsys, name)
	return there, err
}

// held returns the *[LostError] of a directory that this process does not hold any more, or nil.
func held(fsys disk.FS) error {
	if x, ok := fsys.(heldFS); ok {
		if lost, ok := errors.AsType[*LostError](x.hold.check()); ok {
			return lost
		}
	}
	return nil
}

// A heldFile is a file of a heldFS that is open for writing.
type heldFile struct {
	disk.File
	hold *hold
}

// WriteAt implements [disk.File].
func (f heldFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.hold.check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

// Truncate implements [disk.File].
func (f heldFile) Truncate(size int64) error {
	if err := f.hold.check(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync implements [disk.File]. What was written is acknowledged only if no other process can have
// taken the directory before it was durable. A disk that is not mounted any more has what was
// written.
func (f heldFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return f.hold.explain(err)
	}
	if lost, ok := errors.AsType[*LostError](f.hold.check()); ok {
		return lost
	}
	return nil
}
