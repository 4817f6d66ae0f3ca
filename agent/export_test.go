package agent

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// WaitOverText is what a session is told whose wait is over.
var WaitOverText = waitOverText

// SessionToolNames are the names of the session tools.
var SessionToolNames = sessionToolNames

// BindSession binds a conversation to a session, and nothing else.
func BindSession(
	ctx context.Context, rt *Runtime, root, key session.Key, route session.Route,
) error {
	return rt.sup.Bind(ctx, root, key, route)
}

// PostBound posts a message of a conversation to the session that it is bound to, and waits.
func PostBound(
	ctx context.Context, rt *Runtime, root, key session.Key, route session.Route, text string,
) (spawn.Reply, error) {
	return rt.sup.PostAndWait(ctx, root, key, spawn.Incoming{
		Text: text, Route: route, Thread: true,
	})
}

// SpawnParams returns every parameter that sessions_spawn knows, those included that it refuses,
// and some of them as they are written with underscores.
func SpawnParams() map[string]bool {
	params := make(map[string]bool)
	for _, list := range [...][]string{spawnParams, deliveryParams} {
		for _, name := range list {
			params[name] = true
		}
	}
	for name := range maps.Keys(keptParams) {
		params[name] = true
	}
	for _, name := range []string{
		"agent_id", "attach_as", "task_name", "thread_id", "reply_to", "resume_session_id",
		"light_context",
	} {
		params[name] = true
	}
	return params
}

// SafePage returns the safe view of a line.
func SafePage(line session.Line) HistoryPage {
	var v historyView
	v.add(line)
	return v.page()
}

// A Hot is what a Runtime keeps of conversations.
type Hot struct{ c hotHistories }

// NewHot returns a Hot with these bounds.
func NewHot(most, together int) *Hot {
	return &Hot{hotHistories{most: most, mostTogether: together}}
}

// Take takes the history of a session. It returns its size, and what gives it back with a message
// more and reports whether that is kept.
func (h *Hot) Take(root session.Key, ref session.Ref) (size int, give func(Message) bool) {
	had, lease := h.c.take(root, ref)
	return had.size(), func(m Message) bool {
		own := had
		own.messages = slices.Clip(own.messages)
		own.add(m)
		before := lease.kept
		h.c.give(lease, own)
		return !before && lease.kept
	}
}

// Drop drops a tree.
func (h *Hot) Drop(root session.Key) { h.c.drop(root, session.Key{}) }

// Check returns how many bytes are kept, and fails if they were not counted.
func (h *Hot) Check(t testing.TB) (bytes int) {
	t.Helper()
	kept, known := 0, 0
	for root, s := range h.c.byTree {
		for ; s != nil; s = s.next {
			if known++; s.root != root || h.c.byRef[s.ref] != s {
				t.Errorf("%q of %q is not found, or is of another tree", s.ref.Key, root)
			}
			if s.kept {
				kept++
				bytes += s.history.size()
			}
		}
	}
	if known != len(h.c.byRef) {
		t.Errorf("the trees have %d sessions of %d", known, len(h.c.byRef))
	}
	if bytes != h.c.bytes || kept != h.c.kept {
		t.Errorf("%d bytes of %d are counted as %d of %d", bytes, kept, h.c.bytes,
			h.c.kept)
	}
	return bytes
}

// ReadConversation returns the conversation that a turn would be given that reads these lines.
func ReadConversation(key session.Key, lines []session.Line) []Message {
	view, _, _ := readConversation(committed(lines, math.MaxUint64))
	return tellSenders(key, text.IDForm{}, view)
}

// Compact compacts the conversation of a turn.
func Compact(ctx context.Context, t *Turn) error { return t.compact(ctx) }

// View returns the conversation of a turn as it is now.
func View(t *Turn) []Message {
	messages, _ := t.log.since(t.Messages)
	return messages
}

// RetryPause returns the pause of a Loop after so many tries.
func RetryPause(tries int, random float64) time.Duration { return retryPause(tries, random) }

// Estimate returns what a Loop expects a call to use.
func Estimate(req *ModelRequest) Usage { return estimate(req) }

// SessionIDOf returns the session id of a turn.
func SessionIDOf(t *Turn) string { return t.spawn.SessionID }

// ForkPoint returns how far a fork reads a transcript that ends at end, of whose newest calls, on
// a line, so many are open. The position before is the last one where none was.
func ForkPoint(end, line, before session.Pos, open int) session.Pos {
	calls := make([]openCall, open)
	return forkPoint(end, &openCalls{line: line, before: before, all: calls, still: calls})
}

// ForkCut returns the lines that a fork copies, the note of a compaction first.
func ForkCut(lines []session.Line, through session.Pos) (kept []session.Line) {
	cut := newForkCut(through)
	for _, line := range lines {
		cut.see(line)
	}
	for i := len(cut.notes) - 1; i >= 0 && len(kept) == 0; i-- {
		kept = append(kept, session.Line{Pos: cut.notes[i].pos, Message: cut.notes[i].note})
	}
	for _, line := range lines {
		if cut.takes(line) {
			kept = append(kept, line)
		}
	}
	return kept
}

// Outlasting returns the context under which a turn writes, and its end.
func Outlasting(t *Turn, ctx context.Context) (context.Context, func()) {
	l := t.outlasting(ctx)
	return l, l.end
}

// KeepInputs returns the context under which a turn writes what it begins with, and its end.
func KeepInputs(t *Turn, life context.Context) (context.Context, func()) {
	l := t.keepInputs(life)
	return l, l.end
}
