package natsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/session"
)

// maxPlace is the greatest position that is imported, so that there are enough behind it.
const maxPlace = math.MaxInt64

// Import implements [session.JournalImporter].
func (j journal) Import(
	ctx context.Context, root session.Key, after, first session.Seq, b session.Batch,
) (session.Seq, error) {
	err := b.ValidateImport(after, first)
	if last := first + session.Seq(len(b.Entries)); err == nil && last > maxPlace {
		err = fmt.Errorf("%w %q: the sequence %d is too large", session.ErrInvalidBatch, b.ID, last)
	}
	if err != nil {
		return 0, fmt.Errorf("natsstore: import to %q: %w", root, err)
	}
	return j.add(ctx, root, after, first, b)
}

// Import implements [session.TranscriptsImporter].
func (t transcripts) Import(
	ctx context.Context, ref session.Ref, after session.Pos, lines ...session.Line,
) (last session.Pos, err error) {
	if err = errors.Join(t.check(ctx), ref.Validate()); err == nil {
		err = session.ValidateImport(after, lines)
	}
	var a addition
	if err == nil {
		a, err = placed(lines)
	}
	if err == nil {
		last, err = t.append(ctx, ref, after, a)
	}
	if err != nil {
		return 0, refError(ref, "import", err)
	}
	return last, nil
}

// placed returns lines as they are added at their positions.
func placed(lines []session.Line) (a addition, err error) {
	if len(lines) == 0 {
		return a, nil
	}
	messages := make([]session.Message, len(lines))
	for i := range lines {
		messages[i] = lines[i].Message
	}
	content, err := encodeLines(messages)
	if err != nil {
		return a, err
	}
	a = addition{
		n: len(lines), at: uint64(lines[0].Pos), last: uint64(lines[len(lines)-1].Pos),
		content: make([]byte, 0, len(content)+len(lines)*len("9223372036854775807 ")),
	}
	if a.last > maxPlace {
		return a, fmt.Errorf("%w: the position %d is too large", session.ErrInvalidLine, a.last)
	}
	for i, text := range slices.Collect(bytes.Lines(content)) {
		a.content = strconv.AppendUint(a.content, uint64(lines[i].Pos), 10)
		a.content = append(append(a.content, ' '), text...)
	}
	return a, nil
}

// splitPlace returns the position with which a line begins, and the message.
func splitPlace(line []byte) (pos uint64, message []byte, ok bool) {
	place, message, ok := bytes.Cut(line, []byte{' '})
	pos, err := strconv.ParseUint(string(place), 10, 64)
	return pos, message, ok && err == nil
}

// Refs implements [session.TranscriptsLister].
func (t transcripts) Refs(ctx context.Context) iter.Seq2[session.Ref, error] {
	return t.refs(ctx, "transcripts", lineKind, "",
		func(_ context.Context, _ chain, tip link) (bool, error) { return tip.Archived == "", nil })
}

// filesName is with what the name of the list of the files of a transcript begins.
const filesName = "files "

// Refs implements [session.FilesLister].
func (f files) Refs(ctx context.Context, _ []session.Key) iter.Seq2[session.Ref, error] {
	return f.refs(ctx, "files", fileKind, filesName,
		func(ctx context.Context, c chain, tip link) (bool, error) {
			m, err := c.manifest(ctx, tip)
			return len(m.Files) > 0, err
		})
}

// refs yields the transcripts that the chains of a kind are of, whose names begin with a prefix and
// whose last links are wanted. One that is damaged hides no other.
func (e *engine) refs(
	ctx context.Context, what, kind, prefix string,
	wanted func(ctx context.Context, c chain, tip link) (bool, error),
) iter.Seq2[session.Ref, error] {
	return func(yield func(session.Ref, error) bool) {
		var last error
		err := e.check(ctx)
		var subjects map[string]uint64
		if err == nil {
			subjects, err = e.text.subjects(ctx, e.text.subject(kind, "*"))
		}
		for subject := range subjects {
			ref, c, tip, failed := e.refOf(ctx, subject, prefix)
			ok := failed == nil && tip.seq > 0 && !tip.Gone
			if ok {
				ok, failed = wanted(ctx, c, tip)
			}
			switch {
			case errors.Is(failed, session.ErrCorrupt):
				last = failed
			case failed != nil:
				err = failed
			case ok && !yield(ref, nil):
				return
			}
			if err = errors.Join(err, e.check(ctx)); err != nil {
				break
			}
		}
		if err = errors.Join(last, err); err != nil {
			yield(session.Ref{}, fmt.Errorf("natsstore: the names of %s: %w", what, err))
		}
	}
}

// refOf returns of which transcript a subject is, with its chain and the last link of that.
func (e *engine) refOf(
	ctx context.Context, subject, prefix string,
) (ref session.Ref, c chain, tip link, err error) {
	m, ok, err := e.text.last(ctx, subject)
	if err != nil || !ok {
		return ref, c, tip, err
	}
	c = chain{stream: e.text, token: lastToken(subject), subject: subject}
	h, err := parseHead(m)
	if err == nil {
		c.name = h.Name
		name, id, _ := strings.Cut(strings.TrimPrefix(h.Name, prefix), " ")
		ref.SessionID = id
		ref.Key, err = session.Parse(name)
	}
	if err == nil {
		err = ref.Validate()
	}
	if err == nil && (prefix+refName(ref) != h.Name || token(h.Name) != c.token) {
		err = errOther
	}
	if err != nil {
		return ref, c, tip, c.corrupt(m.seq, err.Error())
	}
	if tip, err = c.parse(m); err == nil {
		err = c.checkPrev(ctx, m, tip.Prev)
	}
	return ref, c, tip, err
}

var errOther = errors.New("natsstore: the name is not that of the subject")

// manifest returns the list of files that a link has.
func (c chain) manifest(ctx context.Context, l link) (m manifest, err error) {
	content, err := c.download(ctx, l)
	if err == nil {
		if err = json.Unmarshal(content, &m); err != nil {
			err = c.corrupt(l.seq, err.Error())
		}
	}
	return m, err
}
