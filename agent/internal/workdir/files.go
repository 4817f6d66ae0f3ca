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

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/text"
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
// Every part of dir is made unless it is there. One that is a link, or not a directory, belongs to
// another user, or may be changed by others, is refused with an *[UnsafeError]. A file is never
// written over.
func Write(root *os.Root, dir string, files []Content, mark string, done []byte) error {
	err := write(root, dir, files, Content{mark, func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(done)), nil
	}}, done)
	if _, unsafe := errors.AsType[*UnsafeError](err); err != nil && !unsafe {
		prune(root, path.Dir(dir)) // what was refused is not touched
	}
	return err
}

// write is Write, except that it leaves empty directories above.
func write(root *os.Root, dir string, files []Content, mark Content, done []byte) error {
	above, own, err := claim(root, dir, mark.Name, done)
	if err != nil || own == nil {
		return err
	}
	for _, f := range append(slices.Clip(files), mark) {
		if err = create(own, f); err != nil {
			err = fmt.Errorf("agent: writing %s: %w", path.Join(dir, f.Name), err)
			break
		}
	}
	if err = errors.Join(err, own.Close()); err != nil {
		err = errors.Join(err, above.RemoveAll(path.Base(dir)))
	}
	return errors.Join(err, above.Close())
}

// maxClaims is how often claim tries. Each Remove that is under way costs one at most.
const maxClaims = 100

// claim opens the directory of the files, which is new and empty, and the one above it. Both are
// nil if all is written. The one above may go while claim looks at it, because Remove takes what
// has become empty with it.
func claim(root *os.Root, dir, mark string, done []byte) (above, own *os.Root, err error) {
	for range maxClaims {
		if above, err = descend(root, path.Dir(dir), true); err == nil {
			own, err = empty(above, dir, mark, done)
			if err == nil && own != nil {
				return above, own, nil
			}
			err = errors.Join(err, above.Close())
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("agent: making %s: %w", dir, err)
	}
	return nil, nil, err
}

// empty opens a directory that it makes, in the place of what has its name. It returns nil if all
// is written there.
func empty(above *os.Root, dir, mark string, done []byte) (*os.Root, error) {
	name := path.Base(dir)
	if info, err := above.Lstat(name); err == nil && info.IsDir() {
		if isWritten(above, dir, mark, done) {
			return nil, nil //nolint:nilnil // there is nothing to do
		}
	}
	if err := above.RemoveAll(name); err != nil {
		return nil, err
	}
	if err := above.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	return openReal(above, dir, true)
}

// isWritten reports whether the mark of a directory stands there.
func isWritten(above *os.Root, dir, mark string, done []byte) bool {
	own, err := openReal(above, dir, true)
	if err != nil {
		return false
	}
	defer func() { _ = own.Close() }() // nothing was written
	info, err := own.Lstat(mark)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(done)) {
		return false
	}
	said, err := own.ReadFile(mark)
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

// Remove removes a directory that Write has written, with what has come into it, and the ones above
// that are empty then, up to the root. One that is not there is removed already. A link on the way
// is refused, and one in the place of the directory is removed without what it leads to.
func Remove(root *os.Root, dir string) error {
	above, err := descend(root, path.Dir(dir), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(above.RemoveAll(path.Base(dir)), above.Close())
	if err == nil {
		prune(root, path.Dir(dir))
	}
	return err
}

// prune removes a directory and those above it, up to the root, as far as they are empty.
func prune(root *os.Root, dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		above, err := descend(root, path.Dir(dir), false)
		if err != nil {
			return
		}
		info, err := above.Lstat(path.Base(dir))
		if err == nil && info.IsDir() {
			err = above.Remove(path.Base(dir)) // the system refuses one that is not empty
		}
		if errors.Join(err, above.Close()) != nil {
			return
		}
	}
}

// descend opens a directory below a root, and makes what is not there of it if that is asked for.
// What others may change is refused then.
func descend(root *os.Root, dir string, makes bool) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	if err != nil || dir == "." {
		return at, err
	}
	names := strings.Split(dir, "/")
	for i, name := range names {
		if makes {
			if err := at.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, errors.Join(err, at.Close())
			}
		}
		next, err := openReal(at, path.Join(names[:i+1]...), makes)
		if err = errors.Join(err, at.Close()); err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// An UnsafeError says why a directory is not used that stands where files are to be written, or
// from where they are to be removed.
type UnsafeError struct {
	Dir    string // slash-separated, below the one that the session works in
	Reason string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("agent: the directory %s %s", text.QuoteWhole(e.Dir), e.Reason)
}

// openReal opens a directory, the last part of a path, that is not a link. The system follows a
// link that stays below the root, so that what was opened is compared with what was found. If it is
// to be private, others may not change it.
func openReal(above *os.Root, dir string, private bool) (*os.Root, error) {
	name := path.Base(dir)
	found, err := above.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !found.IsDir() {
		return nil, &UnsafeError{dir, "is a link or a file, and not a directory; remove it"}
	}
	own, err := above.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := own.Stat(".")
	if err == nil && !os.SameFile(found, opened) {
		err = &UnsafeError{dir, "has become a link"}
	}
	if err == nil && private {
		if unsafe, ok := errors.AsType[*disk.UnsafeError](disk.CheckPrivate(dir, opened)); ok {
			err = &UnsafeError{dir, "is not safe to write to: " + unsafe.Reason +
				"; remove it, or mend that"}
		}
	}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}
