package dirstore

import (
	"context"
	"iter"
	"os"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/wal"
	"github.com/offshoot-sdk/offshoot/session"
)

// OpenOn is Open on another file system, without a lock. Lines are written to their files when they
// must be, and not after a time, and files are synced one after the other, so that each run of a
// test is like another. The log has little room behind its end.
func OpenOn(fsys disk.FS, dir string) (*session.Store, error) {
	s, err := openOn(fsys, dir, noLock)
	if err == nil {
		t := s.Transcripts.(*transcripts)
		t.lines.delay, t.syncs = 0, 1
		j := s.Journal.(*journal)
		j.syncs = 1
		if j.log != nil {
			j.log.SetRoom(2<<10, 8<<10) // so that it ends, and is made, within a test
		}
	}
	return s, err
}

// OpenTimedOn is OpenOn with lines that are written to their files after a time, and with files
// that are synced several at a time.
func OpenTimedOn(fsys disk.FS, dir string) (*session.Store, error) {
	return openOn(fsys, dir, noLock)
}

// WaitForCompaction returns when no compaction runs in the background.
func WaitForCompaction(s *session.Store) { s.Journal.(*journal).compactor.Wait() }

// OpenLockedOn is Open on another view of the file system of the operating system.
func OpenLockedOn(fsys disk.FS, dir string) (*session.Store, error) {
	return openOn(fsys, dir, lockDir)
}

// Compact compacts the log of a Store of Open.
func Compact(s *session.Store) error { return s.Journal.(*journal).compact() }

// MoveIdleTrees is the first part of Compact.
func MoveIdleTrees(s *session.Store) error { return s.Journal.(*journal).moveIdleTrees() }

// SetSlack sets the bytes that a log may grow before it is compacted.
func SetSlack(s *session.Store, n int64) { s.Journal.(*journal).slack = n }

// SetMaxBatch sets the most bytes of a batch, and returns the value before.
func SetMaxBatch(s *session.Store, n int) (before int) {
	j := s.Journal.(*journal)
	before, j.maxBatch = j.maxBatch, n
	return before
}

// WriteLinesAtOnce has lines of transcripts go to their files, and not to the log.
func WriteLinesAtOnce(s *session.Store) { s.Transcripts.(*transcripts).lines.limit = -1 }

// LogSize returns the length of the log in bytes, and the number of trees in its index.
func LogSize(s *session.Store) (size int64, trees int) {
	j := s.Journal.(*journal)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Size(), len(j.logs)
}

// Live returns the bytes that a compaction keeps: as the journal has added them up, and as they are
// counted now.
func Live(s *session.Store) (kept, counted int64) {
	j := s.Journal.(*journal)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.logs {
		counted += l.liveBytes()
	}
	return j.live, counted
}

// ViewOn is View on another file system.
func ViewOn(fsys disk.FS, dir string) (*session.Store, error) { return viewOn(fsys, dir) }

// RepairOn is Repair on another file system, without a lock.
func RepairOn(ctx context.Context, fsys disk.FS, dir string) (Repaired, error) {
	return repairOn(ctx, fsys, dir, noLock)
}

// ViewIntactOn is ViewIntact on another file system.
func ViewIntactOn(fsys disk.FS, dir string) (store *session.Store, damage, err error) {
	return viewIntactOn(fsys, dir)
}

// EncodeBatch returns an encoded batch.
func EncodeBatch(root session.Key, after session.Seq, batch session.Batch) []byte {
	b, err := appendBatch(nil, root, after, batch, wal.MaxPayload)
	if err != nil {
		panic(err)
	}
	return b
}

// LockFile is lockFile.
var LockFile = lockFile

// WriteHolder writes a lockHolder into a file.
func WriteHolder(f *os.File) { writeHolder(f, lockHolder{PID: 1}) }

// KnownTranscripts returns the number of transcripts whose state is in memory.
func KnownTranscripts(s *session.Store) int {
	t := s.Transcripts.(*transcripts)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known) + len(t.resting)
}

// TranscriptNames is transcriptNames.
var TranscriptNames = transcriptNames

// VerifyOn is Verify on another file system.
func VerifyOn(ctx context.Context, fsys disk.FS, dir string) iter.Seq2[File, error] {
	return verifyOn(ctx, fsys, dir)
}

// FilesDirName is filesDirName.
var FilesDirName = filesDirName
