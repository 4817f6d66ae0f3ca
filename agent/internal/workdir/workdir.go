package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A Place is a directory below a work directory. The zero Place is none.
type Place struct {
	Base string // the work directory, absolute, without links
	Rel  string // slash-separated, below Base; ".": Base itself
}

// Dir returns the path of the directory, or "" for none.
func (p Place) Dir() string {
	if p.Base == "" {
		return ""
	}
	return filepath.Join(p.Base, filepath.FromSlash(p.Rel))
}

// maxPath is how many bytes a path has at most that a caller asks for. It is that of Linux.
const maxPath = 4096

// A PathError is why a path is refused. It does not say what is outside of the work directory.
type PathError struct {
	Path   string // as it was asked for
	Reason string // what is wrong with it, behind "it"
	Err    error  // the kind of the mistake
}

func (e *PathError) Error() string { return text.QuoteWhole(e.Path) + " " + e.Reason }

// Unwrap returns Err.
func (e *PathError) Unwrap() error { return e.Err }

// The kinds of a [PathError], beside fs.ErrInvalid for what is not a path, fs.ErrNotExist and
// fs.ErrPermission.
var (
	ErrOutside = errors.New("agent: it is not inside the work directory")
	ErrNotDir  = errors.New("agent: it is not a directory")
)

// Clean returns what a caller asks for as a path below a work directory. It is relative to the work
// directory or absolute. Clean looks at the texts alone, of which bases are the spellings of the
// work directory. The error is a *PathError.
func Clean(asked string, bases ...string) (rel string, err error) {
	if len(asked) > maxPath || !text.IsLine(asked, maxPath) {
		return "", &PathError{
			asked, fmt.Sprintf("is not a path: want at most %d bytes of text on one line", maxPath),
			fs.ErrInvalid,
		}
	}
	path := filepath.FromSlash(asked)
	if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", &PathError{asked, "leads out of the work directory", ErrOutside}
		}
		return filepath.ToSlash(filepath.Clean(path)), nil
	}
	for _, base := range bases {
		rel, err := filepath.Rel(base, filepath.Clean(path))
		if err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", &PathError{
		asked, "is an absolute path that is not inside the work directory", ErrOutside,
	}
}

// A BaseError is a work directory that cannot be used.
type BaseError struct {
	Dir    string
	Reason string
	Err    error // of the system, or nil
}

func (e *BaseError) Error() string { return text.QuoteWhole(e.Dir) + " " + e.Reason }

// Unwrap returns Err.
func (e *BaseError) Unwrap() error { return e.Err }

// Resolve returns the place that a path leads to today, with all links followed. Both must be
// directories. The error is a *BaseError or a *PathError.
func Resolve(base, asked string) (Place, error) {
	if !filepath.IsAbs(base) {
		return Place{}, &BaseError{base, "is not an absolute path", nil}
	}
	realBase, err := realDir(base)
	if err != nil {
		return Place{}, &BaseError{base, fmt.Sprintf("is not a directory: %v", err), err}
	}
	p := Place{Base: realBase, Rel: "."}
	if asked == "" {
		return p, nil
	}
	rel, err := Clean(asked, realBase, filepath.Clean(base))
	if err != nil {
		return Place{}, err
	}
	outside := &PathError{asked, "leads out of the work directory through a link", ErrOutside}
	target, err := realDir(filepath.Join(realBase, filepath.FromSlash(rel)))
	if err != nil {
		if reason, kind := follow(rel, realBase, filepath.Clean(base)); kind != nil {
			return Place{}, &PathError{asked, reason, kind}
		}
		return Place{}, outside // what is wrong there stays there
	}
	if p.Rel, err = filepath.Rel(realBase, target); err != nil || !filepath.IsLocal(p.Rel) {
		return Place{}, outside
	}
	p.Rel = filepath.ToSlash(p.Rel)
	return p, nil
}

// maxLinks is how many links are followed on the way to one directory.
const maxLinks = 255

// follow returns why a path below the first of some spellings of the work directory does not lead
// to a directory. It follows the links one by one and looks at nothing outside: of a link that
// leads there it returns a nil kind.
func follow(rel string, bases ...string) (reason string, kind error) {
	at, rest, links := ".", strings.Split(rel, "/"), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if !filepath.IsLocal(next) {
			return "", nil
		}
		info, err := os.Lstat(filepath.Join(bases[0], next))
		switch {
		case errors.Is(err, fs.ErrNotExist) && links > 0:
			return "leads through a link to what does not exist", fs.ErrNotExist
		case errors.Is(err, fs.ErrNotExist):
			return "does not exist", fs.ErrNotExist
		case errors.Is(err, fs.ErrPermission):
			return "cannot be looked at: permission denied", fs.ErrPermission
		case err != nil:
			return "cannot be looked at", fs.ErrInvalid
		case info.IsDir():
			at = next
			continue
		case info.Mode()&fs.ModeSymlink == 0:
			return "is not a directory, or leads through what is not one", ErrNotDir
		}
		if links++; links > maxLinks {
			return "leads through links that go in a circle, or are too many", ErrNotDir
		}
		target, err := os.Readlink(filepath.Join(bases[0], next))
		if err != nil {
			return "cannot be looked at", fs.ErrInvalid
		}
		if filepath.IsAbs(target) {
			if target, err = Clean(target, bases...); err != nil {
				return "", nil //nolint:nilerr // it is outside
			}
			at = "."
		}
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	if _, err := os.Stat(filepath.Join(bases[0], at)); errors.Is(err, fs.ErrPermission) {
		return "cannot be looked at: permission denied", fs.ErrPermission
	}
	return "cannot be looked at", fs.ErrInvalid
}

// realDir returns the path of a directory without links.
func realDir(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("it is a file")
	}
	return path, err
}

// Open opens a place, which the system keeps from leading out of the work directory: also if a link
// has taken the place of a directory since Resolve. The caller closes it.
func Open(p Place) (*os.Root, error) {
	base, err := os.OpenRoot(p.Base)
	if err != nil || p.Rel == "." {
		return base, err
	}
	dir, err := base.OpenRoot(filepath.FromSlash(p.Rel))
	return dir, errors.Join(err, base.Close())
}
