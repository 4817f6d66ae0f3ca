package dirstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// Put implements [session.Files].
func (f *files) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	if err := ref.Validate(); err != nil {
		return session.File{}, err
	}
	in, err := session.NewFileReader(ctx, r, want)
	if err != nil {
		return session.File{}, err
	}
	tmp, err := f.begin(ctx, ref)
	if err != nil {
		return session.File{}, f.wrapError(ref, "put", err)
	}
	file, err := tmp.put(ctx, in)
	if tmp.readErr != nil { // it may be about a file, but not about one of this Store
		return session.File{}, fmt.Errorf("dirstore: files of transcript %q of %q: put: %w",
			ref.SessionID, ref.Key, tmp.readErr)
	}
	if err != nil {
		return session.File{}, f.wrapError(ref, "put", err)
	}
	return file, nil
}

// An incomingFile is a file that Put writes under a temporary name.
type incomingFile struct {
	f    *files
	ref  session.Ref
	file disk.File
	dir  string
	name string // in dir

	readErr error // of what Put was given to read
}

// begin makes the directory of ref if it does not exist, and a temporary file in it.
func (f *files) begin(ctx context.Context, ref session.Ref) (*incomingFile, error) {
	in := &incomingFile{f: f, ref: ref, dir: f.t.filesDir(ref)}
	in.name = fmt.Sprintf("put-%d%s", f.next.Add(1), tmpSuffix)
	err := f.whileLive(ctx, ref, func() (err error) {
		if err := f.makeDir(ref, in.dir); err != nil {
			return err
		}
		in.file, err = disk.Create(f.t.fs, filepath.Join(in.dir, in.name))
		return err
	})
	return in, err
}

// whileLive calls f while no other call changes names of the transcript or of its files. The error
// is [session.ErrArchived] if either is archived.
func (f *files) whileLive(ctx context.Context, ref session.Ref, call func() error) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.t.write(ctx, ref, func(x *transcriptState) error {
		name, err := f.archivedDir(ref)
		if err == nil && name == "" && x.path == "" {
			name, err = f.t.findArchived(ref)
		}
		if err == nil && name != "" {
			err = fmt.Errorf("%w as %q", session.ErrArchived, filepath.Base(name))
		}
		if err == nil {
			err = disk.CheckDir(f.t.fs, f.t.filesDir(ref))
		}
		if err != nil {
			return err
		}
		return call()
	})
}

// makeDir makes the directory of ref unless it exists, and removes what dead processes have left
// there. This process has not created a temporary file there when it does so.
func (f *files) makeDir(ref session.Ref, dir string) error {
	f.mu.Lock()
	ready := f.ready[ref]
	f.mu.Unlock()
	if ready {
		if _, err := f.t.fs.Lstat(dir); err == nil {
			return nil
		}
	}
	parent, err := f.t.makeAgentDir(ref, false)
	if err == nil {
		err = disk.MakeDir(f.t.fs, parent, dir)
	}
	if err != nil {
		return err
	}
	err = f.entries(dir, func(e fs.DirEntry) error {
		if !strings.HasSuffix(e.Name(), tmpSuffix) {
			return nil
		}
		return f.t.fs.Remove(filepath.Join(dir, e.Name()))
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready[ref] = true
	return nil
}

// put reads in and keeps what it has read under its hash. Nothing is left of a put that fails.
func (i *incomingFile) put(
	ctx context.Context, in *session.FileReader,
) (file session.File, err error) {
	kept := false
	defer func() {
		if closeErr := i.file.Close(); err == nil && closeErr != nil && kept {
			err = closeErr
		}
		if !kept {
			i.discard(ctx)
		}
	}()
	if err := i.fill(ctx, in); err != nil {
		return file, err
	}
	if file, err = in.File(); err != nil {
		return file, err
	}
	have, err := i.f.have(ctx, filepath.Join(i.dir, file.Hash), file)
	if err == nil && !have {
		err = i.writing(ctx, i.file.Sync)
	}
	if err != nil {
		return file, err
	}
	err = i.f.whileLive(ctx, i.ref, func() error {
		if !have {
			from, to := filepath.Join(i.dir, i.name), filepath.Join(i.dir, file.Hash)
			if err := i.f.t.fs.Rename(from, to); err != nil {
				return err
			}
			kept = true
		}
		return i.f.t.fs.SyncDir(i.dir)
	})
	return file, err
}

// writing calls f, which writes. Close does not wait for what Put reads from its caller.
func (i *incomingFile) writing(ctx context.Context, call func() error) error {
	if err := i.f.check(); err != nil {
		return err
	}
	return i.f.t.writing(ctx, call)
}

// fill writes what in has to the temporary file.
func (i *incomingFile) fill(ctx context.Context, in io.Reader) error {
	b := make([]byte, transcriptChunk)
	at, n := int64(0), 0 // b[:n] is not written yet
	for done := false; !done; {
		got, err := in.Read(b[n:])
		if done = err == io.EOF; err != nil && !done { // as in FileReader
			i.readErr = err
			return err
		}
		if n += got; n < len(b) && !done || n == 0 {
			continue
		}
		if err := i.writing(ctx, func() error {
			_, err := i.file.WriteAt(b[:n], at)
			return err
		}); err != nil {
			return err
		}
		at, n = at+int64(n), 0
	}
	return nil
}

// discard removes the temporary file, also if its directory was archived meanwhile. What cannot be
// removed goes with the directory, or when a later process puts a file there.
func (i *incomingFile) discard(ctx context.Context) {
	_ = i.f.t.writing(context.WithoutCancel(ctx), func() error {
		err := i.f.t.fs.Remove(filepath.Join(i.dir, i.name))
		if dir, archivedErr := i.f.archivedDir(i.ref); dir != "" && archivedErr == nil {
			err = i.f.t.fs.Remove(filepath.Join(dir, i.name))
		}
		return err
	})
}

// have reports whether the bytes of file are at path, intact. Bytes that are damaged are not.
func (f *files) have(ctx context.Context, path string, file session.File) (bool, error) {
	kept, err := openFile(duringFS{f.t.fs, ctx}, path)
	if kept == nil || err != nil {
		return false, err
	}
	defer kept.Close() //nolint:errcheck // nothing was written
	if kept.size != file.Size {
		return false, nil
	}
	_, err = io.Copy(io.Discard, kept)
	if errors.Is(err, session.ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// A storedFile reads a kept file and checks it against its name. It is an [io.ReadCloser].
type storedFile struct {
	f    disk.File
	path string
	size int64
	off  int64
	sum  hash.Hash
	err  error // of the last Read
}

func newStoredFile(f disk.File, path string, size int64) *storedFile {
	return &storedFile{f: f, path: path, size: size, sum: sha256.New()}
}

// Close implements [io.Closer].
func (s *storedFile) Close() error { return s.f.Close() }

// Read implements [io.Reader]. The error is a *[session.CorruptError] in place of the last bytes if
// they are not those of the name.
func (s *storedFile) Read(b []byte) (int, error) {
	if s.err != nil || len(b) == 0 {
		return 0, s.err
	}
	n := 0
	if want := min(int64(len(b)), s.size-s.off); want > 0 {
		n, s.err = s.f.ReadAt(b[:want], s.off)
		if n > 0 || errors.Is(s.err, io.EOF) {
			s.err = nil
		}
		if s.err != nil {
			return 0, s.err
		}
		s.sum.Write(b[:n])
		s.off += int64(n)
		if n == 0 { // another program has cut the file meanwhile
			s.size = s.off
		}
	}
	if s.off < s.size {
		return n, nil
	}
	if s.err = io.EOF; hex.EncodeToString(s.sum.Sum(nil)) != filepath.Base(s.path) {
		const reason = "the bytes do not have the hash that is the name of the file"
		s.err = &session.CorruptError{File: s.path, Reason: reason}
		return 0, s.err
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}
