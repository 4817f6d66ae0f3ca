package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// turnRecord writes the transcript of one turn: first what is new, then what the Runner records, at
// last what it returned. The journal names the position that the turn committed; what lies beyond
// it in the transcript is an interrupted turn, and the next one fences it off.
type turnRecord struct {
	store session.Transcripts
	files session.Files // nil: none
	log   *slog.Logger
	ref   session.Ref
	life  context.Context //nolint:containedctx // of the turn, which may end before that of a call

	mu            sync.Mutex
	end           session.Pos
	conversation  conversation
	recorded      []Message // by the Runner
	runnerStarted bool
	closed        bool // the turn is over
}

// maxBeginAttempts is how often a turn begins its record at most. It begins again when a former
// owner has written in between.
const maxBeginAttempts = 3

// beginRecord writes what is new into the transcript and returns its record and the conversation,
// which ends with what is new. Tool calls that the turn before left without a result get a failed
// one first, so that a provider accepts what follows. A former owner of the session may still write
// until it learns that it is one: the journal has given the turn to this owner, so what the other
// writes meanwhile is fenced off. Later in the turn a conflict means that this process is the
// former owner.
func beginRecord(
	ctx context.Context, store *session.Store, log *slog.Logger, st *spawn.TurnInput,
	fresh []Message,
) (r *turnRecord, messages []Message, err error) {
	for n := range maxBeginAttempts {
		var written []Message
		if r, messages, err = openRecord(ctx, store, log, st, n == 0); err == nil {
			written, err = r.write(ctx, true, fresh...)
			messages = append(messages, written...)
		}
		corrupt := errors.Is(err, session.ErrCorrupt)
		if corrupt {
			ref := session.Ref{Key: st.Session.Key, SessionID: st.SessionID}
			mend(ctx, store.Transcripts, log, ref, err)
		}
		if !corrupt && !errors.Is(err, session.ErrConflict) {
			break
		}
	}
	return r, messages, err
}

// openRecord returns the record of a turn and the conversation so far.
//
// The journal may say that more was committed than the transcript holds. Then an editor or a disk
// has lost lines. The session goes on from what there is, up to the last place at which no tool
// call waits for its result, and the loss is logged. Notes take the place of the lines, so that the
// transcript reaches the position again: otherwise what follows, also what an interrupted turn
// leaves, would count as committed.
//
// The transcript may also hold more than the journal knows, after an interrupted turn or after the
// journal was repaired. Then a fence discards the rest. The first attempt does not read the
// transcript of a new session.
func openRecord(
	ctx context.Context, store *session.Store, log *slog.Logger, st *spawn.TurnInput,
	first bool,
) (*turnRecord, []Message, error) {
	ref := session.Ref{Key: st.Session.Key, SessionID: st.SessionID}
	r := &turnRecord{
		store: store.Transcripts, files: store.Files, log: log, ref: ref, life: ctx,
	}
	if first && st.Run.ID != "" && st.N == 1 {
		return r, nil, nil // a new session
	}
	var lines []session.Line
	read := func() error {
		lines = nil
		for line, err := range r.store.Read(ctx, r.ref, session.LineQuery{}) {
			if err != nil {
				return err
			}
			lines = append(lines, line)
			r.end = line.Pos
		}
		return nil
	}
	err := r.retry(ctx, func() error { return attempt(read) })
	if err != nil {
		return nil, nil, fmt.Errorf("agent: reading the transcript of %q: %w", r.ref.Key, err)
	}
	kept := committed(lines, st.Pos)
	switch {
	case r.end < st.Pos:
		kept = dropOpenCalls(kept)
		err = r.fillGap(ctx, kept, st.Pos)
	case r.end > st.Pos:
		err = r.append(ctx, session.Fence(st.Pos, time.Now()))
	}
	if err != nil {
		return nil, nil, err
	}
	for i, line := range kept {
		if kept[i], err = r.whole(ctx, line); err != nil {
			return nil, nil, err
		}
	}
	history, c := readConversation(kept)
	r.conversation = c
	return r, history, nil
}

// committed returns the conversation up to a position. What a note beyond it discards was lost, see
// fillGap, or lies beyond it, too.
func committed(lines []session.Line, end session.Pos) (kept []session.Line) {
	upToEnd := func(yield func(session.Line, error) bool) {
		for _, line := range lines {
			if (line.Pos <= end || line.Message.Role == session.MessageNote) && !yield(line, nil) {
				return
			}
		}
	}
	for line := range session.Committed(upToEnd) { //nolint:errcheck // they have been read
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

// maxGapNote is how many bytes a note has at most that takes the place of lost lines.
const maxGapNote = 1 << 20

// fillGap appends notes behind the lines that are kept until the transcript reaches a position.
func (r *turnRecord) fillGap(ctx context.Context, kept []session.Line, to session.Pos) error {
	found, after := r.end, session.Pos(0)
	if n := len(kept); n > 0 {
		after = kept[n-1].Pos
	}
	for r.end < to {
		note := session.LostLines(after, time.Now())
		note.Text += strings.Repeat(" ", int(min(to-r.end, maxGapNote)))
		if err := r.append(ctx, note); err != nil {
			return err
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
	take := func(limit int) ([]Message, error) {
		losses = nil
		for _, m := range messages {
			if m.Time.IsZero() {
				m.Time = now
			}
			n := len(r.conversation.queue)
			if err := r.conversation.accept(m); err != nil {
				return nil, err
			}
			if why := lossOf(m, r.conversation.queue[n:]); why != "" {
				losses = append(losses, why)
			}
		}
		return r.conversation.takeAll(fill, now, limit), nil
	}
	before, first := r.conversation.clone(), r.end
	if lines, err = take(math.MaxInt); err != nil {
		r.conversation = before
		return nil, err
	}
	n, err := r.appendLines(ctx, lines)
	if err != nil {
		r.conversation = before
		if r.end == first {
			return nil, err
		}
		_, _ = take(n) // which were accepted before
	}
	for _, why := range losses {
		r.logLoss(why)
	}
	if r.runnerStarted {
		r.recorded = append(r.recorded, messages...)
	}
	return lines[:n], err
}

// append appends lines to the transcript.
func (r *turnRecord) append(ctx context.Context, lines ...Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.appendLines(ctx, lines)
	return err
}

// appendLines appends lines, and returns how many are in the transcript then. It tries again until
// the store takes them, so that a store that fails for a while costs time, not a turn or a message;
// see retry. The caller holds the lock.
func (r *turnRecord) appendLines(ctx context.Context, lines []Message) (n int, err error) {
	if len(lines) == 0 {
		return 0, nil
	}
	rest, err := r.shorten(ctx, lines)
	if err != nil {
		return 0, fmt.Errorf("agent: writing the transcript of %q: %w", r.ref.Key, err)
	}
	err = r.retry(ctx, func() error {
		end := r.end
		err := attempt(func() (err error) {
			end, err = r.store.Append(ctx, r.ref, r.end, rest...)
			return err
		})
		if err != nil && !permanent(err) {
			rest = rest[r.countAppended(ctx, rest):]
			if len(rest) == 0 {
				return nil
			}
		}
		if err == nil {
			r.end, rest = end, nil
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("agent: writing the transcript of %q: %w", r.ref.Key, err)
	}
	return len(lines) - len(rest), err
}

// countAppended returns how many of the messages are in the transcript after an append that failed,
// always the first ones, and moves the end there. Lines that another owner wrote make the next
// append conflict.
func (r *turnRecord) countAppended(ctx context.Context, messages []Message) (n int) {
	_ = attempt(func() error { // the next append tells what this does not
		for line, err := range r.store.Read(ctx, r.ref, session.LineQuery{After: r.end}) {
			m := line.Message
			if err != nil || n == len(messages) || !m.Time.Equal(messages[n].Time) ||
				m.Role != messages[n].Role || m.ID != messages[n].ID {
				break
			}
			n, r.end = n+1, line.Pos
		}
		return nil
	})
	return n
}

func (r *turnRecord) logLoss(why string) {
	r.log.Warn("offshoot: the provider's form of a message was left out",
		"session", r.ref.Key.String(), "why", why)
}

func (r *turnRecord) logFailure(err error) {
	r.log.Warn("offshoot: a transcript cannot be reached", "session", r.ref.Key.String(),
		"error", err.Error())
}

// Pauses between attempts at a store that fails.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

var errStoreExited = errors.New("agent: the store ended its goroutine")

// attempt calls f in a goroutine of its own, so that a store that panics or ends its goroutine has
// failed and nothing else.
func attempt(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errStoreExited // unless f returns
		defer func() {
			if p := recover(); p != nil {
				err = &spawn.PanicError{Value: p, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}

// retry calls f until it succeeds, returns a permanent error, or ctx ends. What f asks of a store,
// it asks with attempt. A shutdown that cancels the turn ends the pause before the next try, which
// is the last one.
func (r *turnRecord) retry(ctx context.Context, f func() error) error {
	life, last := r.life.Done(), false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := f()
		if err == nil || permanent(err) || ctx.Err() != nil || last {
			return err
		}
		if pause == firstPause {
			r.logFailure(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		case <-life:
			life = nil
			cause := context.Cause(r.life) //nolint:contextcheck // the turn's, not the call's
			last = errors.Is(cause, spawn.ErrShutdown)
		}
	}
}

// permanent reports whether an error of a store stays however often the call is repeated. What a
// store panics with says nothing of that.
func permanent(err error) bool {
	if _, panicked := errors.AsType[*spawn.PanicError](err); panicked {
		return false
	}
	return session.IsPermanent(err)
}

// startRunner notes that what is added from here on comes from the Runner.
func (r *turnRecord) startRunner() { r.runnerStarted = true }

// finish appends what the Runner returned, unless it has recorded that itself, and a failed result
// for each tool call that has none.
func (r *turnRecord) finish(ctx context.Context, res Result) error {
	text := res.Text
	if text == "" && len(res.JSON) > 0 {
		text = string(res.JSON)
	}
	r.mu.Lock()
	n := len(r.recorded)
	recordedAlready := n > 0 && r.recorded[n-1].Role == session.MessageAssistant &&
		r.recorded[n-1].Text == text
	r.mu.Unlock()
	var answer []Message
	if text != "" && !recordedAlready {
		answer = []Message{{Role: session.MessageAssistant, Text: text, Model: res.Model}}
	}
	_, err := r.write(ctx, true, answer...)
	return err
}

// close ends the record and returns the end of the transcript. What a Runner records after its turn
// is refused.
func (r *turnRecord) close() session.Pos {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.end
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
