package agentctx

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// defaultCacheBytes is how much text a [Cache] holds unless told otherwise.
const defaultCacheBytes = 64 << 20

// An identity names one state of one file: it changes when the file is
// replaced or written, even if size and modification time stay the same.
type identity struct {
	device, inode uint64
	size          int64
	mtime, ctime  int64 // nanoseconds
}

// A Cache keeps the text of workspace files between loads and for all who
// load at the same time. An entry is found by the identity of the file on
// disk (device, inode, size, times of modification and change), so nothing
// needs to be invalidated; what has not been asked for longest gives way. It
// serves files of real directories; for other file systems it does nothing.
//
// The zero Cache holds up to [DefaultCacheBytes]. It is safe for concurrent
// use.
type Cache struct {
	// MaxBytes bounds the text that is kept. 0: DefaultCacheBytes.
	MaxBytes int

	mu      sync.Mutex
	entries map[identity]*list.Element // of *entry
	recent  list.List                  // the most recently used first
	bytes   int
}

// An entry is the text of one file, or the reading of it.
type entry struct {
	id    identity
	done  chan struct{} // closed when text and err are set
	ready bool          // done, under the lock of the cache
	text  string
	err   error
}

// errReading is what those who wait get if the reading panicked.
var errReading = errors.New("agentctx: reading was given up")

// get returns the text of the file with an identity, calling read if it is
// not there. Of callers at the same time one reads and the others wait for
// it. Errors are not kept. The identity was taken after began.
func (c *Cache) get(id identity, began time.Time, read func() (string, error)) (string, error) {
	c.mu.Lock()
	if el, ok := c.entries[id]; ok {
		c.recent.MoveToFront(el)
		e := el.Value.(*entry)
		c.mu.Unlock()
		<-e.done
		return e.text, e.err
	}
	if c.entries == nil {
		c.entries = make(map[identity]*list.Element)
	}
	e := &entry{id: id, done: make(chan struct{}), err: errReading}
	el := c.recent.PushFront(e)
	c.entries[id] = el
	c.mu.Unlock()

	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		e.ready = true
		c.bytes += len(e.text)
		if e.err != nil || !id.isSettled(began) {
			c.remove(el)
		}
		c.shrink()
		close(e.done)
	}()
	e.text, e.err = read()
	return e.text, e.err
}

// shrink drops the least recently used texts until the bound holds. Readings
// under way are left alone.
func (c *Cache) shrink() {
	most := c.MaxBytes
	if most <= 0 {
		most = defaultCacheBytes
	}
	for el := c.recent.Back(); el != nil && c.bytes > most; {
		before := el.Prev()
		if el.Value.(*entry).ready {
			c.remove(el)
		}
		el = before
	}
}

// remove removes an entry that is ready.
func (c *Cache) remove(el *list.Element) {
	e := el.Value.(*entry)
	c.bytes -= len(e.text)
	delete(c.entries, e.id)
	c.recent.Remove(el)
}

// isSettled reports whether a write after a moment must change the identity:
// whether the last change is further back than the clock of the file system
// is coarse. Times in whole seconds are taken for those of a clock with steps
// of up to two.
func (id identity) isSettled(at time.Time) bool {
	step := 100 * time.Millisecond
	if id.ctime%int64(time.Second) == 0 {
		step = 2 * time.Second
	}
	return time.Unix(0, id.ctime).Add(step).Before(at)
}
