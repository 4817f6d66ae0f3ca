package disktest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
)

// An OpKind is what an operation does.
type OpKind string

// The operations that a hook sees.
const (
	OpOpen     OpKind = "open"
	OpCreate   OpKind = "create"
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpTruncate OpKind = "truncate"
	OpSync     OpKind = "sync"
	OpClose    OpKind = "close"
	OpMkdir    OpKind = "mkdir"
	OpRename   OpKind = "rename"
	OpRemove   OpKind = "remove"
	OpReadDir  OpKind = "readdir"
	OpSyncDir  OpKind = "syncdir"
)

// An Op is an operation that is about to happen.
type Op struct {
	Kind OpKind
	Name string // path
	Size int    // of a read or write, in bytes
}

// Changes reports whether the operation may change what is on the disk.
func (o Op) Changes() bool {
	switch o.Kind {
	case OpOpen, OpRead, OpClose, OpReadDir:
		return false
	default: // includes a kind that is added later, so that no crash is left out
		return true
	}
}

// ErrAfter lets an operation happen before it fails: the error of a hook wraps it.
var ErrAfter = errors.New("disktest: after the fact")

// A ShortError is the error of a hook that makes a write stop after some bytes.
type ShortError struct {
	Written int // bytes
	Err     error
}

func (e *ShortError) Error() string { return e.Err.Error() }
func (e *ShortError) Unwrap() error { return e.Err }

// A Disk is a [disk.FS] in memory. A failed sync drops the writes that it was to make durable, as
// Linux does: reads still show them, but a later sync does not write them. The methods of a Disk
// may be called from several goroutines at once. Make one with [New].
type Disk struct {
	mu   sync.Mutex
	root *node
	hook func(Op) error
	off  bool
}

// A node is a file or a directory. It has the state that reads show, the durable state, and the
// operations in between.
type node struct {
	dir bool

	names        map[string]*node // of a directory
	durableNames map[string]*node
	changes      []change

	data    []byte // of a file
	durable []byte
	writes  []write
}

// A change is a set of changes to the names of one directory that happen at once. A nil node
// removes the name.
type change map[string]*node

// A write is one WriteAt, or one Truncate to off bytes if cut is set.
type write struct {
	off  int64
	data []byte
	cut  bool
}

// New returns an empty Disk, with a root directory called "/".
func New() *Disk { return &Disk{root: newDir()} }

func newDir() *node {
	return &node{dir: true, names: make(map[string]*node), durableNames: make(map[string]*node)}
}

// Hook makes the Disk call f before each operation, in the goroutine of the operation. Nil removes
// the hook. f may use the Disk.
func (d *Disk) Hook(f func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = f
}

// do calls the hook, and then act unless the hook returns an error without [ErrAfter].
func (d *Disk) do(op Op, act func() error) error {
	d.mu.Lock()
	hook := d.hook
	d.mu.Unlock()
	var failed error
	if hook != nil {
		failed = hook(op)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: ErrOff}
	}
	if failed != nil && !errors.Is(failed, ErrAfter) {
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: failed}
	}
	if err := act(); err != nil {
		return &fs.PathError{Op: string(op.Kind), Path: op.Name, Err: err}
	}
	return failed
}

func (d *Disk) find(name string) (*node, error) {
	n := d.root
	for part := range strings.SplitSeq(strings.Trim(filepath.ToSlash(name), "/"), "/") {
		if part == "" {
			continue
		}
		if !n.dir {
			return nil, fs.ErrNotExist
		}
		next := n.names[part]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

func (d *Disk) parent(name string) (*node, string, error) {
	dir, err := d.find(filepath.Dir(name))
	if err == nil && !dir.dir {
		err = fs.ErrInvalid
	}
	return dir, filepath.Base(name), err
}

func (n *node) change(c change) {
	n.changes = append(n.changes, c)
	apply(n.names, c)
}

func apply(names map[string]*node, c change) {
	for name, to := range c {
		if to == nil {
			delete(names, name)
		} else {
			names[name] = to
		}
	}
}

// OpenFile implements [disk.FS].
func (d *Disk) OpenFile(name string, flag int) (disk.File, error) {
	kind := OpOpen
	d.mu.Lock()
	if _, err := d.find(name); err != nil && flag&os.O_CREATE != 0 {
		kind = OpCreate
	}
	d.mu.Unlock()
	var f *file
	err := d.do(Op{Kind: kind, Name: name}, func() error {
		dir, base, err := d.parent(name)
		if err != nil {
			return err
		}
		n := dir.names[base]
		switch {
		case n == nil && flag&os.O_CREATE == 0:
			return fs.ErrNotExist
		case n != nil && flag&os.O_EXCL != 0:
			return fs.ErrExist
		case n == nil:
			n = &node{}
			dir.change(change{base: n})
		case n.dir:
			return fs.ErrInvalid
		}
		if flag&os.O_TRUNC != 0 {
			n.truncate(0)
		}
		f = &file{d: d, n: n, name: name, readOnly: flag&(os.O_RDWR|os.O_WRONLY) == 0}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Mkdir implements [disk.FS].
func (d *Disk) Mkdir(name string) error {
	return d.do(Op{Kind: OpMkdir, Name: name}, func() error {
		dir, base, err := d.parent(name)
		if err == nil && dir.names[base] != nil {
			err = fs.ErrExist
		}
		if err == nil {
			dir.change(change{base: newDir()})
		}
		return err
	})
}

// Rename implements [disk.FS], within one directory.
func (d *Disk) Rename(from, to string) error {
	return d.do(Op{Kind: OpRename, Name: from}, func() error {
		dir, base, err := d.parent(from)
		if err != nil {
			return err
		}
		target, newBase, err := d.parent(to)
		switch {
		case err != nil:
			return err
		case dir != target:
			return errors.ErrUnsupported
		case dir.names[base] == nil:
			return fs.ErrNotExist
		}
		dir.change(change{newBase: dir.names[base], base: nil})
		return nil
	})
}

// Remove implements [disk.FS].
func (d *Disk) Remove(name string) error {
	return d.do(Op{Kind: OpRemove, Name: name}, func() error {
		dir, base, err := d.parent(name)
		if err == nil && dir.names[base] == nil {
			err = fs.ErrNotExist
		}
		if err == nil {
			dir.change(change{base: nil})
		}
		return err
	})
}

// ReadDir implements [disk.FS].
func (d *Disk) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = d.do(Op{Kind: OpReadDir, Name: name}, func() error {
		dir, err := d.find(name)
		if err != nil {
			return err
		}
		for _, base := range slices.Sorted(maps.Keys(dir.names)) {
			entries = append(entries, fs.FileInfoToDirEntry(info{base, dir.names[base]}))
		}
		return nil
	})
	return entries, err
}

// Lstat implements [disk.FS].
func (d *Disk) Lstat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return info{filepath.Base(name), n}, nil
}

// SyncDir implements [disk.FS].
func (d *Disk) SyncDir(name string) error {
	return d.do(Op{Kind: OpSyncDir, Name: name}, func() error {
		n, err := d.find(name)
		if err != nil {
			return err
		}
		for _, c := range n.changes {
			apply(n.durableNames, c)
		}
		n.changes = nil
		return nil
	})
}

type info struct {
	name string
	n    *node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.n.data)) }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.n.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.n.dir {
		return disk.DirPerm | fs.ModeDir
	}
	return disk.FilePerm
}
