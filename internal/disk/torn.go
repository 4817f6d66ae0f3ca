package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tornChunk is the number of bytes that SaveTorn copies at once.
const tornChunk = 64 << 10

// SaveTorn copies the bytes of f between two offsets to a new file and makes that file durable. The
// name of the new file is path.torn.<from>, with a further number if an earlier copy has that name.
// SaveTorn returns the name. After an error there is no new file. Zeros become holes in the new
// file: a sparse file may be longer than the disk has room for.
func SaveTorn(fsys FS, f io.ReaderAt, path string, from, to int64) (name string, err error) {
	out, name, err := createTorn(fsys, fmt.Sprintf("%s.torn.%d", path, from))
	if err != nil {
		return "", err
	}
	b := make([]byte, min(max(to-from, 0), tornChunk))
	hole := false // the new file has not got the last bytes
	for at := from; at < to && err == nil; {
		var n int
		n, err = f.ReadAt(b[:min(to-at, tornChunk)], at)
		switch {
		case n > 0 && len(bytes.Trim(b[:n], "\x00")) == 0:
			hole, err = true, nil
		case n > 0:
			hole = false
			_, err = out.WriteAt(b[:n], at-from)
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		at += int64(n)
	}
	if err == nil && hole {
		err = out.Truncate(to - from)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = fsys.Remove(name)
		return "", err
	}
	return name, fsys.SyncDir(filepath.Dir(name))
}

// createTorn makes a .torn file. It adds a number to the name if the name is taken, so that the
// files of earlier repairs stay.
func createTorn(fsys FS, base string) (f File, name string, err error) {
	name = base
	for n := 1; ; n++ {
		f, err = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
		name = fmt.Sprintf("%s.%d", base, n)
	}
}
