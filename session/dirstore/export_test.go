package session

import (
	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
)

// OpenDirOn is OpenDir on another disk, without a lock.
func OpenDirOn(fsys disk.FS, dir string) (*Store, error) {
	return openDir(fsys, dir, unlocked)
}

// CompactDir compacts the log of a Store of OpenDir at once.
func CompactDir(s *Store) error { return s.Journal.(*dirJournal).compact() }

// FreezeDir is the first part of it: it puts trees away.
func FreezeDir(s *Store) error { return s.Journal.(*dirJournal).freeze() }

// SetSlack sets how many bytes a log may grow before it is compacted.
func SetSlack(s *Store, n int64) { s.Journal.(*dirJournal).slack = n }

// SetMaxBatch sets how many bytes a batch may have, and returns how many it was.
func SetMaxBatch(s *Store, n int) (before int) {
	j := s.Journal.(*dirJournal)
	before, j.maxBatch = j.maxBatch, n
	return before
}

// LogSize returns the length of the log, and of how many trees it keeps the places.
func LogSize(s *Store) (size int64, trees int) {
	j := s.Journal.(*dirJournal)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Size(), len(j.logs)
}

// Live returns how many bytes compaction would keep, as it is kept up to date and as it is counted.
func Live(s *Store) (kept, counted int64) {
	j := s.Journal.(*dirJournal)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.logs {
		counted += l.weight()
	}
	return j.live, counted
}

// ViewDirOn is ViewDir on another disk.
func ViewDirOn(fsys disk.FS, dir string) (*Store, error) { return viewDir(fsys, dir) }

// EncodeBatch returns a batch as it is written.
func EncodeBatch(root Key, after Seq, batch Batch) []byte {
	b, err := appendBatch(nil, root, after, batch, wal.MaxPayload)
	if err != nil {
		panic(err)
	}
	return b
}

// LockFile takes the lock of an open file.
var LockFile = lockFile
