package agentctx

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// maxFileBytes is the size in bytes over which a workspace file is not read.
const maxFileBytes = 2 << 20

// readBounded returns the text of a file under the rules of a Loader. It refuses a file of more
// than maxBytes bytes.
func readBounded(fsys fs.FS, name string, maxBytes int64) (string, error) {
	target, info, err := resolveLinks(fsys, name)
	if err != nil {
		return "", err
	}
	return readChecked(fsys, target, info, maxBytes)
}

// readChecked returns the text of the file that info describes, see openDescribed.
func readChecked(fsys fs.FS, name string, info fs.FileInfo, maxBytes int64) (string, error) {
	f, opened, err := openDescribed(fsys, name, info, maxBytes)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return readText(f, opened.Size(), maxBytes)
}

// openChecked opens a file that must not be a symbolic link, see openDescribed.
func openChecked(fsys fs.FS, name string, maxBytes int64) (fs.File, fs.FileInfo, error) {
	info, err := fs.Lstat(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	return openDescribed(fsys, name, info, maxBytes)
}

// openDescribed opens a file and checks that it is the one that checked describes: a regular file
// of at most maxBytes bytes without a further hard link.
func openDescribed(
	fsys fs.FS, name string, checked fs.FileInfo, maxBytes int64,
) (fs.File, fs.FileInfo, error) {
	if err := checkInfo(checked, maxBytes); err != nil { // before opening: a pipe would block
		return nil, nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		err = checkOpened(f, checked, opened, maxBytes)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, opened, nil
}

func checkOpened(f fs.File, checked, opened fs.FileInfo, maxBytes int64) error {
	if onDisk(checked) && onDisk(opened) && !os.SameFile(checked, opened) {
		return newRefusal(ReasonChanged, "it was replaced while it was being opened")
	}
	if err := checkInfo(opened, maxBytes); err != nil {
		return err
	}
	if n, ok := hardLinks(f, opened); ok && n > 1 {
		return newRefusal(
			ReasonLinked, "it has %d hard links, and another may lie outside the workspace", n,
		)
	}
	return nil
}

// checkInfo refuses what is not a regular file of at most maxBytes bytes.
func checkInfo(info fs.FileInfo, maxBytes int64) error {
	if !info.Mode().IsRegular() {
		return newRefusal(ReasonNotRegular, "it is not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() > maxBytes {
		return newRefusal(ReasonTooLarge, "%d bytes, over the limit of %d", info.Size(), maxBytes)
	}
	return nil
}

// copyText copies a file of about size bytes, up to one byte more than maxBytes. It returns
// [io.ErrNoProgress] for a file that neither gives bytes nor ends. io.Copy alone would take 32 KB
// for the smallest file.
func copyText(to io.Writer, from io.Reader, size, maxBytes int64) (int64, error) {
	buffer := make([]byte, min(max(size+1, bytes.MinRead), copyBytes))
	return io.CopyBuffer(to, &patientReader{from: from, left: maxBytes + 1}, buffer)
}

// copyBytes is how much of a file is read at a time, at most.
const copyBytes = 32 << 10

// patientReads is how many reads in a row may give nothing.
const patientReads = 100

// A patientReader reads so many bytes at most, and gives a reader up that breaks the contract of
// [io.Reader], as an [fs.FS] of a caller may: one that gives nothing again and again, or counts
// more than there is.
type patientReader struct {
	from io.Reader
	left int64 // bytes; then the patientReader ends
	none int   // reads in a row that gave nothing
}

var errBadCount = errors.New("agentctx: the Read of a file returned an impossible count")

func (r *patientReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	n, err := r.from.Read(p)
	switch {
	case n < 0 || n > len(p):
		return 0, errBadCount
	case n > 0 || err != nil || len(p) == 0:
		r.none = 0
	default:
		if r.none++; r.none == patientReads {
			return 0, io.ErrNoProgress
		}
	}
	r.left -= int64(n)
	return n, err
}

// readText reads valid UTF-8 of at most maxBytes bytes and takes off a byte order mark. size is
// only a hint, because the file may grow meanwhile.
func readText(r io.Reader, size, maxBytes int64) (string, error) {
	var b strings.Builder // io.Copy would have it be an allocation, and the reader one
	b.Grow(int(min(max(size, 0), maxBytes)))
	in := patientReader{from: r, left: maxBytes + 1}
	buffer := make([]byte, min(max(size+1, bytes.MinRead), copyBytes))
	for {
		n, err := in.Read(buffer)
		b.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
	}
	if int64(b.Len()) > maxBytes {
		return "", newRefusal(ReasonTooLarge, "over the limit of %d bytes", maxBytes)
	}
	text := b.String()
	if !utf8.ValidString(text) {
		return "", newRefusal(ReasonNotUTF8, "it is not valid UTF-8 text")
	}
	return strings.TrimPrefix(text, "\ufeff"), nil
}
