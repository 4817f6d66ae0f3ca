package disk

import (
	"errors"
	"io/fs"
)

// LookUp calls f, which looks for a file in dir and returns fs.ErrNotExist if that is missing.
// LookUp reports whether f succeeded. Without an error, false means that the file is missing and
// dir is there. LookUp returns the error of dir itself if dir is out of reach, because a directory
// that was moved away, or whose disk is gone, still has all its files. It may call f twice. Any
// other error of f is returned as it is.
func LookUp(fsys FS, dir string, f func() error) (found bool, err error) {
	for range 2 { // dir may have come back between f and Lstat
		if err = f(); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
		if _, err = fsys.Lstat(dir); err != nil {
			return false, err
		}
	}
	return false, nil
}
