package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/offshoot-sdk/offshoot/session"
)

// Copy reads to the end, calls flush with each chunk of so many bytes, and returns the last chunk,
// which has fewer and may be empty. flush does not keep what it is given.
func Copy(in io.Reader, size int, flush func(chunk []byte) error) (last []byte, err error) {
	chunk := make([]byte, 0, min(size, 4<<10))
	for {
		for len(chunk) < size {
			if len(chunk) == cap(chunk) {
				chunk = append(make([]byte, 0, min(4*cap(chunk), size)), chunk...)
			}
			n, err := in.Read(chunk[len(chunk):cap(chunk)])
			chunk = chunk[:len(chunk)+n]
			if err == io.EOF {
				return chunk, nil
			}
			if err != nil {
				return nil, err
			}
		}
		if err := flush(chunk); err != nil {
			return nil, err
		}
		chunk = chunk[:0]
	}
}

// ErrClosed is the error of a Read after Close.
var ErrClosed = errors.New("blob: the file is closed")

// NewReader returns a reader of the bytes of a file. next returns the chunk of a number, from 0,
// and whether there is one; what it returns is the reader's. The Read that would return the last
// byte returns a *[session.CorruptError] if the bytes are not those that the file names.
func NewReader(
	file session.File, next func(n int) (chunk []byte, ok bool, err error),
) io.ReadCloser {
	return &reader{file: file, next: next, sum: sha256.New()}
}

type reader struct {
	file  session.File
	next  func(n int) (chunk []byte, ok bool, err error)
	n     int    // the number of the next chunk
	chunk []byte // what is left of the last one
	size  int64  // of the bytes that were read
	sum   hash.Hash
	err   error // after the last byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 && r.err == nil {
		r.err = r.advance()
	}
	if len(r.chunk) == 0 {
		return 0, r.err
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// advance reads the next chunk. The error is io.EOF after the last one, if the bytes are whole.
func (r *reader) advance() error {
	chunk, ok, err := r.next(r.n)
	if err != nil {
		return err
	}
	if !ok {
		return r.end()
	}
	r.n++
	r.size += int64(len(chunk))
	r.sum.Write(chunk)
	if r.size >= r.file.Size { // no byte is given out before all of them are known to be right
		if err := r.end(); err != io.EOF { //nolint:errorlint // end returns it as it is
			return err
		}
	}
	r.chunk = chunk
	return nil
}

// end returns io.EOF if all bytes were read and are those that were put.
func (r *reader) end() error {
	if r.size == r.file.Size && hex.EncodeToString(r.sum.Sum(nil)) == r.file.Hash {
		return io.EOF
	}
	return &session.CorruptError{
		File: "file " + r.file.Hash, Offset: r.size, Reason: "the bytes are not those that were put",
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.chunk, r.err = nil, ErrClosed
	return nil
}
