package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An UnsafeError says that a file or directory is refused, because it need not be what its name
// says, or because another user may change it.
type UnsafeError struct {
	Path   string
	Reason string
	Err    error // of the system, or nil
}

func (e *UnsafeError) Error() string { return fmt.Sprintf("disk: %s: %s", e.Path, e.Reason) }

func (e *UnsafeError) Unwrap() error { return e.Err }

// Create opens a new file for writing under a temporary name. It removes a file that has the name,
// which a process that died has left, and follows no link.
func Create(fsys FS, name string) (File, error) {
	const flag = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := fsys.OpenFile(name, flag)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, err
	}
	return fsys.OpenFile(name, flag)
}

// OpenFile opens a regular file of the operating system. It follows no symbolic link, and does not
// wait for the other end of a pipe. A file that is opened for writing must have one name and belong
// to the user of this process; OpenFile takes the permissions of others away. A new file gets
// [FilePerm]. The error is an *[UnsafeError] if the file is refused.
func OpenFile(name string, flag int) (*os.File, error) {
	if flag&os.O_EXCL == 0 { // otherwise the system refuses every existing name
		if kind, there, err := Look(OS(), name); err == nil && there && !kind.IsRegular() {
			return nil, &UnsafeError{Path: name, Reason: kindReason(kind, "regular file")}
		}
	}
	f, err := os.OpenFile(name, flag|noFollow, FilePerm)
	if err != nil {
		return nil, err
	}
	if err := checkFile(f, flag&(os.O_RDWR|os.O_WRONLY) != 0); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkFile returns the error of OpenFile for a file that is open.
func checkFile(f *os.File, writing bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	n := links(info)
	switch {
	case !info.Mode().IsRegular():
		return &UnsafeError{Path: f.Name(), Reason: kindReason(info.Mode(), "regular file")}
	case !writing:
		return nil
	case n == 0:
		return &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
	case n > 1:
		reason := fmt.Sprintf("the file has %d names (hard links), and a write would change all", n)
		return &UnsafeError{Path: f.Name(), Reason: reason}
	}
	return restrict(f, info)
}

// OpenDir opens a directory of the operating system. It follows no symbolic link. The directory
// must belong to the user of this process; OpenDir takes the permissions of others away. The error
// is an *[UnsafeError] if the directory is refused.
func OpenDir(name string) (*os.File, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &UnsafeError{Path: name, Reason: kindReason(info.Mode(), "directory")}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if err := Restrict(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// CheckDir returns an *[UnsafeError] if something else than a directory has the name, such as a
// link. A name that does not exist is not an error.
func CheckDir(fsys FS, name string) error {
	_, err := HasDir(fsys, name)
	return err
}

// HasDir is CheckDir, and reports whether there is a directory.
func HasDir(fsys FS, name string) (bool, error) {
	kind, there, err := Look(fsys, name)
	if there && !kind.IsDir() {
		return false, &UnsafeError{Path: name, Reason: kindReason(kind, "directory")}
	}
	return there, err
}

// IsPlain reports whether info is that of a regular file of a length, with one name, which belongs
// to the user of this process and is closed to others: [OpenFile] would do nothing to it.
func IsPlain(info fs.FileInfo, size int64) bool {
	return info.Mode().IsRegular() && info.Size() == size && links(info) == 1 &&
		checkOwner("", info) == nil && !OpenToOthers(info)
}

// Secure does what [Restrict] does to a file or directory of the operating system, without
// following a link. With dir, what has the name must be a directory. Secure is quick if there is
// nothing to do. What cannot be looked at is left to the caller, who is about to use it. The error
// is an *[UnsafeError].
func Secure(name string, dir bool) error {
	if isSecure(name, dir) {
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil
	}
	if dir && !info.IsDir() {
		return &UnsafeError{Path: name, Reason: kindReason(info.Mode(), "directory")}
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil
	}
	if err := checkOwner(name, info); err != nil {
		return err
	}
	if !OpenToOthers(info) {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return unrestricted(name, info, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return Restrict(f)
}

// checkOwner returns an *[UnsafeError] if a file belongs to another user.
func checkOwner(path string, info fs.FileInfo) error {
	uid, foreign := foreignOwner(info)
	if !foreign {
		return nil
	}
	reason := fmt.Sprintf("it belongs to user %d, and this process runs as user %d",
		uid, os.Geteuid())
	return &UnsafeError{Path: path, Reason: reason}
}

// CheckPrivate returns an *[UnsafeError] if a directory, of which info is, belongs to another user,
// or if others may change what is in it. They may read it.
func CheckPrivate(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); hasPermissions && mode&othersWrite != 0 {
		return &UnsafeError{Path: path, Reason: fmt.Sprintf(
			"other users may write to it: its mode is %#o, want %#o", mode, mode&^othersWrite)}
	}
	return nil
}

// Restrict takes the permissions of other users on an open file or directory away. The error is an
// *[UnsafeError] if that does not succeed, or if the file belongs to another user. Restrict does
// nothing on a system whose files do not have such permissions.
func Restrict(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return restrict(f, info)
}

// restrict is Restrict for a file of which info is.
func restrict(f *os.File, info fs.FileInfo) error {
	path := filepath.Clean(f.Name())
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if !OpenToOthers(info) {
		return nil
	}
	err := f.Chmod(info.Mode() &^ othersPerm)
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil && !OpenToOthers(info) {
		return nil
	}
	return unrestricted(path, info, err)
}

// unrestricted returns the error of permissions that err says could not be taken away.
func unrestricted(path string, info fs.FileInfo, err error) error {
	reason := fmt.Sprintf("other users have permissions (mode %#o), which could not be taken away",
		info.Mode().Perm())
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok { // it names the path once more
		reason += ": " + pathErr.Err.Error()
	}
	return &UnsafeError{Path: path, Reason: reason, Err: err}
}

// othersPerm are the permissions of all users but the owner.
const othersPerm fs.FileMode = 0o077

// othersWrite are those of them to write.
const othersWrite fs.FileMode = 0o022

// OpenToOthers reports whether other users than the owner have permissions on a file or directory.
func OpenToOthers(info fs.FileInfo) bool {
	return hasPermissions && info.Mode().Perm()&othersPerm != 0
}

// kindReason says why a file of another kind than want is refused.
func kindReason(mode fs.FileMode, want string) string {
	kind := "a special file"
	switch {
	case mode.IsRegular():
		kind = "a regular file"
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link, which is not followed"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Sprintf("it must be a %s and is %s", want, kind)
}
