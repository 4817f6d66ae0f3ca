package dirstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/offshoot-sdk/offshoot/session"
)

// A placed transcript was imported: its lines have the positions that they had in another Store,
// and not their offsets. The version in its first line says so, and each line begins with its
// position: {"pos":17,"role":... A line that is appended later has the position after the last one.
//
// Where Mend has put lines aside, a note stands without a position. A reader sees it at the
// position after that of the line before it, or not at all if that is the position of the next one:
// then nothing was lost.
const placeMember = `{"pos":`

// splitPlace returns the position with which a line begins, and the message. It changes the line.
func splitPlace(line []byte) (pos session.Pos, message []byte, ok bool) {
	line = bytes.TrimLeft(line, " ")
	rest, ok := bytes.CutPrefix(line, []byte(placeMember))
	n := 0
	for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(string(rest[:n]), 10, 64)
	if !ok || err != nil || v == 0 || n == len(rest) {
		return 0, nil, false
	}
	switch rest[n] {
	case ',':
		rest[n] = '{'
		return session.Pos(v), rest[n:], true
	case '}':
		return session.Pos(v), append([]byte{'{'}, rest[n:]...), true
	}
	return 0, nil, false
}

// placeLines returns encoded lines, each with the position that next returns. The error is a
// *[LineSizeError] if a line is too long then.
func placeLines(lines []byte, next func() session.Pos) (placed []byte, err error) {
	for i := 0; len(lines) > 0; i++ {
		line, rest, _ := bytes.Cut(lines, []byte{'\n'})
		begin := len(placed)
		placed = strconv.AppendUint(append(placed, placeMember...), uint64(next()), 10)
		if len(line) > len("{}") {
			placed = append(placed, ',')
		}
		placed = append(placed, line[1:]...)
		if size := len(placed) - begin; size > maxLine-2 {
			return nil, &LineSizeError{Message: i, Size: size, Limit: maxLine - 2}
		}
		placed, lines = append(placed, '\n'), rest
	}
	return placed, nil
}

// lastPlaceIn returns the position of the last of placed lines, or 0.
func lastPlaceIn(lines []byte) session.Pos {
	lines = bytes.TrimSuffix(lines, []byte{'\n'})
	pos, _, _ := splitPlace(bytes.Clone(lines[bytes.LastIndexByte(lines, '\n')+1:]))
	return pos
}

// grow notes that lines were added.
func (x *transcriptState) grow(lines []byte) {
	x.end += int64(len(lines))
	if x.placed {
		x.at = lastPlaceIn(lines)
	}
}

// place returns encoded lines as they stand in the file of x.
func (x *transcriptState) place(lines []byte) ([]byte, error) {
	if !x.placed {
		return lines, nil
	}
	pos := x.last()
	return placeLines(lines, func() session.Pos { pos++; return pos })
}

// Import implements [session.TranscriptsImporter]. A transcript that Append has begun has the
// positions of this Store: the error is [session.ErrConflict].
func (t *transcripts) Import(
	ctx context.Context, ref session.Ref, after session.Pos, lines ...session.Line,
) (last session.Pos, err error) {
	if err := ref.Validate(); err != nil {
		return 0, err
	}
	err = session.ValidateImport(after, lines)
	var text []byte
	if err == nil {
		text, err = encodePlaced(lines)
	}
	if err == nil {
		err = t.write(ctx, ref, func(x *transcriptState) (err error) {
			last, err = t.append(ctx, ref, x, after, addition{lines: text, placed: true})
			return err
		})
	}
	if err != nil {
		return 0, t.wrapError(ref, "import", err)
	}
	return last, nil
}

// encodePlaced returns lines as they stand in the file of a placed transcript.
func encodePlaced(lines []session.Line) ([]byte, error) {
	messages := make([]session.Message, len(lines))
	for i := range lines {
		messages[i] = lines[i].Message
	}
	text, err := encodeLines(nil, messages)
	if err != nil {
		return nil, err
	}
	i := -1
	return placeLines(text, func() session.Pos { i++; return lines[i].Pos })
}

var errNotPlaced = fmt.Errorf("dirstore: its positions are those of a directory: %w",
	session.ErrConflict)

// lastPlace returns the position of the last line before end, or 0.
func (t *transcriptFile) lastPlace(ctx context.Context, end int64) (last session.Pos, err error) {
	t.end = end
	open := func(context.Context) error { return nil }
	err = t.placedLines(ctx, session.LineQuery{Last: 1}, open, func(l session.Line) bool {
		last = l.Pos
		return true
	})
	return last, err
}

// beginAt returns the offset of the last n lines, all for 0, and one before it from which the
// positions are known.
func (t *transcriptFile) beginAt(n int) (first, known int64, err error) {
	if n == 0 {
		return t.head, t.head, nil
	}
	if first, err = t.lastLines(t.head, t.end, n); err != nil {
		return 0, 0, err
	}
	for known = first; known > t.head; {
		r := t.reader(known, t.end)
		line, err := r.next()
		if err != nil {
			return 0, 0, err
		}
		if _, _, ok := splitPlace(line); ok {
			return first, known, nil
		}
		if known, err = t.lastLines(t.head, known, 1); err != nil {
			return 0, 0, err
		}
	}
	return first, known, nil
}

// placedLines is lines for a placed transcript.
func (t *transcriptFile) placedLines(
	ctx context.Context, q session.LineQuery, check func(context.Context) error,
	yield func(session.Line) bool,
) error {
	first, known, err := t.beginAt(q.Last)
	if err != nil {
		return err
	}
	show := func(l session.Line, start int64) bool {
		return start < first || l.Pos <= q.After || yield(l)
	}
	r := t.reader(known, t.end)
	var before session.Pos
	var lost *session.Line // a note that waits for the line behind it
	for {
		if err := check(ctx); err != nil {
			return err
		}
		start := r.off
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			if lost == nil || show(*lost, start) {
				return t.corrupt
			}
			return nil
		}
		if err != nil {
			return err
		}
		l, err := placedLine(line, before)
		switch {
		case err != nil:
			return messageError(t.path, start, err)
		case l.Pos == 0:
			l.Pos = before + 1
			lost = &l
			continue
		case lost != nil && lost.Pos < l.Pos && !show(*lost, start):
			return nil
		}
		lost, before = nil, l.Pos
		if !show(l, start) {
			return nil
		}
	}
}

// placedLine returns a line of a placed transcript that follows a position. A note of Mend has the
// position 0.
func placedLine(line []byte, before session.Pos) (l session.Line, err error) {
	pos, message, ok := splitPlace(line)
	if !ok {
		if !isBlank(line) {
			l.Message, err = parseLine(line)
		}
		if err == nil && !isBlank(line) && !l.Message.IsLostLines() {
			err = errNoPlace
		}
		l.Message = session.LostLines(before, l.Message.Time)
		return l, err
	}
	if pos <= before {
		return l, fmt.Errorf("it has the position %d, and the line before it %d", pos, before)
	}
	l.Pos = pos
	l.Message, err = parseLine(message)
	return l, err
}

var errNoPlace = errors.New("dirstore: the line does not have a position")

// A placeOrder finds the lines of a placed transcript that are out of order: one digit of a
// position may have become another one. It takes those for intact that are the most which grow.
type placeOrder struct {
	placed bool // else every line is in order
	lines  []placeInOrder
	ends   []int // by length: the line with the least position at which a row of that length ends
}

type placeInOrder struct {
	damage
	pos    session.Pos
	before int // the line before it in the longest row that ends here, or -1
}

func newPlaceOrder(placed bool) *placeOrder { return &placeOrder{placed: placed} }

// isLine reports whether a line is intact in itself, and notes its position. It may change the
// line.
func (o *placeOrder) isLine(line []byte, at damage) bool {
	if !o.placed {
		return isLine(line)
	}
	l, err := placedLine(line, 0)
	if err != nil || l.Pos == 0 {
		return err == nil
	}
	n, _ := slices.BinarySearchFunc(o.ends, l.Pos, func(i int, pos session.Pos) int {
		return cmp.Compare(o.lines[i].pos, pos)
	})
	x := placeInOrder{at, l.Pos, -1}
	if n > 0 {
		x.before = o.ends[n-1]
	}
	o.ends = append(o.ends[:n], append([]int{len(o.lines)}, o.ends[min(n+1, len(o.ends)):]...)...)
	o.lines = append(o.lines, x)
	return true
}

// damages returns the lines that are out of order.
func (o *placeOrder) damages() (bad []damage) {
	if len(o.ends) == len(o.lines) {
		return nil
	}
	kept := make(map[int]bool, len(o.ends))
	for i := o.ends[len(o.ends)-1]; i >= 0; i = o.lines[i].before {
		kept[i] = true
	}
	for i, x := range o.lines {
		if !kept[i] {
			bad = append(bad, x.damage)
		}
	}
	return bad
}
