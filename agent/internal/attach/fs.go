package attach

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"
)

// An FS has files, in one directory, that can be read. A file is opened where its bytes are when
// the FS opens it. An FS is safe for concurrent use if its Source is.
type FS struct {
	files []File // by name
	of    Source
}

// A Source has the bytes of the files of an FS.
type Source interface {
	// Open opens a file.
	Open(f File) (io.ReadCloser, error)
	// Over returns why nothing can be read any more, or nil.
	Over() error
}

// Fill makes s an FS of files of a Source. Once that is over, everything of the FS fails with what
// Over returns, and so does what was opened before, but for Stat and Close of that.
func (s *FS) Fill(files []File, of Source) {
	s.of = of
	if s.files = slices.Clone(files); len(files) > 1 {
		slices.SortFunc(s.files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	}
}

var (
	_ fs.ReadDirFS = (*FS)(nil)
	_ fs.StatFS    = (*FS)(nil)
)

// ended returns why an operation fails, once the FS is over.
func (s *FS) ended(op, name string) error {
	if err := s.of.Over(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// find returns the file of a name.
func (s *FS) find(op, name string) (f File, err error) {
	if !fs.ValidPath(name) {
		return f, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	i, ok := slices.BinarySearchFunc(s.files, name, func(f File, name string) int {
		return cmp.Compare(f.Name, name)
	})
	if !ok {
		return f, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return s.files[i], nil
}

// Open implements fs.FS.
func (s *FS) Open(name string) (fs.File, error) {
	if err := s.ended("open", name); err != nil {
		return nil, err
	}
	if name == "." {
		return &openDir{fs: s}, nil
	}
	f, err := s.find("open", name)
	if err != nil {
		return nil, err
	}
	in, err := s.of.Open(f)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &openFile{s, f, in}, nil
}

// Stat implements fs.StatFS. It opens nothing.
func (s *FS) Stat(name string) (fs.FileInfo, error) {
	if err := s.ended("stat", name); err != nil {
		return nil, err
	}
	if name == "." {
		return dirInfo{}, nil
	}
	f, err := s.find("stat", name)
	if err != nil {
		return nil, err
	}
	return fileInfo{f}, nil
}

// ReadDir implements fs.ReadDirFS.
func (s *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := s.ended("readdir", name); err != nil {
		return nil, err
	}
	if name != "." {
		_, err := s.find("readdir", name)
		return nil, cmp.Or(err, error(
			&fs.PathError{Op: "readdir", Path: name, Err: errors.New("it is not a directory")}))
	}
	list := make([]fs.DirEntry, len(s.files))
	for i, f := range s.files {
		list[i] = fs.FileInfoToDirEntry(fileInfo{f})
	}
	return list, nil
}

// An openFile is a file of an FS.
type openFile struct {
	fs   *FS
	file File
	io.ReadCloser
}

// Read implements fs.File.
func (f *openFile) Read(p []byte) (int, error) {
	if err := f.fs.ended("read", f.file.Name); err != nil {
		return 0, err
	}
	return f.ReadCloser.Read(p)
}

// Stat implements fs.File.
func (f *openFile) Stat() (fs.FileInfo, error) { return fileInfo{f.file}, nil }

// An openDir is the directory of an FS. It is for one goroutine.
type openDir struct {
	fs   *FS
	read int
}

func (d *openDir) Stat() (fs.FileInfo, error) { return dirInfo{}, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: errors.New("it is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	list, err := d.fs.ReadDir(".")
	if err != nil {
		return nil, err
	}
	list = list[d.read:]
	if n > 0 && len(list) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		list = list[:min(n, len(list))]
	}
	d.read += len(list)
	return list, nil
}

type fileInfo struct{ f File }

func (i fileInfo) Name() string     { return i.f.Name }
func (i fileInfo) Size() int64      { return i.f.Size }
func (fileInfo) Mode() fs.FileMode  { return 0o444 }
func (fileInfo) ModTime() time.Time { return time.Time{} }
func (fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any         { return i.f.File }

type dirInfo struct{}

func (dirInfo) Name() string       { return "." }
func (dirInfo) Size() int64        { return 0 }
func (dirInfo) Mode() fs.FileMode  { return fs.ModeDir | 0o555 }
func (dirInfo) ModTime() time.Time { return time.Time{} }
func (dirInfo) IsDir() bool        { return true }
func (dirInfo) Sys() any           { return nil }
