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
	if err == nil && len(messages) > maxItems {
		err = fmt.Errorf("%w: %d messages at once, at most %d", session.ErrInvalidLine,
			len(messages), maxItems)
	}
	if err == nil {
		last, err = t.append(ctx, ref, after, len(messages), content)
	}
	if err != nil {
		return 0, refError(ref, "append", err)
	}
	return last, nil
}

// append adds n lines behind the end of a transcript, if that is where the writer believes.
func (t transcripts) append(
	ctx context.Context, ref session.Ref, after session.Pos, n int, content []byte,
) (session.Pos, error) {
	c := t.chainOf(ref)
	tip, known := t.tips.get(c.subject)
	known = known && n > 0 && tip.Archived == "" && tip.end() == uint64(after)
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
			case n == 0:
				return after, nil
			}
		}
		h := tip.follow()
		h.N, h.Last = n, 0
		l, err := c.extend(ctx, tip, h, content, 0)
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
	from, skip := max(tip.base(), after>>itemBits), 0
	if q.Last > 0 {
		if from, skip, err = c.back(ctx, tip, after, q.Last); err != nil {
			return err
		}
	}
	for l, err := range c.links(ctx, from, tip) {
		var content []byte
		if err == nil {
			content, err = c.download(ctx, l)
		}
		if err != nil {
			return err
		}
		for i := range l.N {
			var text []byte
			text, content, _ = bytes.Cut(content, []byte{'\n'})
			line := session.Line{Pos: session.Pos(l.position(i))}
			if uint64(line.Pos) <= after {
				continue
			}
			if skip > 0 {
				skip--
				continue
			}
			if err := line.Message.UnmarshalJSON(text); err != nil {
				return c.corrupt(l.seq, err.Error())
			}
			if !yield(line) {
				return errStopped
			}
		}
		if err := t.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// back returns the message with which to begin for the last n items behind a position, and how many
// of those behind the position are to be left out.
func (c chain) back(
	ctx context.Context, tip link, after uint64, n int,
) (from uint64, skip int, err error) {
	l, found := tip, 0
	for {
		if l.N > 0 && l.end() > after {
			begin := 0
			if l.seq == after>>itemBits {
				begin = int(after&(maxItems-1)) + 1
			}
			found += l.N - begin
		}
		if found >= n || l.seq == tip.base() || l.seq <= after>>itemBits {
			return l.seq, max(found-n, 0), nil
		}
		m, ok, err := c.at(ctx, l.Prev)
		if err == nil && (!ok || m.subject != c.subject) {
			err = c.lost(ctx, l.Prev, "the message is missing")
		}
		if err != nil {
			return 0, 0, err
		}
		if l, err = c.parse(m); err != nil {
			return 0, 0, err
		}
	}
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
