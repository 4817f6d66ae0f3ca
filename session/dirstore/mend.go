package dirstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/session"
)

// Mend implements [session.Mender]. It saves the damaged lines in .torn files and writes notes over
// them. So the file keeps its length, and every other line its position.
func (t *transcripts) Mend(
	ctx context.Context, ref session.Ref,
) (done session.Mended, err error) {
	if err := ref.Validate(); err != nil {
		return done, err
	}
	err = t.change(ctx, ref, false, func(x *transcriptState) (err error) {
		if _, err := t.restore(ref); err != nil {
			return err
		}
		if err := t.ground(ref, x); err != nil {
			return err
		}
		x.path = "" // the next call looks at the file as it is then
		done, err = t.mend(ctx, ref)
		return err
	})
	if err != nil {
		return done, t.wrapError(ref, "mend", err)
	}
	return done, nil
}

func (t *transcripts) mend(
	ctx context.Context, ref session.Ref,
) (done session.Mended, err error) {
	names := transcriptNames(ref)
	for i, name := range names {
		path := filepath.Join(t.dir, agentDir(ref.Key), name)
		f, err := t.fs.OpenFile(path, os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return done, err
		}
		m := mender{fs: t.fs, f: transcriptFile{f: duringFile{f, ctx}, path: path}}
		mine := i > 0 || !fileExists(t.fs, filepath.Join(filepath.Dir(path), names[1]))
		err = m.mend(ref, mine)
		if err = errors.Join(err, f.Close()); err == nil && m.useless {
			err = m.moveAside()
		}
		done.Bytes += m.done.Bytes
		done.Aside = append(done.Aside, m.done.Aside...)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func fileExists(fsys disk.FS, name string) bool {
	_, err := fsys.Lstat(name)
	return err == nil
}

// A mender mends one file.
type mender struct {
	fs      disk.FS
	f       transcriptFile
	done    session.Mended
	lines   int  // lines that are damaged, the first one not counted
	useless bool // it cannot be told whose transcript the file is
}

// mend mends the file. If its first line is damaged, the file is the transcript of ref if mine is
// set. A file of another transcript is left alone. The zero Ref stands for any transcript.
func (m *mender) mend(ref session.Ref, mine bool) error {
	id, head, err := readHead(m.f.f, m.f.path)
	var corrupt *session.CorruptError
	switch {
	case errors.As(err, &corrupt):
		if !mine {
			return nil
		}
		if head, err = m.mendHead(ref); err != nil || head == 0 {
			return err
		}
	case err != nil:
		return err
	case ref != session.Ref{} && !id.isOf(ref, m.f.path, head, !mine):
		return nil
	default:
		m.f.placed = id.Version == placedVersion
	}
	m.f.head = head
	return m.mendLines()
}

// mendHead writes the first line again and returns its length. It returns 0 and sets useless if the
// rest of the file does not fit behind it. Without a ref it writes the line that fits any session.
func (m *mender) mendHead(ref session.Ref) (int64, error) {
	b := make([]byte, maxTranscriptHead+1)
	n, err := m.f.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	b = b[:n]
	// A first line has neither of these members, so that the text is that of a line behind it.
	m.f.placed = bytes.Contains(b, []byte("\n"+placeMember))
	version := versionOf(m.f.placed)
	var want []byte
	if ref.Key.IsZero() {
		end, err := m.findHeadEnd(b)
		if err != nil {
			return 0, err
		}
		want = lostHeadLine(end, version)
	} else if want, err = headLine(ref, version); err != nil {
		return 0, err
	}
	end := len(want)
	if end == 0 || n < end || b[end-1] != '\n' || n > end && b[end] != '{' {
		m.useless = true
		return 0, nil
	}
	if err := m.replace(0, int64(len(want)), want); err != nil {
		return 0, err
	}
	return int64(len(want)), m.f.f.Sync()
}

// findHeadEnd returns the length of a damaged first line, or 0 if that cannot be told: an intact
// line, what a crash has left of one, or nothing follows it. The text is the beginning of the file.
func (m *mender) findHeadEnd(text []byte) (int, error) {
	size, err := m.f.f.Size()
	if err != nil {
		return 0, err
	}
	for end := 0; ; {
		at := bytes.IndexByte(text[end:], '\n')
		if at < 0 {
			return 0, nil
		}
		end += at + 1
		r := m.f.reader(int64(end), size)
		line, err := r.next()
		torn := errors.Is(err, io.EOF)
		if errors.Is(err, session.ErrCorrupt) {
			line, err = []byte{0}, nil // a line that is too long is not one
		}
		if err != nil && !torn {
			return 0, err
		}
		begins := end < len(text) && text[end] == '{'
		if int64(end) == size || begins && (torn || isLine(line)) {
			return end, nil
		}
	}
}

// moveAside gives the file the name of a .torn file.
func (m *mender) moveAside() error {
	info, err := m.fs.Lstat(m.f.path)
	if err != nil {
		return err
	}
	name, err := moveAside(m.fs, m.f.path)
	if err == nil {
		m.done.Bytes += info.Size()
		m.done.Aside = append(m.done.Aside, name)
	}
	return err
}

// moveAside renames a file to path.torn.0, with a further number if that name is taken. It returns
// the new name.
func moveAside(fsys disk.FS, path string) (name string, err error) {
	name = path + ".torn.0"
	for n := 1; fileExists(fsys, name); n++ {
		name = fmt.Sprintf("%s.torn.0.%d", path, n)
	}
	if err := fsys.Rename(path, name); err != nil {
		return "", err
	}
	return name, fsys.SyncDir(filepath.Dir(path))
}

// A damage is a part of a transcript, without the newline at its end.
type damage struct {
	from, to int64
	open     bool // the file ends without a newline, and with more than a write leaves
}

// mendLines puts every damaged line aside that was complete once. It leaves what a crash may have
// left at the end to the next write.
func (m *mender) mendLines() error {
	end, size, err := m.f.findEnd()
	if errors.Is(err, session.ErrCorrupt) {
		end, err = size, nil
	}
	if err != nil {
		return err
	}
	bad, err := m.findDamages(end)
	if err != nil || len(bad) == 0 {
		return err
	}
	for _, d := range bad {
		if err := m.putAside(d); err != nil {
			return err
		}
	}
	return m.f.f.Sync()
}

// findDamages returns the damaged lines before end, those that follow each other as one.
func (m *mender) findDamages(end int64) (bad []damage, err error) {
	r := m.f.reader(m.f.head, end)
	order := newPlaceOrder(m.f.placed)
	for {
		d := damage{from: r.off}
		line, err := r.next()
		d.to = d.from + int64(len(line))
		switch {
		case errors.Is(err, io.EOF):
			return m.joined(append(bad, order.damages()...)), nil
		case errors.Is(err, session.ErrCorrupt): // too long
			if d.to, d.open, err = r.skip(); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case order.isLine(line, d):
			continue
		}
		bad = append(bad, d)
	}
}

// joined returns damages in their order, those that follow each other as one, and counts them.
func (m *mender) joined(all []damage) (bad []damage) {
	slices.SortFunc(all, func(a, b damage) int { return cmp.Compare(a.from, b.from) })
	m.lines += len(all)
	for _, d := range all {
		if n := len(bad); n > 0 && bad[n-1].to+1 == d.from {
			d.from = bad[n-1].from
			bad[n-1] = d
		} else {
			bad = append(bad, d)
		}
	}
	return bad
}

// putAside saves a damage in a .torn file and leaves in its place what [lostLine] returns, in lines
// that are not too long. Nothing lies behind an open one, so that the file ends there.
func (m *mender) putAside(d damage) error {
	if err := m.save(d.from, d.to); err != nil {
		return err
	}
	if d.open {
		line := append(lostLine(d.from, 0), '\n')
		if _, err := m.f.f.WriteAt(line, d.from); err != nil {
			return err
		}
		return m.f.cut(d.from + int64(len(line)))
	}
	text := lostLine(d.from, int(min(d.to-d.from, maxRead)))
	for from := d.from; ; {
		end := from + int64(len(text))
		if end < d.to && (end-d.from)%maxLine == 0 {
			text[len(text)-1] = '\n'
		}
		if _, err := m.f.f.WriteAt(text, from); err != nil || end >= d.to {
			return err
		}
		from, text = end, text[:min(d.to-end, maxRead)]
		for i := range text {
			text[i] = ' '
		}
	}
}

// isLine reports whether a line is intact: a message, or what lostLine has left.
func isLine(line []byte) bool {
	_, err := parseLine(line)
	return isBlank(line) || err == nil
}

// isBlank reports whether a line has nothing but spaces, as lostLine leaves it.
func isBlank(line []byte) bool { return len(bytes.Trim(line, " ")) == 0 }

// lostLine returns n bytes that take the place of a damaged line: a note that lines were lost, and
// spaces behind it, or spaces alone if it does not fit. If n is 0, it returns the note alone.
func lostLine(from int64, n int) []byte {
	note := session.LostLines(session.Pos(from), session.Message{}.Time)
	line, err := note.AppendJSON(nil)
	if err == nil && n == 0 {
		return line
	}
	if err != nil || len(line) > n {
		line = nil
	}
	return append(line, bytes.Repeat([]byte{' '}, n-len(line))...)
}

// replace saves the bytes between two offsets in a .torn file and writes b over them.
func (m *mender) replace(from, to int64, b []byte) error {
	if err := m.save(from, to); err != nil {
		return err
	}
	_, err := m.f.f.WriteAt(b, from)
	return err
}

// save saves the bytes between two offsets in a .torn file.
func (m *mender) save(from, to int64) error {
	name, err := disk.SaveTorn(m.fs, m.f.f, m.f.path, from, to)
	if err != nil {
		return err
	}
	m.done.Bytes += to - from
	if !slices.Contains(m.done.Aside, name) {
		m.done.Aside = append(m.done.Aside, name)
	}
	return nil
}
