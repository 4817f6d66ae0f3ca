package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/secret"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Bounds of what a [Session.History] returns. Those of one text and of a page are the field's.
const (
	historyLast     = 200    // lines, unless HistoryQuery.Last says otherwise
	maxHistoryLast  = 1000   // lines
	maxHistoryText  = 4000   // characters of a text
	maxHistoryBytes = 81_920 // of a page, as JSON
	maxHistoryItems = 50     // tool calls, and parts, of a message

	maxHistoryRead = 4 << 20 // bytes of the messages of which a page is made
)

const (
	omittedHistory  = "[Offshoot] The message is too large to be shown."
	toldOfSubagents = "[Offshoot] What a sub-agent came to was told to the session."
)

// A HistoryQuery selects lines of a conversation. The zero HistoryQuery selects the newest 200.
type HistoryQuery struct {
	// Last is how many lines there are at most, counted from the end. Zero is 200, and more than
	// 1,000 is 1,000.
	Last int
	// Before selects the lines before a position: [HistoryPage.Earlier] of the page behind them.
	// Zero selects up to the end.
	Before session.Pos
	// Raw returns the messages as the transcript has them, with whatever the model and its tools
	// said: thoughts, secrets, the provider's form, at any length. It is for programs that go on
	// with a conversation, not for readers.
	Raw bool
}

// A HistoryPage is a part of a conversation.
type HistoryPage struct {
	// Lines are the oldest first. There may be none although Earlier leads on.
	Lines []HistoryLine `json:"lines"`
	// Earlier is the Before of a query for the lines before these. Zero: there are none.
	Earlier session.Pos `json:"earlier,omitzero"`
	// Archived says that the session has been archived: nothing follows.
	Archived bool `json:"archived,omitzero"`
}

// A HistoryLine is one message of a conversation, as readers may see it unless the query was Raw.
type HistoryLine struct {
	Pos      session.Pos `json:"pos"`
	Message  Message     `json:"message"`
	Cut      bool        `json:"cut,omitzero"`      // something is left out because it is long
	Redacted bool        `json:"redacted,omitzero"` // a credential was masked
}

// History returns what a session and its people, or its requester, have said, for readers: in a
// terminal, on a page, as a tool of another session's model. It is the committed conversation: the
// lines of the turn that is under way come with its end, and what an interrupted turn left is not
// part of it. A session that has been archived has its history, too. Of a session that the caller
// runs there is what Offshoot has recorded, so that Lines may be empty.
//
// Unless the query is Raw, what the assistant said is what people may see of it, see
// [announce.Visible], and a line of which nothing is left is not there. Credentials are masked
// everywhere, see [announce.Redact]: in the arguments of a tool call also where JSON escapes them.
// What steers a terminal or the direction of a text is left out: escape sequences, controls but for
// the line feed and the tab, and marks of bidirectional text. A completion is a remark without the
// result, which the assistant's next line tells. A text has at most 4,000 characters, and behind
// them it says how many are left out, such as "…(truncated, 12 characters left out)…". Arguments of
// a tool call that are longer are left out, and a page has at most 81,920 bytes as JSON and is made
// of at most 4 MiB of messages, or of one message: then it has fewer lines or none, and Earlier
// leads to the others. The provider's form of a message, what it consumed, and members that this
// version does not know are left out. Parts are named, with their [session.File].
//
// History changes nothing. The error is an *[InputError] for a negative Last or a key that is not
// that of a session, [ErrNotFound] for a session that is not on record, that of the Transcripts, or
// one that every call that reads can return.
//
// The turn under whose context it is called works for those, too, for whom a sub-agent has worked
// whose lines it reads, as if the tool sessions_history had; see docs/senders.md.
func (s *Session) History(ctx context.Context, q HistoryQuery) (HistoryPage, error) {
	page, err := s.history(ctx, q)
	if err != nil {
		return page, err
	}
	err = spawn.HearUnder(ctx, func() ([]policy.Sender, error) {
		read := toolHost{rt: s.rt, session: new(Session), heard: new(heard)}
		err := read.hearSession(ctx, s.key)
		return read.heard.of, err
	})
	if err != nil {
		return HistoryPage{}, inOurWords(err)
	}
	return page, nil
}

// history is History, which binds no turn.
func (s *Session) history(ctx context.Context, q HistoryQuery) (page HistoryPage, err error) {
	if q.Last < 0 {
		return page, &InputError{
			Field: "HistoryQuery.Last", Reason: fmt.Sprintf("%d is negative", q.Last),
		}
	}
	if q.Last == 0 {
		q.Last = historyLast
	}
	q.Last = min(q.Last, maxHistoryLast)
	h, err := s.findTranscript(ctx)
	gone := err // it has left its tree, unless it was never there
	if err != nil && !h.archivable(err) {
		return page, err
	}
	ctx, leave := s.rt.bindings.whole(ctx)
	defer leave()
	lines, more, err := h.committed(ctx, q)
	if errors.Is(err, ErrArchived) && !h.archived {
		h.archived = true
		lines, more, err = h.committed(ctx, q)
	}
	view := historyView{redactor: s.rt.redactor, raw: q.Raw}
	inStore := func(read func() error) error {
		return h.inStore(ctx, func(context.Context) error { return read() })
	}
	for _, line := range slices.Backward(lines) {
		if !view.mayRead(line.Message) {
			break
		}
		line, err = wholeLine(ctx, h.store.Files, h.ref, s.rt.log, line, inStore)
		if err != nil || !view.add(line) {
			break
		}
		view.oldest = line.Pos
	}
	switch {
	case err != nil:
		return page, fmt.Errorf("agent: reading the transcript of %q: %w", s.key, err)
	case gone != nil && !h.archived:
		return page, gone
	}
	page = view.page()
	if page.Archived = h.archived; page.Earlier == 0 && more {
		page.Earlier = lines[0].Pos
	}
	return page, nil
}

// A historyReader reads the transcript of one session.
type historyReader struct {
	store    *session.Store
	ref      session.Ref
	end      session.Pos // how far it is committed
	archived bool
	inStore  func(context.Context, func(context.Context) error) error // see [bindings.inStore]
}

// findTranscript returns the transcript of the session. Beside an error that is ErrNotFound it is
// the one of a sub-agent that has left its tree, whose session has the id of its run: of that, all
// is committed that no fence discards.
func (s *Session) findTranscript(ctx context.Context) (h historyReader, err error) {
	h = s.rt.left(s.key)
	root, err := s.tree(ctx)
	if err != nil {
		return h, err
	}
	ref, end, err := s.rt.sup.Transcript(ctx, root, s.key)
	if err == nil {
		h.ref, h.end = ref, end
	}
	return h, err
}

// left returns the reader of a transcript that has left its tree.
func (rt *Runtime) left(key session.Key) historyReader {
	return historyReader{
		store: rt.cfg().Store, ref: session.Ref{Key: key, SessionID: key.ID()}, end: math.MaxUint64,
		inStore: rt.bindings.inStore,
	}
}

// archivable reports whether a session that is not found, as err says, may have been archived.
func (h historyReader) archivable(err error) bool {
	return errors.Is(err, ErrNotFound) && h.ref.Key.IsSubagent() && h.ref.Validate() == nil
}

// orArchived adds [ErrArchived] to an error that is ErrNotFound, if the session has been archived.
// Whether it was is in its transcript. If that cannot be read, the error says so and nothing else:
// it is ErrUnreadable, the cause of ctx, or [ErrShutdown].
func (rt *Runtime) orArchived(ctx context.Context, key session.Key, err error) error {
	if !errors.Is(err, ErrNotFound) || errors.Is(err, ErrArchived) {
		return err
	}
	h := rt.left(key)
	if !h.archivable(err) {
		return err
	}
	_, unread := h.read(ctx, 1)
	switch {
	case unread == nil, errors.Is(unread, session.ErrNotFound):
		return err // it never was
	case errors.Is(unread, ErrArchived):
		return fmt.Errorf("%w (Session.Revive brings it back): %w", ErrArchived, err)
	case ctx.Err() != nil, rt.bindings.cut() != nil:
		return unread
	}
	return fmt.Errorf("agent: %w: whether %q is archived: %w", ErrUnreadable, key, unread)
}

// commandOrArchived is orArchived for a command, of which nothing is recorded if err is
// ErrNotFound: the error says that, too, if the transcript cannot be read.
func (rt *Runtime) commandOrArchived(ctx context.Context, key session.Key, err error) error {
	found := rt.orArchived(ctx, key, err)
	if errors.Is(err, ErrNotFound) && !errors.Is(found, ErrNotFound) {
		return unrecorded(ctx, found)
	}
	return found
}

// read returns the last n lines, in time for a caller that leaves.
func (h historyReader) read(ctx context.Context, n int) ([]session.Line, error) {
	var lines []session.Line
	err := h.inStore(ctx, func(ctx context.Context) error {
		q := session.LineQuery{Last: n, Archived: h.archived}
		for line, err := range h.store.Transcripts.Read(ctx, h.ref, q) {
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return nil
	})
	if err != nil {
		return nil, err // lines may still be written to
	}
	return lines, nil
}

// committed returns the lines that a query selects, and whether there are others before them. What
// a fence discards stands before it, so the end of a transcript has the end of the conversation.
func (h historyReader) committed(
	ctx context.Context, q HistoryQuery,
) (kept []session.Line, more bool, err error) {
	for n := 2 * q.Last; ; n *= 4 {
		lines, err := h.read(ctx, n)
		if err != nil {
			return nil, false, err
		}
		kept = committed(lines, h.end)
		if q.Before > 0 {
			kept = slices.DeleteFunc(kept, func(l session.Line) bool { return l.Pos >= q.Before })
		}
		if len(kept) > q.Last || len(lines) < n {
			break
		}
	}
	if more = len(kept) > q.Last; more {
		kept = kept[len(kept)-q.Last:]
	}
	return kept, more, nil
}

// A historyView makes the page that readers get of lines, wherever they look. It takes the newest
// line first.
type historyView struct {
	redactor *announce.Redactor

	raw    bool
	size   int // of the lines, as JSON
	weight int // of the messages that were read, see weightOf
	lines  []HistoryLine
	oldest session.Pos // of the lines that were taken, also those of which nothing is shown
	full   bool
}

// mayRead reports whether the page may read the message of the line before those that the view has.
// If not, the page is full. It always may read one, so that the next page goes on.
func (v *historyView) mayRead(m Message) bool {
	n := weightOf(m)
	v.full = !v.raw && v.oldest > 0 && n > maxHistoryRead-v.weight
	v.weight = sat.Add(v.weight, n)
	return !v.full
}

// weightOf returns how many bytes the view of a message, of which the line may have the beginning,
// looks at.
func weightOf(m Message) int {
	n := len(m.Text) + len(m.ID) + len(m.ToolCallID) + len(m.From.ID) + len(m.From.Name)
	for _, call := range m.ToolCalls {
		n += len(call.ID) + len(call.Name) + len(call.Args)
	}
	for _, part := range m.Parts {
		n += len(part.MediaType) + len(part.Name) + len(part.URL)
	}
	return max(n, int(min(m.Whole.Size, math.MaxInt32)))
}

// add takes the line before those that the view has. It returns false if the page is full: then the
// line is not in it.
func (v *historyView) add(line session.Line) bool {
	if v.raw {
		v.lines = append(v.lines, HistoryLine{Pos: line.Pos, Message: line.Message})
		return true
	}
	safe, shown := safeLine(v.redactor, line)
	if !shown {
		return true
	}
	const around = len(`{"lines":[],"earlier":18446744073709551615,"archived":true}`)
	n := safe.size()
	if n > maxHistoryBytes-around {
		safe.Message = Message{
			ID: safe.Message.ID, Role: safe.Message.Role, Time: safe.Message.Time,
			ToolCallID: safe.Message.ToolCallID, Text: omittedHistory,
		}
		safe.Cut, n = true, safe.size()
	}
	if v.full = v.size+n > maxHistoryBytes-around; v.full {
		return false
	}
	v.size += n
	v.lines = append(v.lines, safe)
	return true
}

// page returns the page. If the oldest lines are left out because it is full, Earlier leads to
// them, also if the page shows nothing of those that it took.
func (v *historyView) page() (page HistoryPage) {
	page.Lines = append([]HistoryLine{}, v.lines...)
	slices.Reverse(page.Lines)
	if v.full {
		page.Earlier = v.oldest
	}
	return page
}

// size returns how many bytes the line has as JSON, with what stands around the message.
func (l *HistoryLine) size() int {
	const around = len(`{"pos":18446744073709551615,"message":,"cut":true,"redacted":true},`)
	data, err := l.Message.AppendJSON(nil)
	if err != nil {
		return maxHistoryBytes + 1 // it cannot be shown
	}
	const escaped = len(`\u003c`) - len("<") // what package json makes of these
	marks := bytes.Count(data, []byte("<")) + bytes.Count(data, []byte(">")) +
		bytes.Count(data, []byte("&"))
	return len(data) + escaped*marks + around
}

// safeLine returns the safe view of a line, and false if a reader would see nothing of it.
func safeLine(r *announce.Redactor, line session.Line) (safe HistoryLine, shown bool) {
	l := safeView{redactor: r}
	l.Pos = line.Pos
	m := line.Message
	var said string
	switch {
	case m.Role == session.MessageAssistant:
		if said, shown = announce.Visible(m.Text); !shown && len(m.ToolCalls)+len(m.Parts) == 0 {
			return l.HistoryLine, false
		}
		said = l.visible(said)
	case m.Internal:
		said = l.visible(cmp.Or(announce.Sanitize(m.Text), toldOfSubagents))
	default:
		said = l.text(m.Text)
	}
	l.Message = Message{
		Role: session.MessageRole(l.name(string(m.Role))), Model: l.name(m.Model),
		Failed: m.Failed, Internal: m.Internal, Time: m.Time, Ord: m.Ord, Synthetic: m.Synthetic,
		Copied: m.Copied,
		ID:     l.name(m.ID), ToolCallID: l.name(m.ToolCallID), Text: said,
		From: session.Sender{ID: l.name(m.From.ID), Name: l.name(m.From.Name)},
	}
	for i, call := range m.ToolCalls {
		if l.Cut = l.Cut || i == maxHistoryItems; i == maxHistoryItems {
			break
		}
		l.Message.ToolCalls = append(l.Message.ToolCalls, ToolCall{
			ID: l.name(call.ID), Name: l.name(call.Name), Args: l.args(call.Args),
		})
	}
	for i, part := range m.Parts {
		if l.Cut = l.Cut || i == maxHistoryItems; i == maxHistoryItems {
			break
		}
		l.Message.Parts = append(l.Message.Parts, session.Part{
			Kind: session.PartKind(l.name(string(part.Kind))), MediaType: l.name(part.MediaType),
			Name: l.name(part.Name), File: part.File, URL: l.text(part.URL),
		})
	}
	return l.HistoryLine, true
}

// A safeView is a line as a reader sees it, while it is made.
type safeView struct {
	HistoryLine

	redactor *announce.Redactor
}

// redact masks the credentials in a text, as it is without what a terminal would not show of it.
func (l *safeView) redact(s string) string {
	masked := secret.Clean(l.redactor.Redact, s)
	l.Redacted = l.Redacted || masked != text.WithoutControls(s)
	return masked
}

// text returns what a reader sees of a text.
func (l *safeView) text(s string) string { return l.head(l.redact(s)) }

// visible is text for what announce.Visible or announce.Sanitize has left. It stays as it is, but
// for the masks, and so is the same in a reply, in an event and here.
func (l *safeView) visible(s string) string {
	masked := speaking(l.redactor.Redact(s), s)
	l.Redacted = l.Redacted || masked != s
	return l.head(masked)
}

// head returns the beginning of a text that is masked already, so that the cut leaves no part of a
// credential.
func (l *safeView) head(s string) string {
	shown := text.Head(s, maxHistoryText)
	l.Cut = l.Cut || shown != s
	return shown
}

// name is text for what is short and has one line, unless it is meant to harm. It is masked with
// its line breaks, of which a secret may have one, and without them.
func (l *safeView) name(s string) string {
	s = l.redact(strings.ReplaceAll(l.redact(s), "\n", ""))
	short := text.Cut(s, text.MaxName)
	l.Cut = l.Cut || short != s
	return short
}

// args returns what a reader sees of the arguments of a tool call: JSON if they were.
func (l *safeView) args(given json.RawMessage) json.RawMessage {
	if utf8.RuneCount(given) > maxHistoryText {
		l.Cut = true
		return json.RawMessage(noArgs)
	}
	masked, redacted := l.redactor.RedactJSON(string(given), func(s string) string {
		return secret.Bare(l.redactor.Redact, text.WithoutControls(s))
	})
	l.Redacted = l.Redacted || redacted
	return json.RawMessage(masked)
}
