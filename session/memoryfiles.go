package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memoryFiles is a [Files] in memory. It keeps the files of at most maxTombstones archived
// transcripts, the latest ones.
type memoryFiles struct {
	closed     atomic.Bool
	isArchived func(Ref) bool // says of a transcript whether it is archived

	mu     sync.Mutex
	sets   map[Ref]*memoryFileSet
	buried []Ref // the keys of the archived sets, the oldest first
}

// A memoryFileSet has the files of one transcript, by hash. No bytes are changed in place.
type memoryFileSet struct {
	archived bool
	files    map[string][]byte
}

func newMemoryFiles(isArchived func(Ref) bool) *memoryFiles {
	return &memoryFiles{isArchived: isArchived, sets: make(map[Ref]*memoryFileSet)}
}

// Close makes every later call fail with [ErrClosed].
func (f *memoryFiles) Close() error {
	f.closed.Store(true)
	return nil
}

// check returns the error of ref, ErrClosed if f is closed, or the error of ctx.
func (f *memoryFiles) check(ctx context.Context, ref Ref, doing string) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	err := ctx.Err()
	if f.closed.Load() {
		err = ErrClosed
	}
	return memoryFileError(ref, doing, err)
}

// memoryFileError adds the transcript and the operation to err, unless it is nil.
func memoryFileError(ref Ref, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("session: files of transcript %q of %q: %s: %w",
		ref.SessionID, ref.Key, doing, err)
}

func (f *memoryFiles) Put(ctx context.Context, ref Ref, r io.Reader, want File) (File, error) {
	if err := f.check(ctx, ref, "put"); err != nil {
		return File{}, err
	}
	if err := f.refuse(ref); err != nil { // before r is read
		return File{}, memoryFileError(ref, "put", err)
	}
	in, err := NewFileReader(ctx, r, want)
	if err != nil {
		return File{}, memoryFileError(ref, "put", err)
	}
	data, err := io.ReadAll(in)
	var file File
	if err == nil {
		file, err = in.File()
	}
	if err == nil {
		err = f.keep(ref, file, data)
	}
	if err != nil {
		return File{}, memoryFileError(ref, "put", err)
	}
	return file, nil
}

// refuse returns ErrArchived if the transcript or its files are archived.
func (f *memoryFiles) refuse(ref Ref) error {
	f.mu.Lock()
	set := f.sets[ref]
	f.mu.Unlock()
	if set != nil && set.archived || f.isArchived(ref) {
		return ErrArchived
	}
	return nil
}

// keep adds bytes, unless they are there or the transcript has been archived meanwhile.
func (f *memoryFiles) keep(ref Ref, file File, data []byte) error {
	archived := f.isArchived(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.sets[ref]
	switch {
	case f.closed.Load():
		return ErrClosed
	case archived || set != nil && set.archived:
		return ErrArchived
	case set == nil:
		set = &memoryFileSet{files: make(map[string][]byte)}
		f.sets[ref] = set
	}
	if _, ok := set.files[file.Hash]; !ok {
		set.files[file.Hash] = bytes.Clone(data) // io.ReadAll leaves room behind them
	}
	return nil
}

func (f *memoryFiles) Open(ctx context.Context, ref Ref, hash string) (io.ReadCloser, error) {
	err := f.check(ctx, ref, "open")
	if err == nil {
		err = File{Hash: hash}.Validate()
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if set := f.sets[ref]; set != nil {
		if data, ok := set.files[hash]; ok {
			return io.NopCloser(bytes.NewReader(data)), nil
		}
	}
	return nil, memoryFileError(ref, "open", fmt.Errorf("%w: %s", ErrNotFound, hash))
}

func (f *memoryFiles) List(ctx context.Context, ref Ref) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		if err := f.check(ctx, ref, "list"); err != nil {
			yield(File{}, err)
			return
		}
		for _, file := range f.list(ref) {
			err := f.check(ctx, ref, "list")
			if err != nil {
				file = File{}
			}
			if !yield(file, err) || err != nil {
				return
			}
		}
	}
}

func (f *memoryFiles) list(ref Ref) (files []File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if set := f.sets[ref]; set != nil {
		for hash, data := range set.files {
			files = append(files, File{Hash: hash, Size: int64(len(data))})
		}
	}
	return files
}

func (f *memoryFiles) Archive(ctx context.Context, ref Ref, _ time.Time) error {
	if err := f.check(ctx, ref, "archive"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.sets[ref]
	if set == nil || set.archived {
		return nil
	}
	set.archived = true
	if len(f.buried) == maxTombstones {
		delete(f.sets, f.buried[0])
		f.buried = f.buried[1:]
	}
	f.buried = append(f.buried, ref)
	return nil
}

func (f *memoryFiles) Restore(ctx context.Context, ref Ref) error {
	if err := f.check(ctx, ref, "restore"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if set := f.sets[ref]; set != nil {
		set.archived = false
		f.buried = slices.DeleteFunc(f.buried, func(old Ref) bool { return old == ref })
	}
	return nil
}

func (f *memoryFiles) Remove(ctx context.Context, ref Ref) error {
	if err := f.check(ctx, ref, "remove"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sets, ref)
	f.buried = slices.DeleteFunc(f.buried, func(old Ref) bool { return old == ref })
	return nil
}
