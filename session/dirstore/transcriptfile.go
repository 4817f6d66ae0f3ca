package dirstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// transcriptChunk is the number of bytes of a transcript that are read at once.
const transcriptChunk = 64 << 10

// maxLine is the most bytes of a line of a transcript, and of what is written at once. A longer
// line is damage: no write leaves one, and no call reads on through it.
const maxLine = 64 << 20

// longLineError returns the error of a line that is longer than maxLine.
func longLineError(path string, offset int64) error {
	reason := fmt.Sprintf("the line is longer than %d bytes", maxLine)
	return &session.CorruptError{File: path, Offset: offset, Reason: reason}
}

// A transcriptFile is an open transcript. The position of a line is the offset behind it. The first
// line does not have one.
type transcriptFile struct {
	f       disk.File
	path    string
	head    int64 // length of the first line, in bytes
	end     int64 // offset behind the last line for a reader
	placed  bool  // the lines have positions of their own; see placeMember
	corrupt error // not nil if lines beyond end were acknowledged and cannot be read
}

// openTranscript opens the file at path. ok is false if it does not exist or is the transcript of
// another ref.
func openTranscript(
	fsys disk.FS, path string, ref session.Ref, flag int,
) (t *transcriptFile, ok bool, err error) {
	f, err := fsys.OpenFile(path, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	id, head, err := readHead(f, path)
	second := filepath.Join(filepath.Dir(path), transcriptNames(ref)[1])
	another := id.isLost() && fileExists(fsys, second)
	if err != nil || !id.isOf(ref, path, head, another) {
		_ = f.Close()
		return nil, false, err
	}
	placed := id.Version == placedVersion
	return &transcriptFile{f: f, path: path, head: head, placed: placed}, true, nil
}

// readHead reads the first line of a transcript and returns its length.
func readHead(f io.ReaderAt, path string) (id transcriptID, length int64, err error) {
	b := make([]byte, maxTranscriptHead)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return id, 0, err
	}
	end := bytes.IndexByte(b[:n], '\n') + 1
	if id, err = parseHeadLine(path, b[:end]); err == nil {
		err = id.checkName(path)
	}
	return id, int64(end), err
}

// lines yields the lines that q selects. It calls check before each line.
func (t *transcriptFile) lines(
	ctx context.Context, q session.LineQuery, check func(context.Context) error,
	yield func(session.Line) bool,
) error {
	if t.placed {
		if q.Last > 0 && t.corrupt != nil {
			return t.corrupt
		}
		return t.placedLines(ctx, q, check, yield)
	}
	from := t.head
	if q.After > 0 {
		if q.After >= session.Pos(t.end) {
			return t.corrupt
		}
		from = int64(q.After)
		var before [1]byte
		if _, err := t.f.ReadAt(before[:], from-1); err != nil {
			return err
		}
		if before[0] != '\n' || from < t.head {
			return fmt.Errorf("no line ends at position %d", from)
		}
	}
	if q.Last > 0 {
		if t.corrupt != nil { // the last lines are among those that cannot be read
			return t.corrupt
		}
		var err error
		if from, err = t.lastLines(from, t.end, q.Last); err != nil {
			return err
		}
	}
	r := t.reader(from, t.end)
	for {
		if err := check(ctx); err != nil {
			return err
		}
		start := r.off
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			return t.corrupt
		}
		if err != nil {
			return err
		}
		m, err := parseLine(line)
		if isBlank(line) {
			m, err = session.LostLines(session.Pos(start), m.Time), nil
		}
		if err != nil {
			return messageError(t.path, start, err)
		}
		if !yield(session.Line{Pos: session.Pos(r.off), Message: m}) {
			return nil
		}
	}
}

var errNotUTF8 = errors.New("dirstore: the line is not UTF-8")

// parseLine returns the message in a line. A line is written in UTF-8, which package json does not
// check.
func parseLine(line []byte) (m session.Message, err error) {
	if !utf8.Valid(line) {
		return m, errNotUTF8
	}
	return m, json.Unmarshal(line, &m)
}

// messageError returns the error of a line that is not a message.
func messageError(path string, offset int64, err error) error {
	reason := fmt.Sprintf("the line is not a message: %v", err)
	return &session.CorruptError{File: path, Offset: offset, Reason: reason}
}

// lastLines returns the offset of the last n lines between two offsets, or from if there are fewer.
func (t *transcriptFile) lastLines(from, end int64, n int) (int64, error) {
	b := make([]byte, transcriptChunk)
	for off := end - 1; off > from; { // no line begins behind the last newline
		part := b[:min(off-from, transcriptChunk)]
		off -= int64(len(part))
		if _, err := t.f.ReadAt(part, off); err != nil {
			return 0, err
		}
		for {
			at := bytes.LastIndexByte(part, '\n')
			if at < 0 {
				break
			}
			if n--; n == 0 {
				return off + int64(at) + 1, nil
			}
			part = part[:at]
		}
	}
	return from, nil
}

// A lineReader reads the complete lines between two offsets of a file.
type lineReader struct {
	t    *transcriptFile
	off  int64 // offset of the next line
	end  int64
	buf  []byte
	rest []byte // the part of buf that was read and not returned yet
}

// reader returns a lineReader of the lines between two offsets.
func (t *transcriptFile) reader(from, end int64) lineReader {
	return lineReader{t: t, off: from, end: end}
}

// next returns the next line without its newline. The line is good until the next call. The error
// is io.EOF at the end, and a *[session.CorruptError] for a line that is too long.
func (r *lineReader) next() ([]byte, error) {
	for {
		if at := bytes.IndexByte(r.rest, '\n'); at >= 0 {
			line := r.rest[:at]
			r.rest = r.rest[at+1:]
			r.off += int64(at) + 1
			return line, nil
		}
		read := r.off + int64(len(r.rest))
		if read >= r.end {
			return nil, io.EOF
		}
		if err := r.growBuffer(); err != nil {
			return nil, err
		}
		have := len(r.rest)
		want := min(int64(len(r.buf)-have), r.end-read)
		n, err := r.t.f.ReadAt(r.buf[have:have+int(want)], read)
		if n == 0 && err != nil {
			return nil, err
		}
		r.rest = r.buf[:have+n]
	}
}

// growBuffer moves the rest to the front of a buffer with room for one more chunk. For a line that
// is longer than most it first looks for the end, so that the buffer is not larger than the line.
func (r *lineReader) growBuffer() error {
	buf := r.buf
	switch rest := int64(len(r.rest)); {
	case int64(len(buf)) >= rest+transcriptChunk:
	case rest < maxRead:
		buf = make([]byte, 2*rest+transcriptChunk)
	default:
		end, _, err := r.t.lineEnd(r.off+rest, min(r.end, r.off+maxLine+1))
		if err != nil {
			return err
		}
		if end-r.off > maxLine {
			return longLineError(r.t.path, r.off)
		}
		buf = make([]byte, end-r.off+transcriptChunk)
	}
	copy(buf, r.rest)
	r.buf, r.rest = buf, buf[:len(r.rest)]
	return nil
}

// skip passes over a line that is too long. It returns where the line ends, and whether it is open:
// the file ends without a newline.
func (r *lineReader) skip() (end int64, open bool, err error) {
	end, ended, err := r.t.lineEnd(r.off, r.end)
	if r.rest, r.off = nil, end; ended {
		r.off++
	}
	return end, !ended, err
}

// lineEnd returns the offset of the next newline between two offsets, or the second one if there is
// none.
func (t *transcriptFile) lineEnd(from, to int64) (end int64, ended bool, err error) {
	end = to
	err = t.chunks(from, to, func(off int64, b []byte) (bool, error) {
		at := bytes.IndexByte(b, '\n')
		if ended = at >= 0; ended {
			end = off + int64(at)
		}
		return !ended, nil
	})
	return end, ended, err
}

// A transcript ends behind its last complete line. A crash may leave more behind that: half a line,
// or zeros where the disk was not written, and complete lines of the same write behind the zeros,
// because a disk writes in any order. An acknowledged line never has a zero in it.
//
// An acknowledged line that has rotted looks the same, except that a later write stands behind it.
// A write begins once everything before it is durable. So the first line of a write proves that
// everything before it was acknowledged. The other lines of a write begin with a space, which a
// reader of JSON skips. Those of the first write do not need one: a new transcript is there
// completely or not at all.

// markContinued puts a space before each line of a write except the first.
func markContinued(lines []byte) []byte {
	if !bytes.Contains(lines, []byte("\n{")) { // most are one line
		return lines
	}
	return bytes.ReplaceAll(lines, []byte("\n{"), []byte("\n {")) // JSON lines have no newline within
}

// beginsWrite reports whether a line without its newline is complete and the first of a write.
func beginsWrite(line []byte) bool {
	_, err := parseLine(line)
	return !bytes.HasPrefix(line, []byte(" ")) && err == nil
}

// chunks calls f with the bytes between two offsets, piece by piece, until f returns false for
// more.
func (t *transcriptFile) chunks(
	from, to int64, f func(off int64, b []byte) (more bool, err error),
) error {
	b := make([]byte, min(max(to-from, 0), transcriptChunk))
	for from < to {
		n, err := t.f.ReadAt(b[:min(to-from, transcriptChunk)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		if more, err := f(from, b[:n]); err != nil || !more {
			return err
		}
		from += int64(n)
	}
	return nil
}

// findEnd returns the offset behind the last complete line, and the size of the file. The error is
// a *[session.CorruptError] if lines beyond the end were acknowledged, or if there is more than a
// crash can have left. Then end and size are right all the same.
func (t *transcriptFile) findEnd() (end, size int64, err error) {
	if size, err = t.f.Size(); err != nil {
		return 0, 0, err
	}
	end = t.head
	err = t.chunks(t.head, size, func(off int64, b []byte) (bool, error) {
		whole, _, zero := bytes.Cut(b, []byte{0})
		first, _, _ := bytes.Cut(whole, []byte{'\n'})
		if off+int64(len(first))-end > maxLine {
			return false, nil
		}
		if last := bytes.LastIndexByte(whole, '\n'); last >= 0 {
			end = off + int64(last) + 1
		}
		return !zero, nil
	})
	if err == nil {
		err = t.checkTail(end, size)
	}
	return end, size, err
}

// checkTail returns nil if a crash may have left the bytes between two offsets, the end of the file
// and its size. The error is a *[session.CorruptError] if a write begins behind the broken line at
// from, or if a line is too long.
func (t *transcriptFile) checkTail(from, to int64) error {
	var line []byte
	whole := false
	start := from // of the line
	return t.chunks(from, to, func(off int64, b []byte) (bool, error) {
		for len(b) > 0 {
			part, rest, ended := bytes.Cut(b, []byte{'\n'})
			if off += int64(len(part)); off-start > maxLine {
				return false, longLineError(t.path, from)
			}
			if whole = whole && bytes.IndexByte(part, 0) < 0; whole {
				line = append(line, part...)
			}
			if ended && whole && beginsWrite(line) {
				const reason = "the line has a zero in it and was complete when the next one was written"
				return false, &session.CorruptError{File: t.path, Offset: from, Reason: reason}
			}
			if b = rest; ended {
				off++
				line, whole, start = line[:0], true, off
			}
		}
		return true, nil
	})
}

// rewriteLast writes the lines of the last write over themselves and makes them durable.
func (t *transcriptFile) rewriteLast(end int64) error {
	from := end
	for first := false; !first && from > t.head; {
		var err error
		if from, err = t.lastLines(t.head, from, 1); err != nil {
			return err
		}
		var b [1]byte
		if _, err = t.f.ReadAt(b[:], from); err != nil {
			return err
		}
		first = b[0] != ' '
	}
	if err := t.chunks(from, end, func(off int64, b []byte) (bool, error) {
		_, err := t.f.WriteAt(b, off)
		return true, err
	}); err != nil {
		return err
	}
	return t.f.Sync()
}

// saveAndCut cuts off what a crash has left beyond the end. It first saves more than half a line in
// a .torn file for a person to look at. So no byte is lost if the last write has rotted in fact.
func (t *transcriptFile) saveAndCut(fsys disk.FS, end int64) error {
	size, err := t.f.Size()
	if err != nil {
		return err
	}
	lines := false
	if err := t.chunks(end, size, func(_ int64, b []byte) (bool, error) {
		lines = bytes.IndexByte(b, '\n') >= 0
		return !lines, nil
	}); err != nil {
		return err
	}
	if lines {
		if _, err := disk.SaveTorn(fsys, t.f, t.path, end, size); err != nil {
			return err
		}
	}
	return t.cut(end)
}

// cut makes the file end at an offset, durably.
func (t *transcriptFile) cut(end int64) error {
	if err := t.f.Truncate(end); err != nil {
		return err
	}
	return t.f.Sync()
}
