package agentctx

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// MaxFileBytes is the size over which a workspace file is not read.
const MaxFileBytes = 2 << 20

// readChecked opens a file that is no link, makes sure that it is the one
// described and nothing but a regular file with one name, and returns its
// text.
func readChecked(fsys fs.FS, name string, checked fs.FileInfo) (string, error) {
	if err := checkInfo(checked); err != nil { // before opening: a pipe would block
		return "", err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	opened, err := f.Stat()
	if err != nil {
		return "", err
	}
	if onDisk(checked) && onDisk(opened) && !os.SameFile(checked, opened) {
		return "", refuse(Changed, "it was replaced while it was being opened")
	}
	if err := checkInfo(opened); err != nil {
		return "", err
	}
	if n, ok := links(f, opened); ok && n > 1 {
		return "", refuse(Linked, "it has %d hard links, and another may lie outside the workspace", n)
	}
	return readText(f, opened.Size())
}

// checkInfo refuses what is not a regular file of a fair size.
func checkInfo(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return refuse(NotRegular, "it is not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() > MaxFileBytes {
		return refuse(TooLarge, "%d bytes, over the limit of %d", info.Size(), MaxFileBytes)
	}
	return nil
}

// readText reads valid UTF-8 up to MaxFileBytes, without a byte order mark.
// The size is a hint: the file may grow.
func readText(r io.Reader, size int64) (string, error) {
	var b strings.Builder
	b.Grow(int(min(max(size, 0), MaxFileBytes)) + bytes.MinRead)
	n, err := io.Copy(&b, io.LimitReader(r, MaxFileBytes+1))
	switch {
	case err != nil:
		return "", err
	case n > MaxFileBytes:
		return "", refuse(TooLarge, "over the limit of %d bytes", MaxFileBytes)
	}
	text := b.String()
	if !utf8.ValidString(text) {
		return "", refuse(NotUTF8, "it is not valid UTF-8 text")
	}
	return strings.TrimPrefix(text, "\ufeff"), nil
}
