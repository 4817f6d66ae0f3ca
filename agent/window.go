package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent/internal/window"
	"github.com/offshoot-sdk/offshoot/internal/sat"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// A Window is how much of a conversation a model is shown. With the zero Window that is all of it.
//
// A model call has four fifths of the Tokens for the prompt, the tools and the conversation; the
// rest is for the answer. Before each call of a Loop, and at the beginning of each turn of another
// Runner, the conversation is measured. If it takes more, its beginning is replaced by a summary,
// and at most the last Keep messages stay, of which those that take half of the room. The summary
// is kept: later turns begin with it. The transcript keeps every message, and [Session.History]
// shows them. What is too large even so is cut where the model is shown it, with a note: long
// texts, results of tools, arguments and parts.
//
// A call of a tool is never parted from its results, so that the last message with its results
// stays even if that is more than Keep. The conversation that a model is shown begins with a
// message of the user's role.
type Window struct {
	// Tokens is how many tokens the context of the model has: the prompt, the tools, the
	// conversation and the answer together. Zero: there is no window. Less fails the turn.
	Tokens int
	// Keep is how many messages stay at most beside the summary of those before. Zero: 20. Less
	// than zero fails the turn.
	Keep int
	// Compact returns a summary of messages, such as that of [Summarize]. It has two minutes, and
	// should return soon after ctx ends. If it fails, panics, does not return, or returns nothing
	// or more than it was given, the conversation stays as it is, and the turn is shown what of it
	// fits. It is then not called again in that turn, nor before it has returned. When it has
	// failed in three turns of a session one after the other, the summary before it stays, the
	// messages are left out for good, and the model is told how many. Of a summary that takes more
	// than a quarter of the room the model is shown a part. Nil: the messages are left out, and the
	// model is told how many.
	Compact func(ctx context.Context, req CompactRequest) (string, error)
	// Count counts the tokens of a text. Nil, and for a count below zero: four characters are one,
	// and where the usage of a call shows that they were more, as many more. A part, such as a
	// picture, counts 1,600.
	Count func(text string) int
}

// ErrWindow is what errors.Is finds in every *[WindowError].
var ErrWindow = errors.New("agent: the window of the model is too small")

// A WindowError says that the prompt and the tools alone take more than a call may send, or leave
// no room for the newest message. The turn fails with it before the call.
type WindowError struct {
	Tokens int    // of the prompt and the tools
	Window int    // Window.Tokens
	Model  string // that of the turn; empty: the Runner's own default
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("%v: the prompt and the tools take %s, and of the %d that "+
		"Models.Window gives for model %q a call may send %d with the conversation", ErrWindow,
		text.Count(e.Tokens, "token", "tokens"), e.Window, e.Model, window.Limit(e.Window))
}

// Is reports whether target is [ErrWindow].
func (e *WindowError) Is(target error) bool { return target == ErrWindow }

// defaultKeep is how many messages stay beside a summary, unless the Window says otherwise.
const defaultKeep = 20

// A turnWindow is the Window of one turn, and what the turn has learnt of it.
type turnWindow struct {
	Window

	mu     sync.Mutex // held while the conversation is measured and compacted
	failed bool       // Compact has failed in this turn
	spent  error      // what Compact has spent was the last of a budget
	sent   int        // tokens that the last call was taken for
	calls  int        // how many messages there were then
	// scale is how many tokens of the provider one of the count is, and at least 1.
	scale float64
}

// windowField is the field of the Config that an error of a Window names.
const windowField = "Models.Window"

// callWindow calls what calls functions of the Window, in a goroutine of its own, and logs how one
// of them has broken it off.
func (t *Turn) callWindow(f func() error) error {
	err := protect(windowField, f)
	if failed, ok := errors.AsType[*CallbackError](err); ok && failed.Stack != nil {
		t.rt.log.Error("offshoot: a turn was broken off", "session", t.Session.Key.String(),
			"turn", t.N, "in", failed.Field, "error", redact(err).Error(),
			"stack", string(failed.Stack))
	}
	return err
}

// openWindow asks the Config for the window of the turn.
func (t *Turn) openWindow() error {
	of := t.rt.cfg().Models.Window
	if of == nil {
		return nil
	}
	err := t.callWindow(func() error {
		t.window.Window = of(t.Model)
		return nil
	})
	for name, n := range map[string]int{"Tokens": t.window.Tokens, "Keep": t.window.Keep} {
		if err == nil && n < 0 {
			err = &CallbackError{
				Field: windowField, Err: fmt.Errorf("%s is %d, which is negative", name, n),
			}
		}
	}
	return err
}

// counter returns what counts tokens for the turn.
func (w *turnWindow) counter() window.Counter { return window.Counter(w.Count) }

// View returns the conversation as a model is to be shown it now, within the [Window] of the turn:
// the Messages, and behind them what was written since the turn began. A Runner with a loop of its
// own calls it before each call of its model, in place of reading Messages; a [Loop] does so. If
// there is too much, the conversation is compacted first, which may take minutes. Messages that the
// Runner has set itself are not compacted, and only cut. The receiver must not change them.
//
// The error is a *[WindowError], a *[CallbackError] of the Window, [ErrBudget] if a summary has
// exhausted the budget, [ErrStale] after the turn, the cause of ctx, or that of the store.
func (t *Turn) View(ctx context.Context) ([]Message, error) {
	if err := t.rt.checked(ctx); err != nil {
		return nil, err
	}
	if err := t.err(); err != nil {
		return nil, err
	}
	messages, _, err := t.view(ctx)
	return messages, err
}

// view is View. It also returns how many of the messages, at the end, the turn has brought.
func (t *Turn) view(ctx context.Context) (messages []Message, fresh int, err error) {
	given := t.Messages
	if t.window.Tokens == 0 {
		messages, _ = t.log.since(given)
		return messages, len(messages) - len(given) + t.New, nil
	}
	err = t.callWindow(func() (err error) { // its Count is the caller's
		messages, fresh, err = t.viewWithin(ctx, given)
		return err
	})
	return messages, fresh, err
}

// viewWithin is view with a window.
func (t *Turn) viewWithin(
	ctx context.Context, given []Message,
) (fit []Message, fresh int, err error) {
	w := &t.window
	w.mu.Lock()
	defer w.mu.Unlock()
	fixed := t.fixedTokens()
	limit := window.Limit(w.Tokens)
	tooSmall := &WindowError{Tokens: fixed, Window: w.Tokens, Model: t.Model}
	if fixed >= limit {
		return nil, 0, tooSmall
	}
	messages, s := t.log.since(given)
	if s.whole {
		w.learn(messages)
	}
	room := window.Room(limit, fixed, w.scale)
	if s.whole && w.isOver(messages, s, room) {
		if err := t.replace(ctx, room, false); err != nil {
			return nil, 0, err
		}
		messages, s = t.log.since(given)
	}
	pinned := 0
	if s.compacted {
		pinned = 1
	}
	fit, kept, ok := w.counter().Fit(messages, pinned, room)
	if !ok {
		return nil, 0, tooSmall
	}
	_, size := w.counter().Messages(fit)
	w.sent, w.calls = sat.Add(fixed, size), len(messages)
	fresh = len(messages) - s.first
	if !s.whole {
		fresh = len(messages) - len(given) + t.New
	}
	return fit, min(fresh, kept), nil
}

// beginView sets the Messages to what a model is to be shown at the beginning of the turn.
func (t *Turn) beginView(ctx context.Context) error {
	if t.window.Tokens == 0 {
		return nil
	}
	messages, fresh, err := t.view(ctx)
	if err == nil {
		t.log.give(messages)
		t.Messages, t.New = messages, fresh
	}
	return err
}

// fixedTokens returns the tokens of what each call has beside the conversation.
func (t *Turn) fixedTokens() int {
	c := t.window.counter()
	n := sat.Add(c.Text(t.Prompt.String()), c.Text(string(t.Schema)))
	for i := range t.Tools {
		tool := &t.Tools[i]
		n = sat.Add(n, window.PerTool)
		for _, s := range [...]string{tool.Name, tool.Description, string(tool.Schema)} {
			n = sat.Add(n, c.Text(s))
		}
	}
	return n
}

// learn compares what the last call was taken for with what the provider says that it was.
func (w *turnWindow) learn(messages []Message) {
	if w.sent == 0 {
		return
	}
	for _, m := range messages[min(w.calls, len(messages)):] {
		if u := m.Usage; m.Role == session.MessageAssistant && !u.IsZero() {
			w.scale = window.Scale(w.sent, u, w.Tokens)
			break
		}
	}
	w.sent = 0
}

// isOver reports whether a conversation is to be compacted: it takes more than the room, or with
// what is fixed more than the limit by what the last call has used.
func (w *turnWindow) isOver(messages []Message, s sinceInfo, room int) bool {
	sizes, _ := w.counter().Messages(messages)
	if window.Capped(sizes, room) > room {
		return true
	}
	used := window.Used(messages, sizes, s.measured, w.Tokens)
	return used > window.Limit(w.Tokens)
}
