package dirstore

import (
	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// OpenOn is Open on another disk, without a lock.
func OpenOn(fsys disk.FS, dir string) (*session.Store, error) {
	return openOn(fsys, dir, unlocked)
}

// Compact compacts the log of a Store of Open at once.
func Compact(s *session.Store) error { return s.Journal.(*journal).compact() }

// Freeze is the first part of it: it puts trees away.
func Freeze(s *session.Store) error { return s.Journal.(*journal).freeze() }

// SetSlack sets how many bytes a log may grow before it is compacted.
func SetSlack(s *session.Store, n int64) { s.Journal.(*journal).slack = n }

// SetMaxBatch sets how many bytes a batch may have, and returns how many it was.
func SetMaxBatch(s *session.Store, n int) (before int) {
	j := s.Journal.(*journal)
	before, j.maxBatch = j.maxBatch, n
	return before
}

// LogSize returns the length of the log, and of how many trees it keeps the places.
func LogSize(s *session.Store) (size int64, trees int) {
	j := s.Journal.(*journal)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Size(), len(j.logs)
}

// Live returns how many bytes compaction would keep, as it is kept up to date and as it is counted.
func Live(s *session.Store) (kept, counted int64) {
	j := s.Journal.(*journal)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.logs {
		counted += l.weight()
	}
	return j.live, counted
}

// ViewOn is View on another disk.
func ViewOn(fsys disk.FS, dir string) (*session.Store, error) { return viewOn(fsys, dir) }

// EncodeBatch returns a batch as it is written.
func EncodeBatch(root session.Key, after session.Seq, batch session.Batch) []byte {
	b, err := appendBatch(nil, root, after, batch, wal.MaxPayload)
	if err != nil {
		panic(err)
	}
	return b
}

// LockFile takes the lock of an open file.
var LockFile = lockFile

// KnownTranscripts returns of how many transcripts something is kept in memory.
func KnownTranscripts(s *session.Store) int {
	t := s.Transcripts.(*transcripts)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}
