package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/few"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// A history is the conversation of a transcript up to a position, as a turn is given it.
type history struct {
	end session.Pos
	// messages may have room behind them. A slot of the array is written once: what was given to a
	// Runner stays as it is. Only the record that has the history writes there.
	messages []Message
	bytes    int // of what the messages hold, their array not included
	// note is the compaction that the first of the messages tells of. Nil: there is none.
	note *Message
	// measured is how many messages there were right after it: the usage of those before says
	// nothing of what a model is shown now.
	measured int
}

// add appends messages behind those that there are.
func (h *history) add(messages ...Message) {
	h.messages = append(h.grown(len(messages)), messages...)[:len(h.messages)]
	h.take(len(messages))
}

// grown returns the messages with room for so many more.
func (h *history) grown(n int) []Message {
	if h.messages == nil { // what is asked and what is answered, in one array
		return make([]Message, 0, max(2, n))
	}
	return slices.Grow(h.messages, n)
}

// next returns the place of one more message, which the history has not before it takes it. What
// was there is of no history.
func (h *history) next() []Message {
	h.messages = h.grown(1)
	n := len(h.messages)
	return h.messages[n : n+1 : n+1]
}

// take takes so many messages that stand in their place already. With none the place is not used
// again: a store that has returned early may still read what stands there.
func (h *history) take(n int) {
	if n == 0 {
		h.messages = slices.Clip(h.messages)
		return
	}
	from := len(h.messages)
	h.messages = h.messages[:from+n]
	for i := range n {
		h.bytes += heldBy(&h.messages[from+i])
	}
}

// size returns how many bytes of memory the history takes.
func (h *history) size() int { return h.bytes + cap(h.messages)*messageSize }

var (
	messageSize  = int(reflect.TypeFor[Message]().Size())
	toolCallSize = int(reflect.TypeFor[ToolCall]().Size())
	partSize     = int(reflect.TypeFor[session.Part]().Size())
)

// heldBy returns how many bytes of memory a message takes beside itself, with what an allocator
// adds.
func heldBy(m *Message) (bytes int) {
	add := func(n int) {
		if n > 0 {
			bytes += n + n/8 + 16
		}
	}
	for _, text := range [...]string{
		m.ID, string(m.Role), m.Text, m.ToolCallID, m.Model, m.From.ID, m.From.Name, m.Whole.Hash,
	} {
		add(len(text))
	}
	add(len(m.Raw))
	add(len(m.ToolCalls) * toolCallSize)
	for _, c := range m.ToolCalls {
		add(len(c.ID))
		add(len(c.Name))
		add(len(c.Args))
	}
	add(len(m.Parts) * partSize)
	for _, p := range m.Parts {
		for _, text := range [...]string{
			string(p.Kind), p.MediaType, p.Name, p.File.Hash, p.URL,
		} {
			add(len(text))
		}
	}
	return bytes
}

// A hotHistories keeps the histories of sessions between their turns, so that a turn need not read
// its transcript. A turn takes the history of its session, and has it alone. It gives it back with
// what the turn has added. What was dropped meanwhile is not taken back.
//
// A history is as a read of the transcript would give it, as long as the transcript ends where the
// history does and the journal says that this was committed. A hotHistories does not know of
// either: the caller compares the end with the journal, and appends there, which fails if the
// transcript goes on.
//
// The zero hotHistories keeps nothing. All methods may be called concurrently.
type hotHistories struct {
	most, mostTogether int         // bytes; negative: without a bound
	ids                text.IDForm // in which the messages of the histories have ids of people

	mu     sync.Mutex
	bytes  int
	byRef  map[session.Ref]*hotSession
	byTree map[session.Key]*hotSession // one of each tree, by the top-level session
	// Those that are kept, and how many: oldest was not used for the longest.
	oldest, newest *hotSession
	kept           int
}

// A hotSession is a session whose history is kept, or under way in a turn.
type hotSession struct {
	root    session.Key
	ref     session.Ref
	history history
	kept    bool // false while a turn has the history

	next, before *hotSession // of the same tree
	newer, older *hotSession // that are kept
}

// take returns the history of a session, or the zero history if there is none, and what the caller
// needs to give it back. An earlier caller cannot give its own back any more.
func (c *hotHistories) take(root session.Key, ref session.Ref) (history, *hotSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var h history
	if s := c.byRef[ref]; s != nil {
		h = s.history
		c.remove(s)
	}
	s := &hotSession{root: root, ref: ref, next: c.byTree[root]}
	if s.next != nil {
		s.next.before = s
	}
	few.Put(&c.byTree, root, s)
	few.Put(&c.byRef, ref, s)
	return h, s
}

// give gives a history back that was taken, unless it was dropped meanwhile. What has no room is
// not kept: a history that is over its bound, and then those that were not used for the longest.
func (c *hotHistories) give(s *hotSession, h history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRef[s.ref] != s || s.kept {
		return
	}
	size := h.size()
	if c.most >= 0 && size > c.most || c.mostTogether >= 0 && size > c.mostTogether {
		c.remove(s)
		return
	}
	s.history = h
	c.pushNewest(s)
	c.bytes += size
	for c.mostTogether >= 0 && c.bytes > c.mostTogether {
		c.remove(c.oldest)
	}
}

// drop drops the histories of a session, or of a whole tree if the session is the zero Key.
func (c *hotHistories) drop(root, of session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := c.byTree[root]; s != nil; {
		following := s.next
		if of.IsZero() || s.ref.Key == of {
			c.remove(s)
		}
		s = following
	}
}

// pushNewest keeps a session as the one that was used last. It has its neighbours in it, since a
// list of package container/list would take an allocation for each turn. The caller holds the lock.
func (c *hotHistories) pushNewest(s *hotSession) {
	s.kept, s.older = true, c.newest
	if c.kept++; c.newest == nil {
		c.oldest = s
	} else {
		c.newest.newer = s
	}
	c.newest = s
}

// unlink undoes pushNewest. The caller holds the lock.
func (c *hotHistories) unlink(s *hotSession) {
	c.kept--
	if s.older == nil {
		c.oldest = s.newer
	} else {
		s.older.newer = s.newer
	}
	if s.newer == nil {
		c.newest = s.older
	} else {
		s.newer.older = s.older
	}
	s.kept, s.newer, s.older = false, nil, nil
}

// remove forgets a session. The caller holds the lock.
func (c *hotHistories) remove(s *hotSession) {
	if s.kept {
		c.unlink(s)
		c.bytes -= s.history.size()
	}
	delete(c.byRef, s.ref)
	if s.next != nil {
		s.next.before = s.before
	}
	switch {
	case s.before != nil:
		s.before.next = s.next
	case s.next != nil:
		c.byTree[s.root] = s.next
	default:
		delete(c.byTree, s.root)
	}
}

// asStored returns a message as it is read from a transcript that it was written to. It shares no
// bytes with m, whose sender may use them again. A message that no transcript takes is returned as
// it is.
func asStored(m Message) Message {
	m.Time = m.Time.Round(0) // without a reading of the monotonic clock
	plain := m.Time.Location() == time.UTC && len(m.Parts) == 0
	for _, text := range [...]string{
		m.ID, string(m.Role), m.Text, m.ToolCallID, m.Model, m.From.ID, m.From.Name,
	} {
		plain = plain && utf8.ValidString(text)
	}
	for _, c := range m.ToolCalls {
		plain = plain && utf8.ValidString(c.ID) && utf8.ValidString(c.Name)
	}
	if plain {
		m.Raw, m.ToolCalls = bytes.Clone(m.Raw), slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Args = bytes.Clone(m.ToolCalls[i].Args)
		}
		return m
	}
	line, err := m.AppendJSON(nil)
	if err != nil {
		return m
	}
	var stored Message
	if err := json.Unmarshal(line, &stored); err != nil {
		return m
	}
	return stored
}

// Transcript returns the path at which a person finds the transcript of a session, archived or not,
// by its key and its session id. It is empty where the Store has no paths, as in memory.
func (rt *Runtime) Transcript(ref session.Ref) (path string) {
	err := attempt(func() error { path = rt.cfg().Store.Transcripts.Locate(ref); return nil })
	if err != nil {
		rt.log.Warn("offshoot: the path of a transcript is not known", "session", ref.Key.String(),
			"error", rt.redact(err).Error())
	}
	return path
}

// mend has the store put the damaged lines of a transcript aside, and logs that. A store that
// cannot do that returns the error of the damage again. The error tells the file, which may have
// been put aside as a whole afterwards.
func mend(
	ctx context.Context, store session.Transcripts, log *slog.Logger, ref session.Ref, damage error,
) {
	m, ok := store.(session.Mender)
	if !ok {
		return
	}
	path := store.Locate(ref)
	if c, ok := errors.AsType[*session.CorruptError](damage); ok && c.File != "" {
		path = c.File
	}
	done, err := m.Mend(ctx, ref)
	if err != nil {
		log.Error("offshoot: a damaged transcript cannot be mended", "session", ref.Key.String(),
			"transcript", path, "error", err.Error())
	}
	if len(done.Aside) > 0 {
		what := "offshoot: damaged lines of a transcript were put aside"
		if store.Locate(ref) != path {
			what = "offshoot: a damaged transcript was put aside as a whole"
		}
		log.Error(what, "session", ref.Key.String(), "transcript", path,
			"bytes", done.Bytes, "aside", done.Aside)
	}
}

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
	short := lines
	for i, m := range lines {
		data := longLine(m)
		if data == nil {
			continue
		}
		file, err := r.put(ctx, data)
		switch {
		case err == nil:
			if &short[0] == &lines[0] {
				short = slices.Clone(lines)
			}
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
		Copied: m.Copied,
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
	if head.Copied { // the file is as the session wrote it that the line is copied from
		m = copied(m)
	}
	return m, nil
}

// Pauses between attempts at a store that fails.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// retry calls f until it succeeds, returns a permanent error, or ctx ends, each time once the
// process may act for the tree. What f asks of a store, it asks with attempt. A shutdown that
// cancels the turn ends the pause before the next try, which is the last one.
func (r *turnRecord) retry(ctx context.Context, f func() error) error {
	ended, last := false, false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.mayAct(ctx)
		if err == nil {
			err = f()
		}
		if err == nil || permanent(err) || ctx.Err() != nil || last {
			return err
		}
		if pause == firstPause {
			r.logFailure(err)
		}
		var life <-chan struct{}
		if !ended {
			life = r.life.Done()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		case <-life:
			ended = true
			cause := context.Cause(r.life) //nolint:contextcheck // the turn's, not the call's
			last = errors.Is(cause, spawn.ErrShutdown)
		}
	}
}

// permanent reports whether an error of a store stays however often the call is repeated, or the
// turn is not that of this process any more. What a store panics with says nothing of that.
func permanent(err error) bool {
	if _, panicked := errors.AsType[*spawn.PanicError](err); panicked {
		return false
	}
	return session.IsPermanent(err) || errors.Is(err, spawn.ErrStale)
}
