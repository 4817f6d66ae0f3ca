package session

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// lockName is the file whose lock is that of the directory. It is never removed: two processes could then hold locks of two files of
// that name. What it says is for people, and for the LockedError of others.
const lockName = "lock"

// A holder is what the lock file says.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// lockDir takes the exclusive lock of a directory, which ends with the process that holds it, however that ends. release gives it back.
func lockDir(dir string) (release func() error, err error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, disk.FilePerm)
	if err != nil {
		return nil, fmt.Errorf("session: lock: %w", err)
	}
	taken, err := lockFile(f)
	if err == nil && !taken {
		err = lockedBy(dir, f)
	}
	if err == nil {
		err = sayHolder(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f.Close, nil
}

func lockedBy(dir string, f *os.File) error {
	locked := &LockedError{Dir: dir}
	b := make([]byte, 1024)
	n, _ := f.ReadAt(b, 0) // what cannot be read is not said
	var h holder
	if json.Unmarshal(b[:n], &h) == nil {
		locked.PID, locked.Host, locked.Since = h.PID, h.Host, h.Since
	}
	return locked
}

func sayHolder(f *os.File) error {
	host, _ := os.Hostname() // no host is better than no store
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("session: lock: %w", err)
	}
	return nil
}
