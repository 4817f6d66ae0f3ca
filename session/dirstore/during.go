package dirstore

import (
	"context"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// maxRead is the number of bytes that are read between two looks at a context.
const maxRead = 1 << 20

// A duringFS is a file system during one call: the files that it opens fail to read once the
// context of the call is done. What a call reads may be longer than any writer has left it, as a
// sparse file is.
type duringFS struct {
	disk.FS
	ctx context.Context //nolint:containedctx // the value lives as long as the call
}

// OpenFile implements disk.FS.
func (d duringFS) OpenFile(name string, flag int) (disk.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return duringFile{f, d.ctx}, nil
}

// A duringFile is a file that is open during one call.
type duringFile struct {
	disk.File
	ctx context.Context //nolint:containedctx // the value lives as long as the call
}

// ReadAt implements io.ReaderAt. It looks at the context before every part of maxRead bytes.
func (f duringFile) ReadAt(b []byte, off int64) (n int, err error) {
	for {
		if err := f.ctx.Err(); err != nil {
			return n, err
		}
		part := b[n:min(n+maxRead, len(b))]
		got, err := f.File.ReadAt(part, off+int64(n))
		if n += got; err != nil || n == len(b) {
			return n, err
		}
	}
}
