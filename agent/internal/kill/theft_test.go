package kill

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A theft removes the file lock of a directory that a child has open, at some moment before the
// child is killed, and tries to open the directory then.
type theft struct {
	dir   string
	child *os.Process
	pause bool // the child does not run meanwhile

	killed atomic.Bool // set before the child is killed
	timer  *time.Timer
	result chan error
}

// newTheft draws whether and when there is a theft in a life that ends after a while. Nil: there is
// none.
func newTheft(rng *rand.Rand, dir string, child *os.Process, life time.Duration) *theft {
	if life == 0 || rng.IntN(3) > 0 {
		return nil
	}
	x := &theft{dir: dir, child: child, pause: rng.IntN(2) == 0, result: make(chan error, 1)}
	moment := time.Duration(rng.Int64N(int64(life)))
	x.timer = time.AfterFunc(moment, func() { x.result <- x.steal() })
	return x
}

// steal is the theft. The directory must be locked, or its owner dead.
func (x *theft) steal() error {
	if x.pause {
		defer pause(x.child)()
	}
	err := os.Remove(filepath.Join(x.dir, "lock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for range 3 {
		s, err := dirstore.Open(x.dir)
		if errors.Is(err, dirstore.ErrLocked) {
			continue
		}
		if err != nil {
			return fmt.Errorf("neither open nor locked: %w", err)
		}
		if !x.killed.Load() {
			return errors.Join(errors.New("opened beside a living owner"), s.Close())
		}
		return s.Close()
	}
	return nil
}

// wait returns when the theft is over, and says what was wrong. The caller has ended the child. It
// reports false if the theft has not begun.
func (x *theft) wait() (stolen bool, err error) {
	if x == nil || x.timer.Stop() {
		return false, nil
	}
	return true, <-x.result
}
