package dirstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// transcriptChunk is how much of a transcript is read at once, in bytes.
const transcriptChunk = 64 << 10

// A transcriptFile is an open transcript. Positions are the offsets of what follows a line; the
// first line has none.
type transcriptFile struct {
	f    disk.File
	path string
	head int64 // length of the first line
	end  int64 // where the lines end for a reader
	rot  error // why they end there, if more were acknowledged
}

// openTranscript opens a file if it is the transcript of ref; else ok is false.
func openTranscript(fsys disk.FS, path string, ref session.Ref, flag int) (t *transcriptFile, ok bool, err error) {
	f, err := fsys.OpenFile(path, flag)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	b := make([]byte, maxTranscriptHead)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	end := bytes.IndexByte(b[:n], '\n') + 1
	var id transcriptID
	if err == nil {
		id, err = parseHeadLine(path, b[:end])
	}
	if err != nil || !id.is(ref) {
		_ = f.Close()
		return nil, false, err
	}
	return &transcriptFile{f: f, path: path, head: int64(end)}, true, nil
}

// lines yields the lines that w selects.
func (t *transcriptFile) lines(ctx context.Context, w session.LineQuery, check func(context.Context) error, yield func(session.Line) bool) error {
	from := t.head
	if w.After > 0 {
		if w.After >= session.Pos(t.end) {
			return t.rot
		}
		from = int64(w.After)
		var before [1]byte
		if _, err := t.f.ReadAt(before[:], from-1); err != nil {
			return err
		}
		if before[0] != '\n' || from < t.head {
			return fmt.Errorf("no line ends at position %d", from)
		}
	}
	if w.Last > 0 {
		if t.rot != nil { // the last ones are beyond it
			return t.rot
		}
		var err error
		if from, err = t.lastLines(from, t.end, w.Last); err != nil {
			return err
		}
	}
	r := lineReader{f: t.f, off: from, end: t.end}
	for {
		if err := check(ctx); err != nil {
			return err
		}
		start := r.off
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			return t.rot
		}
		if err != nil {
			return err
		}
		var m session.Message
		if err := json.Unmarshal(line, &m); err != nil {
			return &session.CorruptError{File: t.path, Offset: start, Reason: fmt.Sprintf("the line is not a message: %v", err)}
		}
		if !yield(session.Line{Pos: session.Pos(r.off), Message: m}) {
			return nil
		}
	}
}

// lastLines returns where the last n lines between two offsets begin.
func (t *transcriptFile) lastLines(from, end int64, n int) (int64, error) {
	b := make([]byte, transcriptChunk)
	for off := end - 1; off > from; { // the newline of the last line does not begin one
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

// A lineReader reads whole lines between two offsets of a file.
type lineReader struct {
	f    io.ReaderAt
	off  int64 // of the next line
	end  int64
	buf  []byte
	rest []byte // of buf, what was read and not yet returned
}

// next returns the next line without its newline, good until it is called again.
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
		have := copy(r.grown(), r.rest)
		want := min(int64(len(r.buf)-have), r.end-read)
		n, err := r.f.ReadAt(r.buf[have:have+int(want)], read)
		if n == 0 && err != nil {
			return nil, err
		}
		r.rest = r.buf[:have+n]
	}
}

// grown returns a buffer that takes more than what is left.
func (r *lineReader) grown() []byte {
	if len(r.buf) < len(r.rest)+transcriptChunk {
		r.buf = make([]byte, 2*len(r.rest)+transcriptChunk)
	}
	return r.buf
}
