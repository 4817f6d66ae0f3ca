package agentctx

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// maxFileBytes is the size over which a workspace file is not read.
const maxFileBytes = 2 << 20

// readBounded reads the text of a file as a Loader does, with a bound of its
// own.
func readBounded(fsys fs.FS, name string, most int64) (string, error) {
	target, info, err := resolveLinks(fsys, name)
	if err != nil {
		return "", err
	}
	return readChecked(fsys, target, info, most)
}

// readChecked returns the text of a file that was described by info; see
// openDescribed.
func readChecked(fsys fs.FS, name string, info fs.FileInfo, most int64) (string, error) {
	f, opened, err := openDescribed(fsys, name, info, most)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return readText(f, opened.Size(), most)
}

// openChecked looks at a file that must not be a link, and opens it; see
// openDescribed.
func openChecked(fsys fs.FS, name string, most int64) (fs.File, fs.FileInfo, error) {
	info, err := fs.Lstat(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	return openDescribed(fsys, name, info, most)
}

// openDescribed opens a file and makes sure that it is the one described, a
// regular file of at most so many bytes, with one name only.
func openDescribed(fsys fs.FS, name string, checked fs.FileInfo, most int64) (fs.File, fs.FileInfo, error) {
	if err := checkInfo(checked, most); err != nil { // before opening: a pipe would block
		return nil, nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		err = checkOpened(f, checked, opened, most)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}

func checkOpened(f fs.File, checked, opened fs.FileInfo, most int64) error {
	if onDisk(checked) && onDisk(opened) && !os.SameFile(checked, opened) {
		return newRefusal(ReasonChanged, "it was replaced while it was being opened")
	}
	if err := checkInfo(opened, most); err != nil {
		return err
	}
	if n, ok := hardLinks(f, opened); ok && n > 1 {
		return newRefusal(ReasonLinked, "it has %d hard links, and another may lie outside the workspace", n)
	}
	return nil
}

// checkInfo refuses what is not a regular file of a fair size.
func checkInfo(info fs.FileInfo, most int64) error {
	if !info.Mode().IsRegular() {
		return newRefusal(ReasonNotRegular, "it is not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() > most {
		return newRefusal(ReasonTooLarge, "%d bytes, over the limit of %d", info.Size(), most)
	}
	return nil
}

// readText reads valid UTF-8 up to a bound, without a byte order mark. The
// size is a hint: the file may grow.
func readText(r io.Reader, size, most int64) (string, error) {
	var b strings.Builder
	b.Grow(int(min(max(size, 0), most)) + bytes.MinRead)
	n, err := io.Copy(&b, io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return "", err
	case n > most:
		return "", newRefusal(ReasonTooLarge, "over the limit of %d bytes", most)
	}
	text := b.String()
	if !utf8.ValidString(text) {
		return "", newRefusal(ReasonNotUTF8, "it is not valid UTF-8 text")
	}
	return strings.TrimPrefix(text, "\ufeff"), nil
}
