package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// turnRecord writes the transcript of one turn: first what is new, then what the Runner records, at
// last what it returned. The journal names the position that the turn committed; what lies beyond
// it in the transcript is an interrupted turn, and the next one fences it off.
type turnRecord struct {
	store   session.Transcripts
	carrier session.Carrier // that of store, if batches of the journal carry its lines; else nil
	files   session.Files   // nil: none
	log     *slog.Logger
	ref     session.Ref
	root    session.Key     // of its tree
	life    context.Context //nolint:containedctx // of the turn, which may end before that of a call
	turn    *spawn.TurnInput

	sound sync.Map // of session.File: those that this turn has put or read

	hot           *hotHistories
	mu            sync.Mutex
	lease         *hotSession // of the history; nil if that is not what a read would give
	history       history     // up to the end
	given         []Message   // the part of history that the Runner has
	told          int         // how many messages of history that is, as compactions left it
	first         int         // the index in history of the first message that is new in the turn
	compacted     []Message   // written since the turn began, and not in history any more
	conversation  conversation
	recorded      []Message // by the Runner
	runnerStarted bool
	closed        bool // the turn is over

	// The turn is told how far the transcript is a complete conversation, with which inputs. taking
	// counts what is consumed, or may be, and is not in it yet: what the turn began with, and calls
	// of Turn.Inbox.
	through int // the ordinal of the last input that was written; guarded by mu
	taking  atomic.Int32

	// open are the calls that wait for their results. It is apart from mu, which is held while a
	// store takes its time: a call need not wait for the result of another.
	open atomic.Pointer[openCalls] // nil: there was none so far
	// atRest is the last position at which no call was open, while open is nil; guarded by mu.
	atRest session.Pos
}

// maxBeginAttempts is how often a turn begins its record at most. It begins again when a former
// owner has written in between, and when the history that was kept is not that of the transcript.
const maxBeginAttempts = 4

// beginRecord writes what is new into the transcript and returns its record and the conversation,
// which ends with what is new. Tool calls that the turn before left without a result get a failed
// one first, so that a provider accepts what follows. A former owner of the session may still write
// until it learns that it is one: the journal has given the turn to this owner, so what the other
// writes meanwhile is fenced off. Later in the turn a conflict means that this process is the
// former owner.
//
// The first attempt uses the history that the turn before has left in hot, if that ends where the
// journal says. What is new is appended there, which fails if the transcript ends elsewhere. The
// other attempts read the transcript. Life is the context of the turn: when it ends, no attempt
// follows.
func beginRecord(
	ctx, life context.Context, store *session.Store, carrier session.Carrier, hot *hotHistories,
	log *slog.Logger, st *spawn.TurnInput, extra runExtra, fresh []Message,
) (r *turnRecord, messages []Message, err error) {
	for n := range maxBeginAttempts {
		r = &turnRecord{
			store: store.Transcripts, files: store.Files, log: log, life: life, hot: hot,
			ref:  session.Ref{Key: st.Session.Key, SessionID: st.SessionID},
			root: st.Session.Root, carrier: carrier,
			turn: st, through: st.First - 1,
		}
		r.taking.Store(1)
		var kept history
		kept, r.lease = hot.take(st.Session.Root, r.ref)
		err = nil
		if st.Pos == 0 { // no turn has come so far that its lines count
			err = r.bringAttachments(ctx, st.Session.Parent, extra.Attached)
		}
		switch begin := extra.Fork; {
		case err != nil:
		case !begin.IsZero() && st.Pos == 0:
			from := session.Ref{Key: st.Session.Parent, SessionID: begin.SessionID}
			err = r.copyFork(ctx, from, begin.Through)
		case n == 0 && st.Run.ID != "" && st.N == 1: // a new session
		case kept.end > 0 && kept.end == st.Pos:
			r.history = kept
		default:
			err = r.read(ctx, st.Pos)
		}
		if err == nil {
			err = r.bring(ctx, r.formerRefs(st.Former), fresh, nil)
		}
		if err == nil {
			err = r.begin(ctx, st.Inputs, fresh)
		}
		corrupt := errors.Is(err, session.ErrCorrupt)
		if corrupt && st.MayAct(ctx) == nil {
			mend(ctx, r.store, log, r.ref, err)
		}
		if !corrupt && !errors.Is(err, session.ErrConflict) {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return r, r.given, nil
}

// mayAct waits until the process may act for the tree, which another one may have.
func (r *turnRecord) mayAct(ctx context.Context) error { return r.turn.MayAct(ctx) }

// carrierOf returns the Transcripts of a store if batches of its Journal carry their lines, else
// nil.
func carrierOf(store *session.Store) session.Carrier {
	c, ok := store.Transcripts.(session.Carrier)
	if !ok {
		return nil
	}
	err := attempt(func() error { ok = c.CarriedBy(store.Journal); return nil })
	if err != nil || !ok {
		return nil
	}
	return c
}

// formerRefs returns the transcripts that the session had before resets. The messages that are new
// may have been posted before one, and their bytes are where they were put.
func (r *turnRecord) formerRefs(ids []string) []session.Ref {
	refs := make([]session.Ref, len(ids))
	for i, id := range ids {
		refs[i] = session.Ref{Key: r.ref.Key, SessionID: id}
	}
	return refs
}

// begin writes what is new, most of which the inputs say. With nothing to write it looks whether
// the transcript ends where the history does.
func (r *turnRecord) begin(
	ctx context.Context, inputs []spawn.Input, fresh []Message,
) error {
	written, err := r.write(ctx, true, fresh...)
	r.first = len(r.history.messages) - len(fresh)
	if err == nil && len(written) == 0 {
		err = r.retry(ctx, func() error {
			return attemptOn(r.store, func() error {
				_, err := r.store.Append(ctx, r.ref, r.history.end)
				return err
			})
		})
	}
	r.given = r.messages()
	r.told = len(r.given)
	if err == nil {
		r.took(inputs)
	}
	return err
}

// took notes that the transcript has the inputs that the turn began with, or that a call of
// Turn.Inbox has taken.
func (r *turnRecord) took(inputs []spawn.Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taking.Add(-1)
	for _, in := range inputs {
		r.through = max(r.through, in.Ord)
	}
	r.tellReached()
}

// tellReached tells how far the transcript is a complete conversation, if it is one now. The caller
// holds the lock.
func (r *turnRecord) tellReached() {
	if !r.closed && r.taking.Load() == 0 && r.conversation.isClosed() {
		r.turn.Reached(r.history.end, r.through)
	}
}

// addHistory adds what was written or read to the history, as the Runner is told it.
func (r *turnRecord) addHistory(messages []Message) {
	r.history.add(tellSenders(r.ref.Key, r.hot.ids, messages)...)
}

// messages returns the conversation so far. The receiver must not change it.
func (r *turnRecord) messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.history.messages)
}

// A sinceInfo says what the messages are that [turnRecord.since] returns.
type sinceInfo struct {
	whole     bool // they are the conversation, and not messages of the Runner's own
	compacted bool // the first one tells of a compaction
	first     int  // the index of the first one that is new in the turn, if whole
	measured  int  // see history, if whole
}

// since returns messages and, behind them, what was written since the turn began. If they are what
// the turn was given, it returns the whole conversation, and does not copy it. The receiver must
// not change them.
func (r *turnRecord) since(messages []Message) ([]Message, sinceInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isGiven(messages) {
		return slices.Concat(messages, r.compacted, r.history.messages[r.told:]), sinceInfo{}
	}
	return slices.Clip(r.history.messages), sinceInfo{
		whole: true, compacted: r.history.note != nil, first: r.first,
		measured: r.history.measured,
	}
}

// give notes that the Runner has these messages of the conversation.
func (r *turnRecord) give(messages []Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = messages
}

// isGiven reports whether messages are what the turn was given. Only the beginning of a turn
// changes that.
func (r *turnRecord) isGiven(messages []Message) bool {
	n := len(r.given)
	return n == len(messages) && (n == 0 || &messages[0] == &r.given[0])
}

// read reads the conversation of which the journal has committed so much.
//
// The journal may say that more was committed than the transcript holds. Then an editor or a disk
// has lost lines. The session goes on from what there is, up to the last place at which no tool
// call waits for its result, and the loss is logged. Notes take the place of the lines, so that the
// transcript reaches the position again: otherwise what follows, also what an interrupted turn
// leaves, would count as committed.
//
// The transcript may also hold more than the journal knows, after an interrupted turn or after the
// journal was repaired. Then a fence discards the rest.
func (r *turnRecord) read(ctx context.Context, to session.Pos) error {
	lines, err := r.lastLines(ctx, shortRead)
	if err == nil && !isEnough(lines, to) {
		lines, err = r.lastLines(ctx, 0)
	}
	if err != nil {
		return err
	}
	if r.history.end = 0; len(lines) > 0 {
		r.history.end = lines[len(lines)-1].Pos
	}
	kept := viewOf(lines, to)
	switch {
	case r.history.end < to:
		said := dropOpenCalls(committed(lines, to))
		err = r.fillGap(ctx, said, to)
		if kept = nil; len(said) > 0 {
			kept = viewOf(lines, said[len(said)-1].Pos)
		}
	case r.history.end > to:
		err = r.append(ctx, session.Fence(to, time.Now()))
	}
	if err != nil {
		return err
	}
	for i, line := range kept {
		if kept[i], err = r.whole(ctx, line); err != nil {
			return err
		}
	}
	if len(kept) > 0 && kept[0].Message.IsCompaction() {
		r.history.compact(kept[0].Message)
		kept = kept[1:]
	}
	view, c, closed := readConversation(kept)
	r.addHistory(view)
	if r.conversation = c; !closed {
		r.lease = nil
	}
	return nil
}

// shortRead is how many lines at the end of a transcript are read first: a conversation that was
// compacted seldom has more since then.
const shortRead = 1024

// isEnough reports whether lines, which are the last ones of a transcript, have all that a model is
// shown of it up to a position.
func isEnough(lines []session.Line, to session.Pos) bool {
	if len(lines) < shortRead {
		return true
	}
	kept := viewOf(lines, to)
	return lines[len(lines)-1].Pos >= to && len(kept) > 0 && kept[0].Message.IsCompaction() &&
		lines[0].Pos <= kept[0].Message.Compacted.Through
}

// lastLines returns the last n lines of the transcript, or all of them if n is 0.
func (r *turnRecord) lastLines(ctx context.Context, n int) (lines []session.Line, err error) {
	err = r.retry(ctx, func() error {
		return attemptOn(r.store, func() error {
			lines = nil
			for line, err := range r.store.Read(ctx, r.ref, session.LineQuery{Last: n}) {
				if err != nil {
					return err
				}
				lines = append(lines, line)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("agent: reading the transcript of %q: %w", r.ref.Key, err)
	}
	return lines, nil
}

// committed returns the conversation up to a position. What a note beyond it discards was lost, see
// fillGap, or lies beyond it, too.
func committed(lines []session.Line, end session.Pos) []session.Line {
	return collect(session.Committed(upTo(lines, end)))
}

// viewOf returns what a model is shown of a conversation up to a position: see [session.View].
func viewOf(lines []session.Line, end session.Pos) []session.Line {
	return collect(session.View(upTo(lines, end)))
}

// upTo yields the lines up to a position, and the notes behind it that may discard some of them.
func upTo(lines []session.Line, end session.Pos) iter.Seq2[session.Line, error] {
	return func(yield func(session.Line, error) bool) {
		for _, line := range lines {
			note := line.Message.Role == session.MessageNote && !line.Message.IsCompaction()
			if (line.Pos <= end || note) && !yield(line, nil) {
				return
			}
		}
	}
}

// collect returns lines that have been read before, so that there is no error among them.
func collect(lines iter.Seq2[session.Line, error]) (kept []session.Line) {
	for line := range lines { //nolint:errcheck // they have been read
		kept = append(kept, line)
	}
	return kept
}

// dropOpenCalls returns the lines before the last tool calls unless each of them has its result.
func dropOpenCalls(lines []session.Line) []session.Line {
	results := make(map[string]bool)
	for i, line := range slices.Backward(lines) {
		if line.Message.Role == session.MessageTool {
			results[line.Message.ToolCallID] = true
		}
		for _, c := range line.Message.ToolCalls {
			if !results[c.ID] {
				return lines[:i]
			}
		}
		if len(line.Message.ToolCalls) > 0 {
			break
		}
	}
	return lines
}

// The notes that take the place of lost lines: the bytes of one, how many are written together,
// and how many there are at most, where they are long, and where a position counts lines.
const (
	maxGapNote  = 1 << 20
	maxGapBatch = 1 << 10
	maxGapBytes = 1 << 36
	maxGapLines = 1 << 22
)

// gapNotes say what to write next where lines were lost. A store counts bytes or lines, or gives
// positions of its own: how far the last notes have led says which. A long note fills the gap of a
// store that counts bytes; where a note of any length leads as far, many short ones do.
type gapNotes struct {
	to         session.Pos
	pad, count int  // the spaces of a note, and how many notes; zero: one
	short      bool // a long note leads no further
}

// next takes what notes of a size have led to.
func (g *gapNotes) next(begin, end session.Pos, size int) error {
	if end >= g.to {
		return nil
	}
	gap, step := uint64(g.to-end), max(1, uint64(end-begin)/uint64(max(g.count, 1)))
	g.short = g.short || step < uint64(size)
	g.pad, g.count = int(min(gap, maxGapNote)), 1
	lines, most := gap/maxGapNote, uint64(maxGapBytes/maxGapNote)
	if g.short {
		lines, most = gap/step, maxGapLines
		g.pad, g.count = 0, int(min(lines+1, maxGapBatch))
	}
	if lines > most {
		return fmt.Errorf("it ends at %d, and %d is committed: %w", uint64(end), uint64(g.to),
			session.ErrCorrupt)
	}
	return nil
}

// fillGap appends notes behind the lines that are kept until the transcript reaches a position.
func (r *turnRecord) fillGap(ctx context.Context, kept []session.Line, to session.Pos) error {
	found, after := r.history.end, session.Pos(0)
	if n := len(kept); n > 0 {
		after = kept[n-1].Pos
	}
	notes := gapNotes{to: to}
	for r.history.end < to {
		note, begin := session.LostLines(after, time.Now()), r.history.end
		note.Text += strings.Repeat(" ", notes.pad)
		lines := slices.Repeat([]Message{note}, max(notes.count, 1))
		if err := r.append(ctx, lines...); err != nil {
			return err
		}
		if err := notes.next(begin, r.history.end, len(note.Text)); err != nil {
			return fmt.Errorf("agent: the transcript of %q: %w", r.ref.Key, err)
		}
	}
	r.log.Error("offshoot: a transcript has lost lines", "session", r.ref.Key.String(),
		"transcript", r.store.Locate(r.ref),
		"committed", uint64(to), "found", uint64(found), "kept", uint64(after))
	return nil
}

// write adds messages to the conversation. It returns what it appended to the transcript: what
// must wait for the result of a tool call comes with that result, and with fill set a call that has
// no result gets a failed one.
//
// An error that is a *spawn.InputError refuses a message that does not fit into the conversation,
// and nothing is written. After another error a message may have been written.
func (r *turnRecord) write(
	ctx context.Context, fill bool, messages ...Message,
) (lines []Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("agent: writing the transcript of %q: %w", r.ref.Key, spawn.ErrStale)
	}
	now := time.Now().UTC()
	var losses []string
	if len(messages) == 1 && r.conversation.passes(&messages[0]) {
		lines, err = r.writePassing(ctx, fill, timed(messages[0], now))
	} else {
		lines, losses, err = r.writeAccepted(ctx, fill, now, messages)
	}
	if err != nil && len(lines) == 0 {
		return nil, err
	}
	r.noteOpen(lines)
	for _, why := range losses {
		r.logLoss(why)
	}
	if r.runnerStarted {
		r.recorded = append(r.recorded, messages...)
	}
	if err == nil {
		r.tellReached()
	}
	return lines, err
}

// timed returns a message that has a time.
func timed(m Message, now time.Time) Message {
	if m.Time.IsZero() {
		m.Time = now
	}
	return m
}

// writePassing is write for a message that the conversation passes on as it is. What the store is
// given stands where the history has it, and is not copied: a turn takes 2 allocations less, and
// 1.1 KB (BenchmarkDeliver). The caller holds the lock.
func (r *turnRecord) writePassing(
	ctx context.Context, mayWait bool, m Message,
) (lines []Message, err error) {
	next := r.history.next()
	next[0] = asStored(m)
	lines = next
	if told := tellSenders(r.ref.Key, r.hot.ids, next); &told[0] != &next[0] {
		lines = slices.Clone(next)
		next[0] = told[0]
	}
	n, err := r.appendLines(ctx, mayWait, lines)
	r.history.take(n)
	return lines[:n], err
}

// writeAccepted is write for messages that the conversation puts into order. It also says why the
// provider's form of some was left out. The caller holds the lock.
func (r *turnRecord) writeAccepted(
	ctx context.Context, fill bool, now time.Time, messages []Message,
) (lines []Message, losses []string, err error) {
	take := func(limit int) ([]Message, error) {
		losses = nil
		for _, m := range messages {
			n, stored := len(r.conversation.queue), asStored(timed(m, now))
			if err := r.conversation.accept(stored); err != nil {
				return nil, err
			}
			if why := lossOf(stored, r.conversation.queue[n:]); why != "" {
				losses = append(losses, why)
			}
		}
		return r.conversation.takeAll(fill, now, limit), nil
	}
	before, first := r.conversation.clone(), r.history.end
	if lines, err = take(math.MaxInt); err != nil {
		r.conversation = before
		return nil, nil, err
	}
	n, err := r.appendLines(ctx, fill, lines)
	r.addHistory(lines[:n])
	if err != nil {
		r.conversation = before
		if r.history.end == first {
			return nil, nil, err
		}
		_, _ = take(n) // which were accepted before
	}
	return lines[:n], losses, err
}

// openCalls are the calls of one line.
type openCalls struct {
	line   session.Pos // zero: it is not known
	before session.Pos // the last position before it at which each call had its result
	all    []openCall
	still  []openCall // those of all that wait for their results
}

// noteOpen notes which calls are open after lines were appended. The position of a line is known
// that is the last one of what was appended. The caller holds the lock.
func (r *turnRecord) noteOpen(lines []Message) {
	before := r.open.Load()
	called := func(m Message) bool { return len(m.ToolCalls) > 0 }
	if before == nil && len(r.conversation.open) == 0 && !slices.ContainsFunc(lines, called) {
		r.atRest = r.history.end
		return
	}
	now := openCalls{before: r.atRest}
	if before != nil {
		now = *before
	}
	for i, m := range lines {
		if len(m.ToolCalls) > 0 {
			now = openCalls{before: now.before}
		}
		if len(m.ToolCalls) > 0 && i == len(lines)-1 {
			now.line, now.all = r.history.end, slices.Clone(r.conversation.open)
		}
	}
	now.still = slices.Clone(r.conversation.open)
	if len(now.still) == 0 {
		now.before = r.history.end
	}
	r.open.Store(&now)
}

// callID returns the CallID of the call of an id that waits for its result, or the zero CallID.
func (r *turnRecord) callID(id string) CallID {
	open := r.open.Load()
	if open == nil {
		return CallID{}
	}
	find := func(is func(c openCall) bool) int {
		return slices.IndexFunc(open.all, func(c openCall) bool {
			return is(c) && slices.Contains(open.still, c)
		})
	}
	i := find(func(c openCall) bool { return c.id == id })
	if i < 0 {
		i = find(func(c openCall) bool { return c.called == id })
	}
	if i < 0 {
		return CallID{}
	}
	return CallID{SessionID: r.ref.SessionID, Line: open.line, Index: i}
}

// append appends lines to the transcript.
func (r *turnRecord) append(ctx context.Context, lines ...Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.appendLines(ctx, false, lines)
	return err
}

// appendLines appends lines, and returns how many are in the transcript then. It tries again until
// the store takes them, so that a store that fails for a while costs time, not a turn or a message;
// see retry. Lines that may wait are durable with the next batch of the tree, if the store can do
// that. The caller holds the lock.
func (r *turnRecord) appendLines(
	ctx context.Context, mayWait bool, lines []Message,
) (n int, err error) {
	if len(lines) == 0 {
		return 0, nil
	}
	rest, err := r.shorten(ctx, lines)
	if err != nil {
		return 0, fmt.Errorf("agent: writing the transcript of %q: %w", r.ref.Key, err)
	}
	unknown := false // whether an append before has added anything
	err = r.retry(ctx, func() (err error) {
		rest, err = r.appendRest(ctx, mayWait, rest, unknown)
		unknown = unknown || err != nil && !permanent(err)
		return err
	})
	if err != nil {
		err = fmt.Errorf("agent: writing the transcript of %q: %w", r.ref.Key, err)
	}
	return len(lines) - len(rest), err
}

// appendRest appends lines, and returns those that are not in the transcript then. If it is unknown
// whether an attempt before has added them, a conflict may be with that one.
func (r *turnRecord) appendRest(
	ctx context.Context, mayWait bool, rest []Message, unknown bool,
) ([]Message, error) {
	for {
		err := r.appendOnce(ctx, mayWait, rest)
		if err == nil {
			return nil, nil
		}
		conflict := unknown && errors.Is(err, session.ErrConflict)
		if permanent(err) && !conflict {
			return rest, err
		}
		n, readErr := r.countAppended(ctx, rest)
		switch rest = rest[n:]; {
		case len(rest) == 0:
			return nil, nil
		case !conflict:
			return rest, err
		case readErr != nil:
			return rest, readErr
		case n == 0:
			return rest, err
		}
	}
}

// appendOnce appends lines behind the end of the history, and moves the end.
func (r *turnRecord) appendOnce(ctx context.Context, mayWait bool, lines []Message) error {
	return attemptOn(r.store, func() error {
		var end session.Pos
		var err error
		if after := r.history.end; mayWait && r.carrier != nil {
			end, err = r.carrier.AppendWith(ctx, r.root, r.ref, after, lines...)
		} else {
			end, err = r.store.Append(ctx, r.ref, after, lines...)
		}
		if err == nil {
			r.history.end = end
		}
		return err
	})
}

// countAppended returns how many of the messages are in the transcript after an append that failed,
// always the first ones, and moves the end there. Lines that another owner wrote make the next
// append conflict.
func (r *turnRecord) countAppended(
	ctx context.Context, messages []Message,
) (n int, err error) {
	err = attemptOn(r.store, func() error {
		for line, err := range r.store.Read(ctx, r.ref, session.LineQuery{After: r.history.end}) {
			m := line.Message
			if err != nil || n == len(messages) || !m.Time.Equal(messages[n].Time) ||
				m.Role != messages[n].Role || m.ID != messages[n].ID {
				return err
			}
			n, r.history.end = n+1, line.Pos
		}
		return nil
	})
	return n, err
}

func (r *turnRecord) logLoss(why string) {
	r.log.Warn("offshoot: the provider's form of a message was left out",
		"session", r.ref.Key.String(), "why", why)
}

func (r *turnRecord) logFailure(err error) {
	r.log.Warn("offshoot: a transcript cannot be reached", "session", r.ref.Key.String(),
		"error", err.Error())
}

// startRunner notes that what is added from here on comes from the Runner.
func (r *turnRecord) startRunner() { r.runnerStarted = true }

// finish appends what the Runner returned, unless it has recorded that itself, and a failed result
// for each tool call that has none. What it appends is not among the messages of the Runner: a text
// that is an answer needs no fallback, and another one is none, see [announce.Fallback].
func (r *turnRecord) finish(ctx context.Context, res Result, after ...Message) error {
	text := res.Text
	if text == "" && len(res.JSON) > 0 {
		text = string(res.JSON)
	}
	r.mu.Lock()
	r.runnerStarted = false
	n := len(r.recorded)
	recordedAlready := n > 0 && r.recorded[n-1].Role == session.MessageAssistant &&
		r.recorded[n-1].Text == text
	r.mu.Unlock()
	var answer []Message
	if text != "" && !recordedAlready {
		answer = []Message{{Role: session.MessageAssistant, Text: text, Model: res.Model}}
	}
	_, err := r.write(ctx, true, append(answer, after...)...)
	return err
}

// close ends the record and returns the end of the transcript. What a Runner records after its turn
// is refused. The history is left to the next turn, unless a read would have to put into order what
// follows it.
func (r *turnRecord) close() session.Pos {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.lease != nil && r.conversation.isClosed() {
		r.hot.give(r.lease, r.history)
	}
	r.closed = true
	return r.history.end
}

// runnerMessages returns what the Runner recorded, without the answers of the session tools: those
// are Offshoot's and never count as a result.
func (r *turnRecord) runnerMessages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ours []string
	var others []Message
	for _, m := range r.recorded {
		if m.Role == session.MessageAssistant {
			ours = nil // an id may come again in a later message
		}
		for _, c := range m.ToolCalls {
			if slices.Contains(sessionToolNames, c.Name) {
				ours = append(ours, c.ID)
			}
		}
		if m.Role != session.MessageTool || !slices.Contains(ours, m.ToolCallID) {
			others = append(others, m)
		}
	}
	return others
}
