package dirstore

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// lockName is the file whose lock is the lock of the directory. The file is never removed: two
// processes could then lock two files of that name. Its content is for people and for the
// LockedError of other processes. Nothing else depends on it.
const lockName = "lock"

// A lockFunc takes the exclusive lock of a directory. The release function gives it back.
type lockFunc func(dir string) (release func() error, err error)

// A lockHolder is the content of the lock file. It names the process that has the directory open,
// or the last one that had.
type lockHolder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when the holder closed the directory
}

// lockDir takes the lock of a directory on the operating system's file system. The lock also ends
// with the process, however that ends.
func lockDir(dir string) (release func() error, err error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, disk.FilePerm)
	if err != nil {
		return nil, fmt.Errorf("dirstore: lock: %w", err)
	}
	taken, err := lockFile(f)
	if err == nil && !taken {
		err = lockedError(dir, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	host, _ := os.Hostname() // an unknown host is not a reason to fail
	h := lockHolder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)}
	writeHolder(f, h)
	return func() error {
		h.Until = time.Now().UTC().Truncate(time.Second)
		writeHolder(f, h)
		return f.Close()
	}, nil
}

// lockedError returns the LockedError of a directory whose lock file is f. It names the holder only
// if f does.
func lockedError(dir string, f *os.File) error {
	locked := &LockedError{Dir: dir}
	var h lockHolder
	err := json.NewDecoder(io.NewSectionReader(f, 0, 1024)).Decode(&h)
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
