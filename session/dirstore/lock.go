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

// lockName is the file whose lock is that of the directory. It is never removed: two processes
// could then hold locks of two files of that name. What it says is for people, and for the
// LockedError of others; nothing depends on it.
const lockName = "lock"

// A holder is what the lock file says of who has the directory open, or who was the last to have
// it.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when it was closed
}

// lockDir takes the exclusive lock of a directory, which ends with the process that holds it,
// however that ends. release gives it back.
func lockDir(dir string) (release func() error, err error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, disk.FilePerm)
	if err != nil {
		return nil, fmt.Errorf("dirstore: lock: %w", err)
	}
	taken, err := lockFile(f)
	if err == nil && !taken {
		err = lockedBy(dir, f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	host, _ := os.Hostname() // no host is better than no store
	h := holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)}
	sayHolder(f, h)
	return func() error {
		h.Until = time.Now().UTC().Truncate(time.Second)
		sayHolder(f, h)
		return f.Close()
	}, nil
}

func lockedBy(dir string, f *os.File) error {
	locked := &LockedError{Dir: dir}
	var h holder
	if json.NewDecoder(io.NewSectionReader(f, 0, 1024)).Decode(&h) == nil && h.Until.IsZero() { // what cannot be read is not said
		locked.PID, locked.Host, locked.Since = h.PID, h.Host, h.Since
	}
	return locked
}

// sayHolder writes who has the lock, if that is possible: on a disk that is full there may be no
// room for it, and still be a store. What was said before is written over, so that its place on the
// disk is used again.
func sayHolder(f *os.File, h holder) {
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
