package agentctx

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// defaultCacheBytes is the number of bytes of text that a [Cache] without a MaxBytes holds.
const defaultCacheBytes = 64 << 20

// An identity names one state of one file: it changes when the file is
// replaced or written, even if size and modification time stay the same.
type identity struct {
	device, inode uint64
	size          int64
	mtime, ctime  int64 // nanoseconds
}

// A Cache keeps the text of workspace files between loads, and shares one reading of a file among
// loads at the same time. It finds an entry by the identity of the file on disk: device, inode,
// size, and the times of modification and change. So an entry never needs to be invalidated. When
// the Cache is full, the least recently used text leaves it.
//
// A Cache serves files of real directories. For other file systems it does nothing. The zero Cache
// holds up to 64 MiB. It is safe for concurrent use.
type Cache struct {
	// MaxBytes bounds the text that the Cache keeps, in bytes. 0: 64 MiB.
	MaxBytes int

	mu      sync.Mutex
	entries map[identity]*list.Element // of *entry
	recent  list.List                  // the most recently used first
	bytes   int
}

// An entry is the text of one file, or a reading of it that has not ended.
type entry struct {
	id    identity
	done  chan struct{} // closed when text and err are set
	ready bool          // done is closed; guarded by the lock of the cache
	text  string
	err   error
}

// errReading is what the waiting callers get if the reading panicked.
var errReading = errors.New("agentctx: reading was given up")

// get returns the text of the file with the identity. If the cache lacks it, get calls read. Of
// several callers at the same time one reads and the others wait for it. Errors are not kept. The
// caller took the identity after began.
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

// shrink removes the least recently used texts until the bound holds. It leaves readings that have
// not ended alone. The caller holds the lock.
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

// remove removes an entry that is ready. The caller holds the lock.
func (c *Cache) remove(el *list.Element) {
	e := el.Value.(*entry)
	c.bytes -= len(e.text)
	delete(c.entries, e.id)
	c.recent.Remove(el)
}

// isSettled reports whether a write after the given time must change the identity. That is so if
// the last change lies at least one step of the file system's clock before it. A time in whole
// seconds may come from a clock with steps of two seconds.
func (id identity) isSettled(at time.Time) bool {
	step := 100 * time.Millisecond
	if id.ctime%int64(time.Second) == 0 {
		step = 2 * time.Second
	}
	return time.Unix(0, id.ctime).Add(step).Before(at)
}
