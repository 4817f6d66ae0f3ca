package disktest

import (
	"errors"
	"io"
	"io/fs"
	"slices"
)

// A file is an open file of a Disk.
type file struct {
	d        *Disk
	n        *node
	name     string
	readOnly bool
	closed   bool
}

func (f *file) do(kind OpKind, size int, act func() error) error {
	return f.d.do(Op{Kind: kind, Name: f.name, Size: size}, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		return act()
	})
}

// ReadAt implements [disk.File].
func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.do(OpRead, len(b), func() error {
		if off < int64(len(f.n.data)) {
			n = copy(b, f.n.data[off:])
		}
		return nil
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements [disk.File].
func (f *file) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.do(OpWrite, len(b), func() error {
		if f.readOnly {
			return fs.ErrPermission
		}
		f.n.write(off, b)
		return nil
	})
	var short *ShortError
	switch {
	case err == nil || errors.Is(err, ErrAfter):
		return len(b), err
	case errors.As(err, &short) && short.Written > 0:
		f.d.mu.Lock()
		defer f.d.mu.Unlock()
		n = min(short.Written, len(b))
		f.n.write(off, b[:n])
		return n, err
	}
	return 0, err
}

// Truncate implements [disk.File].
func (f *file) Truncate(size int64) error {
	return f.do(OpTruncate, 0, func() error {
		f.n.truncate(size)
		return nil
	})
}

// Sync implements [disk.File].
func (f *file) Sync() error {
	err := f.do(OpSync, 0, func() error {
		for _, w := range f.n.writes {
			f.n.durable = w.apply(f.n.durable)
		}
		return nil
	})
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.n.writes = nil // a failed sync drops them
	return err
}

// Close implements [disk.File].
func (f *file) Close() error {
	return f.do(OpClose, 0, func() error {
		f.closed = true
		return nil
	})
}

// Size implements [disk.File].
func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	return int64(len(f.n.data)), nil
}

func (n *node) write(off int64, b []byte) {
	w := write{off: off, data: slices.Clone(b)}
	n.writes = append(n.writes, w)
	n.data = w.apply(n.data)
}

func (n *node) truncate(size int64) {
	w := write{off: size, cut: true}
	n.writes = append(n.writes, w)
	n.data = w.apply(n.data)
}

// apply returns b as it is after w.
func (w write) apply(b []byte) []byte {
	end := int(w.off) + len(w.data)
	if len(b) < end {
		b = append(b, make([]byte, end-len(b))...)
	}
	if w.cut {
		return b[:w.off:w.off]
	}
	copy(b[w.off:], w.data)
	return b
}
