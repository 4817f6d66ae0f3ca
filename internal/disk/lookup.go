package disk

import (
	"errors"
	"io/fs"
)

// LookUp calls f, which looks for a file in dir and returns fs.ErrNotExist if that is missing.
// LookUp reports whether f succeeded. Without an error, false means that the file is missing and
// dir is there: LookUp has seen dir before and after f. LookUp returns the error of dir itself if
// dir is out of reach, because a directory that was moved away, or whose disk is gone, still has
// all its files. Any other error of f is returned as it is.
func LookUp(fsys FS, dir string, f func() error) (found bool, err error) {
	if err = seen(fsys, dir); err != nil {
		return false, err
	}
	return LookUpIn(fsys, dir, f)
}

// LookUpIn is LookUp for a caller that has seen dir just before.
func LookUpIn(fsys FS, dir string, f func() error) (found bool, err error) {
	if err = f(); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	return false, seen(fsys, dir)
}

// seen returns the error of Lstat, or nil for a name that something has.
func seen(fsys FS, name string) error {
	_, there, err := Look(fsys, name)
	if err == nil && !there {
		_, err = fsys.Lstat(name) // which says what is missing
	}
	return err
}
