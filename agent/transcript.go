package agent

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/session"
)

// A history is the conversation of a transcript up to a position, as a turn is given it.
type history struct {
	end session.Pos
	// messages may have room behind them. A slot of the array is written once: what was given to a
	// Runner stays as it is. Only the record that has the history writes there.
	messages []Message
	bytes    int // of what the messages hold, their array not included
	// note is the compaction that the first of the messages tells of. Zero: there is none.
	note Message
	// measured is how many messages there were right after it: the usage of those before says
	// nothing of what a model is shown now.
	measured int
}

// add appends messages behind those that there are.
func (h *history) add(messages ...Message) {
	for i := range messages {
		h.bytes += heldBy(&messages[i])
	}
	h.messages = append(h.messages, messages...)
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
	most, mostTogether int // bytes; negative: without a bound

	mu       sync.Mutex
	bytes    int
	byTree   map[session.Key]map[session.Ref]*hotSession // by the top-level session
	lastUsed list.List                                   // of *hotSession, those that are kept
}

// A hotSession is a session whose history is kept, or under way in a turn.
type hotSession struct {
	root    session.Key
	ref     session.Ref
	history history
	kept    *list.Element // nil while a turn has the history
}

// take returns the history of a session, or the zero history if there is none, and what the caller
// needs to give it back. An earlier caller cannot give its own back any more.
func (c *hotHistories) take(root session.Key, ref session.Ref) (history, *hotSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var h history
	if s := c.byTree[root][ref]; s != nil {
		h = s.history
		c.remove(s)
	}
	s := &hotSession{root: root, ref: ref}
	if c.byTree == nil {
		c.byTree = make(map[session.Key]map[session.Ref]*hotSession)
	}
	if c.byTree[root] == nil {
		c.byTree[root] = make(map[session.Ref]*hotSession)
	}
	c.byTree[root][ref] = s
	return h, s
}

// give gives a history back that was taken, unless it was dropped meanwhile. What has no room is
// not kept: a history that is over its bound, and then those that were not used for the longest.
func (c *hotHistories) give(s *hotSession, h history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTree[s.root][s.ref] != s || s.kept != nil {
		return
	}
	size := h.size()
	if c.most >= 0 && size > c.most || c.mostTogether >= 0 && size > c.mostTogether {
		c.remove(s)
		return
	}
	s.history, s.kept = h, c.lastUsed.PushBack(s)
	c.bytes += size
	for c.mostTogether >= 0 && c.bytes > c.mostTogether {
		c.remove(c.lastUsed.Front().Value.(*hotSession)) //nolint:forcetypeassert // it has no other
	}
}

// drop drops the histories of a session, or of a whole tree if the session is the zero Key.
func (c *hotHistories) drop(root, of session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, s := range c.byTree[root] {
		if of.IsZero() || ref.Key == of {
			c.remove(s)
		}
	}
}

// remove forgets a session. The caller holds the lock.
func (c *hotHistories) remove(s *hotSession) {
	if s.kept != nil {
		c.lastUsed.Remove(s.kept)
		c.bytes -= s.history.size()
	}
	if delete(c.byTree[s.root], s.ref); len(c.byTree[s.root]) == 0 {
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
