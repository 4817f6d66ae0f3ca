package storecopytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A history makes random contents of a Store. What it does depends on its seed alone.
type history struct {
	t     testing.TB
	r     *rand.Rand
	store *session.Store

	roots []session.Key
	refs  []session.Ref
	last  map[session.Key]session.Seq
	end   map[session.Ref]session.Pos
	gone  map[session.Ref]bool // archived
	runs  int
}

// Begun is when histories begin.
var Begun = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// Fill does so many random things to a Store, which is empty: it writes logs and transcripts, also
// by the importers of package session, keeps files, and archives. What it does depends on the seed,
// and on which importers there are.
func Fill(t testing.TB, store *session.Store, seed uint64, steps int) {
	t.Helper()
	h := &history{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), store: store, //nolint:gosec // any will do
		last: map[session.Key]session.Seq{}, end: map[session.Ref]session.Pos{},
		gone: map[session.Ref]bool{},
	}
	h.roots = []session.Key{
		session.BindingsRoot(), session.DeliveredRoot(), session.RepairsRoot(),
		session.Must(session.MainKey("main")), session.GlobalKey(),
		session.Must(session.DirectKey("main", "term", "zoë")),
		session.Must(session.GroupKey("ops", "chat", "a&b")),
	}
	for range steps {
		switch h.r.IntN(10) {
		case 0, 1, 2, 3:
			h.append()
		case 4, 5, 6, 7:
			h.write()
		case 8:
			h.put()
		default:
			h.archive()
		}
	}
}

func (h *history) id() string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", h.r.Uint32(), h.r.Uint64()>>16)
}

// key returns one of a root, or that of a session which is not known.
func (h *history) key() session.Key {
	if h.r.IntN(2) == 0 {
		return h.roots[3+h.r.IntN(len(h.roots)-3)]
	}
	return session.Must(session.Parse("agent:ops:subagent:" + h.id()))
}

// append appends a batch to a log, or begins one at any sequence.
func (h *history) append() {
	root := h.roots[h.r.IntN(len(h.roots))]
	b := session.Batch{Reset: h.r.IntN(6) == 0}
	if h.r.IntN(4) > 0 {
		h.runs++
		b.ID = session.BatchID(fmt.Sprintf("batch %d of %s", h.runs, root))
	}
	if h.r.IntN(3) == 0 {
		b.Due = Begun.Add(time.Duration(h.r.Int64N(1e18)))
	}
	for range 1 + h.r.IntN(3) {
		text := fmt.Sprintf(`{"n":%d,"text":%q}`, h.r.Uint32(), strings.Repeat("é<&", h.r.IntN(50)))
		if root.IsValid() && h.r.IntN(2) == 0 {
			key := session.Must(session.Parse("agent:main:subagent:" + h.id()))
			b.Members = append(b.Members, key)
			text = fmt.Sprintf(`{"run":{"key":%q,"sessionId":%q}}`, key, h.id())
		}
		b.Entries = append(b.Entries, session.Entry{Payload: session.Raw(text)})
	}
	var err error
	j, ok := h.store.Journal.(session.JournalImporter)
	if ok && h.last[root] == 0 && h.r.IntN(2) == 0 {
		h.last[root], err = j.Import(h.t.Context(), root, 0, session.Seq(1+h.r.IntN(1000)), b)
	} else {
		h.last[root], err = h.store.Journal.Append(h.t.Context(), root, h.last[root], b)
	}
	must(h.t, err)
}

// ref returns a transcript, mostly one that is known.
func (h *history) ref() session.Ref {
	if len(h.refs) == 0 || h.r.IntN(4) == 0 {
		h.refs = append(h.refs, session.Ref{Key: h.key(), SessionID: h.id()})
	}
	return h.refs[h.r.IntN(len(h.refs))]
}

func (h *history) message() session.Message {
	at := Begun.Add(time.Duration(h.r.IntN(1e6)) * time.Second)
	switch h.r.IntN(8) {
	case 0:
		return session.Fence(session.Pos(h.r.IntN(100)), at)
	case 1:
		return session.Compaction(h.id(), "so far", session.Compacted{
			Through: session.Pos(h.r.IntN(100)), Messages: 3,
		}, at)
	case 2:
		return session.Message{
			Role: session.MessageAssistant, Time: at, Raw: []byte{0xff, 'x'},
			ToolCalls: []session.ToolCall{{ID: h.id(), Name: "weather", Args: []byte(`{"a": 1}`)}},
		}
	}
	return session.Message{
		Role: session.MessageUser, Time: at, Text: strings.Repeat("hé\n ", h.r.IntN(100)),
	}
}

// write writes lines, or begins a transcript at any positions.
func (h *history) write() {
	ref := h.ref()
	if h.gone[ref] {
		return
	}
	var messages []session.Message
	for range 1 + h.r.IntN(4) {
		messages = append(messages, h.message())
	}
	var err error
	x, ok := h.store.Transcripts.(session.TranscriptsImporter)
	if !ok || h.end[ref] > 0 || h.r.IntN(2) == 0 {
		h.end[ref], err = h.store.Transcripts.Append(h.t.Context(), ref, h.end[ref], messages...)
		must(h.t, err)
		return
	}
	var lines []session.Line
	pos := session.Pos(0)
	for _, m := range messages {
		pos += session.Pos(1 + h.r.IntN(1000))
		lines = append(lines, session.Line{Pos: pos, Message: m})
	}
	h.end[ref], err = x.Import(h.t.Context(), ref, 0, lines...)
	must(h.t, err)
	if h.end[ref] != pos {
		h.t.Fatalf("what was imported up to %d ends at %d", pos, h.end[ref])
	}
}

// put keeps a file, also for a transcript without lines.
func (h *history) put() {
	ref := h.ref()
	if h.gone[ref] || h.end[ref] == 0 && !slices.Contains(h.roots, ref.Key) {
		return // a directory finds the files of sessions that it knows
	}
	size := h.r.IntN(1000)
	if h.r.IntN(10) == 0 {
		size = 3 << 20
	}
	if h.end[ref] == 0 { // a log names the session
		h.runs++
		var err error
		h.last[ref.Key], err = h.store.Journal.Append(h.t.Context(), ref.Key, h.last[ref.Key],
			session.Batch{Entries: []session.Entry{{Payload: session.Raw(`"begun"`)}}})
		must(h.t, err)
	}
	_, err := h.store.Files.Put(h.t.Context(), ref,
		strings.NewReader(strings.Repeat(fmt.Sprint(h.r.IntN(5)), size)), session.File{})
	must(h.t, err)
}

// archive archives a transcript with its files, or takes one into use again.
func (h *history) archive() {
	ref := h.ref()
	if h.end[ref] == 0 {
		return
	}
	ctx := h.t.Context()
	if h.gone[ref] {
		must(h.t, h.store.Transcripts.Restore(ctx, ref))
		must(h.t, h.store.Files.Restore(ctx, ref))
		delete(h.gone, ref)
		return
	}
	h.gone[ref] = true
	at := Begun.Add(time.Duration(h.r.IntN(1e6)) * time.Millisecond)
	must(h.t, h.store.Files.Archive(ctx, ref, at))
	_, err := h.store.Transcripts.Archive(ctx, ref, at)
	must(h.t, err)
}

// Contents returns all that a Store has, but for its files and the marks of copies, as text.
func Contents(t testing.TB, s *session.Store) string {
	t.Helper()
	ctx := t.Context()
	var all []string
	for h, err := range s.Journal.Roots(ctx, session.RootQuery{}) {
		must(t, err)
		if h.Root == session.CopiesRoot() {
			continue
		}
		text := []string{fmt.Sprintf("log %s %d %v", h.Root, h.Last, h.Due)}
		for e, err := range s.Journal.Read(ctx, h.Root, 0) {
			must(t, err)
			payload, err := e.Payload.AppendJSON(nil)
			must(t, err)
			text = append(text, fmt.Sprintf("%d %q %s", e.Seq, e.Batch, payload))
		}
		all = append(all, strings.Join(text, "\n\t"))
	}
	refs := map[session.Ref]string{}
	for ref, err := range s.Transcripts.(session.TranscriptsLister).Refs(ctx) {
		must(t, err)
		refs[ref] = "in use"
	}
	for a, err := range s.Transcripts.Archives(ctx, time.Time{}) {
		must(t, err)
		refs[a.Ref] = a.At.String()
	}
	for ref, at := range refs {
		text := []string{fmt.Sprintf("transcript %s %s %s", ref.Key, ref.SessionID, at)}
		for l, err := range s.Transcripts.Read(ctx, ref, session.LineQuery{Archived: true}) {
			must(t, err)
			line, err := l.Message.AppendJSON(nil)
			must(t, err)
			text = append(text, fmt.Sprintf("%d %s", l.Pos, line))
		}
		all = append(all, strings.Join(text, "\n\t"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// must ends the test unless err is nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
