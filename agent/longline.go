package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// maxLine is how long a line is at most, as JSON. A longer message is a file, unless the Store has
// no Files.
const maxLine = 256 << 10

// maxHead is how many bytes of its Text the line of such a message has.
const maxHead = 4 << 10

// lostText stands behind the beginning of a message whose file is gone.
const lostText = "\n[Offshoot] The rest of this message is lost."

// shorten returns lines as the transcript has them. A message that is too long for a line is put
// into a file first, and the line has what a reader needs. If the file cannot be kept, the line is
// the whole message, as without Files. An error is that of ctx.
func (r *turnRecord) shorten(ctx context.Context, lines []Message) ([]Message, error) {
	if r.files == nil {
		return lines, nil
	}
	short := slices.Clone(lines)
	for i, m := range lines {
		data := longLine(m)
		if data == nil {
			continue
		}
		file, err := r.put(ctx, data)
		switch {
		case err == nil:
			short[i] = headOf(m, file)
		case ctx.Err() != nil:
			return nil, err
		default:
			r.log.Warn("offshoot: a long message stays in its line, since its file cannot be kept",
				"session", r.ref.Key.String(), "bytes", len(data), "error", err.Error())
		}
	}
	return short, nil
}

// longLine returns the JSON of a message that is too long for a line, else nil.
func longLine(m Message) []byte {
	size := len(m.ID) + len(m.Text) + len(m.ToolCallID) + len(m.Raw) + len(m.Parts)*maxLine
	for _, c := range m.ToolCalls {
		size += len(c.ID) + len(c.Name) + len(c.Args)
	}
	const growth = 6 // a byte of a text is at most \u0000
	if m.Role == session.MessageNote || size < maxLine/(2*growth) {
		return nil
	}
	data, err := m.AppendJSON(nil)
	if err != nil || len(data) <= maxLine { // the store says what is wrong
		return nil
	}
	return data
}

// headOf returns the line of a message that is in a file: what a reader and a provider need to find
// their way.
func headOf(m Message, whole session.File) Message {
	head := Message{
		ID: m.ID, Role: m.Role, Text: text.Cut(m.Text, maxHead), ToolCallID: m.ToolCallID,
		Failed: m.Failed, Internal: m.Internal, Time: m.Time, Model: m.Model, Usage: m.Usage,
		From: m.From, Parts: m.Parts, Whole: whole, Ord: m.Ord, Synthetic: m.Synthetic,
	}
	for _, c := range m.ToolCalls {
		head.ToolCalls = append(head.ToolCalls,
			ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(noArgs)})
	}
	return head
}

// whole returns a line with its whole message, see wholeLine. It tries again until the store can be
// read.
func (r *turnRecord) whole(ctx context.Context, line session.Line) (session.Line, error) {
	return wholeLine(ctx, r.files, r.ref, r.log, line, func(read func() error) error {
		return r.retry(ctx, func() error { return attempt(read) })
	})
}

// wholeLine returns a line with its whole message, which it reads by calls of call. Where the file
// of a long one is gone or damaged, it is what the line has, with a note, and that is logged.
func wholeLine(
	ctx context.Context, files session.Files, ref session.Ref, log *slog.Logger,
	line session.Line, call func(read func() error) error,
) (session.Line, error) {
	file := line.Message.Whole
	if file.IsZero() {
		return line, nil
	}
	var m Message
	err := call(func() (err error) {
		m, err = readWhole(ctx, files, ref, line.Message)
		return err
	})
	switch {
	case err == nil:
		line.Message = m
		return line, nil
	case ctx.Err() != nil, !isLoss(err):
		return line, fmt.Errorf("agent: reading a file of %q: %w", ref.Key, err)
	}
	log.Error("offshoot: the file of a long message is lost", "session", ref.Key.String(),
		"position", uint64(line.Pos), "hash", file.Hash, "bytes", file.Size, "error", err.Error())
	line.Message.Whole = session.File{}
	line.Message.Text += lostText
	return line, nil
}

// isLoss reports whether an error says that a file is not there, or not what it was.
func isLoss(err error) bool {
	for _, e := range []error{
		session.ErrNotFound, session.ErrCorrupt, session.ErrNoFiles, session.ErrInvalidKey,
		session.ErrUnsafe, session.ErrFormat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readWhole returns the message of which a line has the beginning.
func readWhole(
	ctx context.Context, files session.Files, ref session.Ref, head Message,
) (m Message, err error) {
	data, err := session.ReadFile(ctx, files, ref, head.Whole)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	}
	if m.Role != head.Role || !m.Whole.IsZero() {
		return m, fmt.Errorf("%w: it is not the message of its line", session.ErrCorrupt)
	}
	return m, nil
}
