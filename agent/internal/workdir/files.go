package workdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// A Content is a file that is to be written.
type Content struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Write writes files into a directory of their own below a root, where only the owner of the
// process reads them, and at last the file mark with the text done. If done stands there already,
// all is written, and Write leaves the files as they are. What an earlier attempt has left is
// written anew. After an error nothing of it is left, as far as the system lets it be removed.
//
// Every part of dir is made unless it is there. One that is a link, or not a directory, is refused:
// no link is followed. A file is never written over.
func Write(root *os.Root, dir string, files []Content, mark string, done []byte) error {
	above, err := descend(root, path.Dir(dir), true)
	if err != nil {
		return err
	}
	name := path.Base(dir)
	err = write(above, name, files, Content{mark, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(done)), nil
	}}, done)
	if err != nil {
		err = errors.Join(fmt.Errorf("agent: writing %s: %w", dir, err), above.RemoveAll(name))
	}
	return errors.Join(err, above.Close())
}

// write is Write below the directory of which name is an entry.
func write(above *os.Root, name string, files []Content, mark Content, done []byte) error {
	if info, err := above.Lstat(name); err == nil && info.IsDir() {
		if isWritten(above, name, mark.Name, done) {
			return nil
		}
	}
	if err := above.RemoveAll(name); err != nil {
		return err
	}
	if err := above.Mkdir(name, 0o700); err != nil {
		return err
	}
	dir, err := openReal(above, name)
	if err != nil {
		return err
	}
	for _, f := range append(slices.Clip(files), mark) {
		if err := create(dir, f); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", f.Name, err), dir.Close())
		}
	}
	return dir.Close()
}

// isWritten reports whether the mark of a directory stands there.
func isWritten(above *os.Root, name, mark string, done []byte) bool {
	dir, err := openReal(above, name)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }() // nothing was written
	info, err := dir.Lstat(mark)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(done)) {
		return false
	}
	said, err := dir.ReadFile(mark)
	return err == nil && bytes.Equal(said, done)
}

// create writes one file, which must not be there, and has the system keep it.
func create(dir *os.Root, c Content) error {
	in, err := c.Open()
	if err != nil {
		return err
	}
	f, err := dir.OpenFile(c.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(f, in)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), in.Close())
}

// Remove removes a directory that Write has written, with what has come into it. One that is not
// there is removed already. A link on the way is refused, and one in the place of the directory is
// removed without what it leads to.
func Remove(root *os.Root, dir string) error {
	above, err := descend(root, path.Dir(dir), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(above.RemoveAll(path.Base(dir)), above.Close())
}

// descend opens a directory below a root, and makes what is not there of it if that is asked for.
func descend(root *os.Root, dir string, makes bool) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		if makes {
			if err := at.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, errors.Join(err, at.Close())
			}
		}
		next, err := openReal(at, name)
		if err = errors.Join(err, at.Close()); err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// openReal opens a directory that is not a link. The system follows a link that stays below the
// root, so that what was opened is compared with what was found.
func openReal(at *os.Root, name string) (*os.Root, error) {
	found, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !found.IsDir() {
		return nil, PathError(fmt.Sprintf("%q is a link or a file, and not a directory", name))
	}
	dir, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(found, opened) {
		err = PathError(fmt.Sprintf("%q has become a link", name))
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
