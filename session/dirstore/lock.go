package dirstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// lockName is the file whose lock is one of the two locks of the directory; see hold. The file is
// never removed. Its content is for people and for the LockedError of other processes. Nothing else
// depends on it.
const lockName = "lock"

// A lockFunc makes a directory with its parts, and takes it for this process.
type lockFunc func(fsys disk.FS, dir string) (*hold, error)

// A lockHolder is the content of the lock file. It names the process that has the directory open,
// or the last one that had.
type lockHolder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when the holder closed the directory
}

// makeDir makes a directory of a Store with its parts. It calls check before it makes the parts.
func makeDir(fsys disk.FS, dir string, check func() error) error {
	err := disk.MakeAll(fsys, dir)
	if err == nil {
		err = check()
	}
	for _, part := range []string{journalDir, sessionsDir} {
		if err == nil {
			err = disk.MakeDir(fsys, dir, filepath.Join(dir, part))
		}
	}
	return err
}

// lockDir takes a directory on the operating system's file system. The locks also end with the
// process, however that ends.
func lockDir(fsys disk.FS, dir string) (*hold, error) {
	h := &hold{
		dir:         dir,
		lockPath:    filepath.Join(dir, lockName),
		journalPath: filepath.Join(dir, journalDir),
	}
	err := makeDir(fsys, dir, func() (err error) {
		if h.root, err = os.OpenRoot(dir); err != nil {
			return err
		}
		h.dirInfo, err = secureRoot(h.root, dir)
		return err
	})
	if err == nil {
		err = h.take()
	}
	if err != nil && h.root != nil {
		_ = h.release()
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // an unknown host is not a reason to fail
	h.holder = lockHolder{
		PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second),
	}
	writeHolder(h.lock, h.holder)
	return h, nil
}

// secureRoot returns the description of the directory of a Store once other users cannot change
// what is in it. It takes their permissions away only if the directory holds nothing but a Store:
// a caller that names a directory of the system by mistake does not close it to everyone.
func secureRoot(root *os.Root, dir string) (fs.FileInfo, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil || !disk.OpenToOthers(info) {
		return info, errors.Join(err, disk.Restrict(f))
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	holds := ""
	for _, e := range entries {
		if n := e.Name(); n != lockName && n != journalDir && n != sessionsDir {
			holds = fmt.Sprintf("it holds %q beside a Store", n)
		}
	}
	if info.Mode()&fs.ModeSticky != 0 {
		holds = "it is one that users share"
	}
	if holds != "" {
		reason := fmt.Sprintf("other users have permissions (mode %#o), and %s: take them away "+
			"(chmod 700), or give the Store a directory of its own", info.Mode().Perm(), holds)
		return nil, &UnsafeError{Path: dir, Reason: reason}
	}
	return info, disk.Restrict(f)
}

// take takes the locks of a directory that has its parts. The journal comes first, so that a
// process that is refused makes no lock file in the place of one that was removed.
func (h *hold) take() (err error) {
	sessions, err := disk.OpenDir(filepath.Join(h.dir, sessionsDir))
	if err != nil {
		return err
	}
	if err = sessions.Close(); err != nil {
		return err
	}
	if h.journal, err = disk.OpenDir(filepath.Join(h.dir, journalDir)); err != nil {
		return err
	}
	taken, err := lockDirectory(h.journal)
	if err != nil {
		return err
	}
	name := filepath.Join(h.dir, lockName)
	if !taken {
		return lockedError(h.dir, name)
	}
	if h.lock, err = disk.OpenFile(name, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	taken, err = lockFile(h.lock)
	if err == nil && !taken {
		err = lockedError(h.dir, name)
	}
	if err == nil {
		h.journalInfo, err = h.journal.Stat()
	}
	if err == nil {
		h.lockInfo, err = h.lock.Stat()
	}
	if err != nil {
		return err
	}
	return h.check()
}

// CheckFree returns a *[LockedError] if a Store has the directory open, and nil if none has. It is
// for tools that are about to open the directory. It writes nothing, and takes permissions of other
// users away as [Open] does. It takes each lock for a moment, so an Open in that moment may be
// refused, and another Store may be opened after it. Any other error is that of the system, such as
// fs.ErrNotExist if there is no Store.
func CheckFree(dir string) error {
	fsys, abs, err := resolveDir(dir)
	if err != nil || fsys != disk.OS() {
		return err
	}
	name := filepath.Join(abs, lockName)
	free, err := tryLock(filepath.Join(abs, journalDir), disk.OpenDir, lockDirectory)
	if err == nil && free {
		openFile := func(name string) (*os.File, error) { return disk.OpenFile(name, os.O_RDONLY) }
		if free, err = tryLock(name, openFile, lockFile); errors.Is(err, fs.ErrNotExist) {
			return nil // an Open makes the file before it writes anything else
		}
	}
	switch {
	case err != nil:
		return dirError("check", abs, err)
	case !free:
		return lockedError(abs, name)
	}
	return nil
}

// tryLock opens a file, tries to lock it, and closes it, which also ends the lock.
func tryLock(
	name string, open func(string) (*os.File, error), lock func(*os.File) (bool, error),
) (taken bool, err error) {
	f, err := open(name)
	if err != nil {
		return false, err
	}
	taken, err = lock(f)
	return taken, errors.Join(err, f.Close())
}

// lockedError returns the LockedError of a directory. It names the holder only if the lock file
// does.
func lockedError(dir, name string) error {
	locked := &LockedError{Dir: dir}
	f, err := disk.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return locked
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var h lockHolder
	err = json.NewDecoder(io.LimitReader(f, 1024)).Decode(&h)
	if err == nil && h.Until.IsZero() {
		locked.PID, locked.Host, locked.Since = h.PID, h.Host, h.Since
	}
	return locked
}

// writeHolder writes h into the lock file, over the content before, so that the file needs no new
// place on the disk. It ignores errors: a full disk may have no room for h, and the store is usable
// all the same.
func writeHolder(f *os.File, h lockHolder) {
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	text = append(text, '\n')
	if _, err := f.WriteAt(text, 0); err != nil {
		text = nil
	}
	_ = f.Truncate(int64(len(text)))
}
