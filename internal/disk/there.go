package disk

import (
	"errors"
	"io/fs"
)

// IfThere calls f, which says with fs.ErrNotExist that something in a directory is not there, and returns whether it is. It makes sure that
// the directory is: one that has been moved away, or whose disk is gone, has everything that it had.
func IfThere(fsys FS, dir string, f func() error) (there bool, err error) {
	for range 2 { // it may have come back between the two questions
		if err = f(); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
		if _, err = fsys.Lstat(dir); err != nil {
			return false, err
		}
	}
	return false, nil
}
