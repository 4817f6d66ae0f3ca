package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
type PathError string

func (e PathError) Error() string { return string(e) }

const (
	errPath    = PathError("it is not a path: want at most 4096 bytes of text on one line")
	errOutside = PathError("it leads out of the work directory")
	errAbsent  = PathError(
		"it is not a directory inside the work directory, which no link may lead out of")
)

// Clean returns what a caller asks for as a path below a work directory. It is relative to the work
// directory or absolute. Clean looks at the texts alone, of which bases are the spellings of the
// work directory. The error is a PathError.
func Clean(asked string, bases ...string) (rel string, err error) {
	if len(asked) > maxPath || !text.IsLine(asked, maxPath) {
		return "", errPath
	}
	path := filepath.FromSlash(asked)
	if !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", errOutside
		}
		return filepath.ToSlash(filepath.Clean(path)), nil
	}
	for _, base := range bases {
		rel, err := filepath.Rel(base, filepath.Clean(path))
		if err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", errOutside
}

// A BaseError is a work directory that cannot be used.
type BaseError struct {
	Dir    string
	Reason string
	Err    error // of the system, or nil
}

func (e *BaseError) Error() string { return text.Quote(e.Dir) + " " + e.Reason }

// Unwrap returns Err.
func (e *BaseError) Unwrap() error { return e.Err }

// Resolve returns the place that a path leads to today, with all links followed. Both must be
// directories. The error is a *BaseError or a PathError.
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
	target, err := realDir(filepath.Join(realBase, filepath.FromSlash(rel)))
	if err != nil {
		return Place{}, errAbsent
	}
	if p.Rel, err = filepath.Rel(realBase, target); err != nil || !filepath.IsLocal(p.Rel) {
		return Place{}, errAbsent
	}
	p.Rel = filepath.ToSlash(p.Rel)
	return p, nil
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
