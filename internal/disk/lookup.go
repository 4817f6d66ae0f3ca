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
	if _, err = fsys.Lstat(dir); err != nil {
		return false, err
	}
	if err = f(); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	_, err = fsys.Lstat(dir)
	return false, err
}
