package natsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// maxLineBytes is the longest line of a transcript, as JSON.
const maxLineBytes = 64 << 20

// The kinds of the subjects of the stream of transcripts and files.
const (
	lineKind    = "l" // the messages of a transcript: l.<token>
	archiveKind = "a" // what leads to the transcripts that are archived: a.<token>
	fileKind    = "f" // the list of the files of a transcript: f.<token>
	chunkKind   = "c" // the chunks of files: c.<token>.<upload>.<number>
)

// markTTL is how long it is known that something was removed.
const markTTL = 24 * time.Hour

// A transcripts is the [session.Transcripts] of a Store.
type transcripts struct{ *engine }

// Close closes the Store. Each of its parts may be closed.
func (t transcripts) Close() error {
	t.close()
	return nil
}

// refError adds the transcript and the operation to err, unless it is nil.
func refError(ref session.Ref, doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("natsstore: transcript %q of %q: %s: %w", ref.SessionID, ref.Key, doing, err)
}

// refName is the name of a transcript. A key has no spaces.
func refName(ref session.Ref) string { return ref.Key.String() + " " + ref.SessionID }

// chainOf returns the chain of a transcript.
func (e *engine) chainOf(ref session.Ref) chain { return e.text.newChain(lineKind, refName(ref)) }

// encodeLines returns the content of a message that has these lines, or an error that is
// [session.ErrInvalidLine].
func encodeLines(messages []session.Message) (content []byte, err error) {
	if len(messages) > maxItems {
		return nil, fmt.Errorf("%w: %d messages at once, at most %d", session.ErrInvalidLine,
			len(messages), maxItems)
	}
	for i := range messages {
		begin := len(content)
		if err = messages[i].Validate(); err == nil {
			content, err = messages[i].AppendJSON(content)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i, len(messages), err)
		}
		if size := len(content) - begin; size > maxLineBytes {
			return nil, &LineSizeError{i, size, maxLineBytes}
		}
		content = append(content, '\n')
	}
	return content, nil
}

func (t transcripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (last session.Pos, err error) {
	var content []byte
	if err = errors.Join(t.check(ctx), ref.Validate()); err == nil {
		content, err = encodeLines(messages)
	}
	if err == nil {
		last, err = t.append(ctx, ref, after, addition{n: len(messages), content: content})
	}
	if err != nil {
		return 0, refError(ref, "append", err)
	}
	return last, nil
}

// An addition are lines that are added at once.
type addition struct {
	n       int
	content []byte
	// at and last are the positions of the first and the last line, which have theirs in the
	// content. Zero: they do not have any, and the chain gives them.
	at, last uint64
}

// append adds lines behind the end of a transcript, if that is where the writer believes.
func (t transcripts) append(
	ctx context.Context, ref session.Ref, after session.Pos, a addition,
) (session.Pos, error) {
	c := t.chainOf(ref)
	tip, known := t.tips.get(c.subject)
	known = known && a.n > 0 && tip.Archived == "" && tip.end() == uint64(after)
	for {
		if !known {
			var err error
			if tip, err = c.tip(ctx); err != nil {
				return 0, err
			}
			switch {
			case tip.Archived != "":
				return 0, fmt.Errorf("%w as %q", session.ErrArchived, tip.Archived)
			case tip.end() != uint64(after):
				return 0, fmt.Errorf("after %d, which ends at %d: %w", after, tip.end(),
					session.ErrConflict)
			case a.n == 0:
				return after, nil
			}
		}
		h := tip.follow()
		h.N, h.Last = a.n, a.last
		if a.at > 0 {
			h.At = a.at
		}
		l, err := c.extend(ctx, tip, h, a.content, 0)
		if !errors.Is(err, errMoved) {
			return session.Pos(l.end()), err
		}
		known = false // it may have been archived and restored
	}
}

func (t transcripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		err := errors.Join(t.check(ctx), ref.Validate(), q.Validate())
		if err == nil {
			err = t.read(ctx, ref, q, func(l session.Line) bool { return yield(l, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(session.Line{}, refError(ref, "read", err))
		}
	}
}

// read yields the lines that q selects.
func (t transcripts) read(
	ctx context.Context, ref session.Ref, q session.LineQuery, yield func(session.Line) bool,
) error {
	c := t.chainOf(ref)
	tip, err := c.tip(ctx)
	switch {
	case err != nil || tip.seq == 0 || tip.Gone:
		return err
	case tip.Archived != "" && !q.Archived:
		return fmt.Errorf("%w as %q", session.ErrArchived, tip.Archived)
	}
	after := uint64(q.After)
	var from uint64
	skip := 0
	if q.Last > 0 {
		from, skip, err = c.back(ctx, tip, after, q.Last)
	} else {
		from, err = c.from(ctx, tip, after)
	}
	if err != nil {
		return err
	}
	for l, err := range c.links(ctx, from, tip) {
		if err == nil {
			err = c.lines(ctx, l, func(pos uint64, text []byte) error {
				if pos <= after {
					return nil
				}
				if skip > 0 {
					skip--
					return nil
				}
				line := session.Line{Pos: session.Pos(pos)}
				if err := line.Message.UnmarshalJSON(text); err != nil {
					return c.corrupt(l.seq, err.Error())
				}
				if !yield(line) {
					return errStopped
				}
				return nil
			})
		}
		if err == nil {
			err = t.check(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placesLines reports whether the lines of l have their positions.
func (l *link) placesLines() bool { return l.N > 0 && l.Last > 0 }

// lines calls f with each line of a link of a transcript and its position, until it fails.
func (c chain) lines(ctx context.Context, l link, f func(pos uint64, text []byte) error) error {
	content, err := c.download(ctx, l)
	if err != nil {
		return err
	}
	pos := l.begin() - 1
	for i := range l.N {
		var text []byte
		text, content, _ = bytes.Cut(content, []byte{'\n'})
		if before := pos; l.placesLines() {
			var ok bool
			if pos, text, ok = splitPlace(text); !ok || pos <= before || pos > l.Last {
				return c.corrupt(l.seq, fmt.Sprintf("line %d has no position behind %d", i, before))
			}
		} else {
			pos = l.position(i)
		}
		if err := f(pos, text); err != nil {
			return err
		}
	}
	return nil
}

// change adds a mark that decide makes of the last link of a transcript, until it comes right
// behind that. A nil mark changes nothing.
func (t transcripts) change(
	ctx context.Context, ref session.Ref, ttl time.Duration,
	decide func(tip link) (mark *head, err error),
) (l link, err error) {
	if err = errors.Join(t.check(ctx), ref.Validate()); err != nil {
		return l, err
	}
	c := t.chainOf(ref)
	for {
		tip, err := c.tip(ctx)
		if err != nil {
			return l, err
		}
		mark, err := decide(tip)
		if err != nil || mark == nil {
			return l, err
		}
		l, err = c.extend(ctx, tip, *mark, nil, ttl)
		if !errors.Is(err, errMoved) {
			return l, err
		}
	}
}

// An archived leads to an archived transcript. It is written before the mark that the transcript is
// archived.
type archived struct {
	Key     string `json:"key"`
	Session string `json:"session"`
}

func (t transcripts) Archive(
	ctx context.Context, ref session.Ref, at time.Time,
) (name string, err error) {
	_, err = t.change(ctx, ref, 0, func(tip link) (*head, error) {
		if name = tip.Archived; name != "" || tip.seq == 0 || tip.Gone {
			return nil, nil
		}
		data, err := json.Marshal(archived{ref.Key.String(), ref.SessionID})
		if err == nil {
			_, err = t.text.publish(ctx, publication{
				subject: t.text.subject(archiveKind, token(refName(ref))), data: data,
			})
		}
		name = session.ArchiveName(ref.SessionID+".jsonl", at)
		h := tip.follow()
		h.Archived = name
		// A name has the milliseconds that it began with.
		h.Millis = at.Unix()*1000 + int64(at.Nanosecond())/int64(time.Millisecond)
		return &h, err
	})
	if err != nil {
		return "", refError(ref, "archive", err)
	}
	return name, nil
}

func (t transcripts) Restore(ctx context.Context, ref session.Ref) error {
	l, err := t.change(ctx, ref, 0, func(tip link) (*head, error) {
		switch {
		case tip.seq == 0 || tip.Gone:
			return nil, session.ErrNotFound
		case tip.Archived == "":
			return nil, nil
		}
		h := tip.follow()
		return &h, nil
	})
	if err == nil && l.seq > 0 {
		t.unlead(ctx, ref, l.seq)
	}
	return refError(ref, "restore", err)
}

// unlead takes away what led to a transcript as an archived one, before a message of it.
func (t transcripts) unlead(ctx context.Context, ref session.Ref, before uint64) {
	// Archives looks at the transcript itself, so what stays does no harm.
	_ = t.text.purge(ctx, t.text.subject(archiveKind, token(refName(ref))), before)
}

func (t transcripts) Remove(ctx context.Context, ref session.Ref) error {
	l, err := t.change(ctx, ref, markTTL, func(tip link) (*head, error) {
		switch {
		case tip.seq == 0 || tip.Gone:
			return nil, nil
		case tip.Archived == "":
			return nil, session.ErrNotArchived
		}
		return &head{Gone: true}, nil
	})
	if err == nil && l.seq > 0 {
		t.chainOf(ref).shorten(ctx, l)
		t.unlead(ctx, ref, l.seq)
	}
	return refError(ref, "remove", err)
}

func (t transcripts) Archives(
	ctx context.Context, before time.Time,
) iter.Seq2[session.Archived, error] {
	return func(yield func(session.Archived, error) bool) {
		var last error
		err := t.check(ctx)
		var subjects map[string]uint64
		if err == nil {
			subjects, err = t.text.subjects(ctx, t.text.subject(archiveKind, "*"))
		}
		for subject := range subjects {
			a, ok, failed := t.archive(ctx, subject)
			switch {
			case errors.Is(failed, session.ErrCorrupt):
				last = failed // it hides no other
			case failed != nil:
				err = failed
			case ok && (before.IsZero() || a.At.Before(before)) && !yield(a, nil):
				return
			}
			if err = errors.Join(err, t.check(ctx)); err != nil {
				break
			}
		}
		if err = errors.Join(last, err); err != nil {
			yield(session.Archived{}, fmt.Errorf("natsstore: archived transcripts: %w", err))
		}
	}
}

// archive returns the archived transcript to which a subject leads, and whether it leads to one.
func (t transcripts) archive(
	ctx context.Context, subject string,
) (a session.Archived, ok bool, err error) {
	m, ok, err := t.text.last(ctx, subject)
	if err != nil || !ok {
		return a, false, err
	}
	var lead archived
	if err = json.Unmarshal(m.data, &lead); err == nil {
		a.Ref.SessionID = lead.Session
		a.Ref.Key, err = session.Parse(lead.Key)
	}
	if err == nil {
		err = a.Ref.Validate()
	}
	if err != nil {
		return a, false, &session.CorruptError{
			File: "subject " + subject, Offset: int64(m.seq), Reason: err.Error(), //nolint:gosec // it counts messages
		}
	}
	tip, err := t.chainOf(a.Ref).tip(ctx)
	if err != nil || tip.Archived == "" {
		return a, false, err
	}
	a.At = time.UnixMilli(tip.Millis).UTC()
	return a, true, nil
}

// Locate returns "": the lines of a stream are not at a path.
func (t transcripts) Locate(session.Ref) string { return "" }

// A manifest is the list of the files of a transcript.
type manifest struct {
	Files    []stored `json:"files,omitempty"`
	Archived bool     `json:"archived,omitempty"`
	// Removed is the sequence of the last mark that all files were removed. Chunks before it are
	// gone.
	Removed uint64 `json:"removed,omitempty"`
}

// A stored is a file with the token of its chunks.
type stored struct {
	session.File
	Chunks string `json:"chunks"`
}

// find returns the file with a hash.
func (m *manifest) find(hash string) (stored, bool) {
	i := slices.IndexFunc(m.Files, func(s stored) bool { return s.Hash == hash })
	if i < 0 {
		return stored{}, false
	}
	return m.Files[i], true
}
