package spawn

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/enum"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

const (
	// MaxMilestones is how many milestones a run reports at most, and a turn of a top-level
	// session.
	MaxMilestones = tree.MaxMilestones
	// MaxProgress is how many runes of the text of a Progress are kept and shown.
	MaxProgress = tree.MaxMilestone
	// progressEvery is the least time between two EventProgress of a turn.
	progressEvery = 250 * time.Millisecond
)

// A Progress is how far the work of a turn has come.
type Progress struct {
	// Text says it in a line: line breaks become spaces, characters that are not drawn are taken
	// out, and of a longer text the first [MaxProgress] runes are kept.
	Text string
	// Percent is how much of the work is done, from 0 to 100. 0: that is not known.
	Percent int
	// Milestone says that the Progress is kept, as a fact of the tree; it needs a Text.
	Milestone bool
}

// clean returns p with the Text as it is shown, or an *InputError.
func (p Progress) clean() (Progress, error) {
	if p.Percent < 0 || p.Percent > 100 {
		reason := strconv.Itoa(p.Percent) + ": want 0 to 100"
		return p, &InputError{Field: "Progress.Percent", Reason: reason}
	}
	p.Text = text.Line(text.Cut(p.Text, maxProgressBytes))
	n := 0
	for i := range p.Text {
		if n++; n > MaxProgress {
			p.Text = p.Text[:i]
			break
		}
	}
	if text.IsBlank(p.Text) {
		p.Text = ""
	}
	if p.Text == "" && (p.Milestone || p.Percent == 0) {
		return p, &InputError{Field: "Progress.Text", Reason: "it is empty, and says nothing"}
	}
	return p, nil
}

// maxProgressBytes bounds how much of a text Progress.clean looks at.
const maxProgressBytes = 16 * MaxProgress

// Report says how far the turn has come. What is not a milestone is shown to those who watch the
// tree, as an [EventProgress], and not kept: at most four in a second, of which each is the newest
// then. The last one is shown before the turn ends.
//
// A milestone is a fact, and an [EventMilestone]. Report returns when it is durable. A run reports
// at most [MaxMilestones], over all of its turns, and each turn of a top-level session as many. A
// requester that asked for them with Request.Milestones gets the newest of each child as an
// [InputMilestone] with its next turn, or with [TurnInput.Take]: it starts no turn. A session whose
// turns the caller runs has the events alone.
//
// The error is an *[InputError] for a Percent out of range, a milestone without a text and a
// Progress that says nothing, a *[LimitError] for one milestone too many, [ErrStale] after the
// turn, or one that every command can return. A milestone that is [ErrUnconfirmed] may be reported
// again; then there may be two of it. A turn that repeats one that a crash interrupted reports
// anew.
func (t *TurnInput) Report(ctx context.Context, p Progress) error {
	if err := t.Err(); err != nil {
		return err
	}
	p, err := p.clean()
	if err != nil {
		return err
	}
	if !p.Milestone {
		t.progress.offer(t, p)
		return nil
	}
	t.progress.drop()
	return repeatable(t.do(ctx, &tree.Report{
		Run: t.run.Key(), N: uint32(t.N), Text: tree.Text(p.Text), Percent: uint8(p.Percent),
	}, nil), repeatAsIs)
}

// event returns an event of the turn that is not kept.
func (t *TurnInput) event(kind EventKind) TreeEvent {
	return TreeEvent{
		Kind: kind, Time: time.Now(), Session: t.Session.Key, Run: t.Run.ID,
		Parent: t.Session.Parent, Agent: t.Session.Key.Agent(), Model: t.model, Label: t.Run.Label,
		Depth: t.Session.Depth, Turn: t.N, Status: StatusRunning,
	}
}

// showProgress shows a Progress to those who watch the tree.
func (t *TurnInput) showProgress(p Progress) {
	e := t.event(EventProgress)
	e.Text, e.Percent = p.Text, p.Percent
	t.shell.showLive(e)
}

// A ToolEvent is what an EventTool and an EventToolEnded say of the call of a tool.
type ToolEvent struct {
	// Call is the id of the call. Calls that are made at the same time have different ones.
	Call string `json:"call,omitempty"`
	Name string `json:"name"`
	// Effect is what the tool declares that it does. Empty: nothing is known of it.
	Effect string `json:"effect,omitempty"`
	// Outcome is how the call ended: StatusOK, StatusFailed, StatusTimedOut or StatusCancelled. The
	// zero Status is that of an EventTool.
	Outcome Status `json:"outcome,omitzero"`
	// Took is how long the call took, in an EventToolEnded.
	Took time.Duration `json:"took,omitempty"`
}

// ShowTool shows the call of a tool to those who watch the tree: an [EventToolEnded] if e has an
// Outcome, else an [EventTool]. The text is that of the event: the arguments, or the answer. It is
// not recorded, and after the turn nothing is shown.
func (t *TurnInput) ShowTool(e ToolEvent, text string) {
	if t.Over() != nil {
		return
	}
	kind := EventTool
	if e.Outcome != 0 {
		kind = EventToolEnded
	}
	shown := t.event(kind)
	shown.Tool, shown.Text = &e, text
	t.shell.showLive(shown)
}

// Watched reports whether there is a watcher of the tree, for a caller to which it costs something
// to make what the methods of the turn show.
func (t *TurnInput) Watched() bool { return t.shell.watched() }

// A DeltaForm says in which form a watcher gets what models write.
type DeltaForm uint8

// The forms of deltas.
const (
	DeltasNone  DeltaForm = iota // there are no EventDelta
	DeltasShown                  // as people may see it
	DeltasRaw                    // as the model writes it, also thoughts and credentials
)

var deltaForms = [...]string{"none", "shown", "raw"}

// String returns the name of the form: "none", "shown" or "raw".
func (f DeltaForm) String() string { return enum.String(deltaForms[:], "DeltaForm", f) }

// MarshalText returns the name. A value that is not a DeltaForm is an error.
func (f DeltaForm) MarshalText() ([]byte, error) {
	return enum.Marshal(deltaForms[:], "spawn", "form of deltas", f)
}

// UnmarshalText sets f to the DeltaForm of that name, in any letter case of ASCII.
func (f *DeltaForm) UnmarshalText(text []byte) error {
	return enum.Unmarshal(deltaForms[:], "spawn", "form of deltas", text, f)
}

// A Delta is a piece of an answer of a model, as it comes.
type Delta struct {
	// Raw is the piece for those who ask for DeltasRaw, and Shown for those who ask for
	// DeltasShown. Where one is empty, these get nothing.
	Raw, Shown string
	// Void says that what has come of the answer so far counts for nothing, because the model is
	// asked again. All who watch it get that, without a text.
	Void bool
	Err  error // why it is void; may be nil
}

// shownAnswer is the answer of a model of which deltas are shown.
type shownAnswer struct {
	mu    sync.Mutex
	n     int    // it is the n-th of the turn; 0: there was none yet
	since uint64 // a watcher whose number is not larger was there when it began
}

// BeginAnswer says that the deltas that follow are of another answer of a model. It returns in
// which forms the answer is watched, now and until the next one: who comes to watch while an answer
// is under way gets the deltas from the next one on.
func (t *TurnInput) BeginAnswer() (shown, raw bool) {
	t.answer.mu.Lock()
	defer t.answer.mu.Unlock()
	t.answer.n++
	t.answer.since = t.shell.sup.joined.Load()
	return t.shell.watchesDeltas()
}

// Delta shows text to those who watch the tree, as the model produces it, in either form alike. See
// [TurnInput.ShowDelta], which shows a text for each form.
func (t *TurnInput) Delta(shown string) { t.ShowDelta(Delta{Raw: shown, Shown: shown}) }

// ShowDelta shows a piece of an answer to those who watch the tree and were there when the answer
// began, see [TurnInput.BeginAnswer]. The text is not recorded. After the turn nothing is shown. A
// text is cut as that of a result is.
func (t *TurnInput) ShowDelta(d Delta) {
	if t.Over() != nil {
		return
	}
	t.answer.mu.Lock()
	if t.answer.n == 0 {
		t.answer.n, t.answer.since = 1, t.shell.sup.joined.Load()
	}
	n, since := t.answer.n, t.answer.since
	t.answer.mu.Unlock()
	limit := t.shell.sup.cfg.Limits.MaxResult()
	e := t.event(EventDelta)
	e.Answer, e.Void, e.since = n, d.Void, since
	if d.Err != nil {
		e.Error = t.shell.sup.errorText(d.Err)
	}
	e.Text, e.raw = text.Bound(d.Shown, limit), text.Bound(d.Raw, limit)
	t.shell.showLive(e)
}

// in returns the text of a delta in a form.
func (e *TreeEvent) in(form DeltaForm) string {
	switch form {
	case DeltasShown:
		return e.Text
	case DeltasRaw:
		return e.raw
	default:
		return ""
	}
}

// A pacer shows the progress of one turn at a pace that people can follow. The zero pacer is ready.
type pacer struct {
	mu      sync.Mutex
	shown   time.Time // when one was shown
	waiting *Progress // the newest, which was not shown yet; nil: all were
	timer   *time.Timer
	left    chan struct{} // closed when the function of the timer has returned
	over    bool
}

// offer shows p, now or when it is time, unless a newer one comes until then.
func (c *pacer) offer(t *TurnInput, p Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := progressEvery - time.Since(c.shown)
	switch {
	case c.over:
	case wait <= 0 && c.timer == nil:
		c.shown = time.Now()
		t.showProgress(p)
	default:
		c.waiting = &p
		if c.timer == nil {
			left := make(chan struct{})
			c.left = left
			c.timer = time.AfterFunc(wait, func() {
				defer close(left)
				c.mu.Lock()
				defer c.mu.Unlock()
				c.timer = nil
				c.show(t)
			})
		}
	}
}

// show shows what waits. The caller holds the lock.
func (c *pacer) show(t *TurnInput) {
	if c.waiting != nil && !c.over && t.Over() == nil {
		c.shown = time.Now()
		t.showProgress(*c.waiting)
		c.waiting = nil
	}
}

// drop forgets what waits: a milestone is newer.
func (c *pacer) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = nil
}

// end shows what waits, and waits for the function of the timer. After it, nothing is shown.
func (c *pacer) end(t *TurnInput) {
	c.mu.Lock()
	c.show(t)
	c.over = true
	timer, left := c.timer, c.left
	c.mu.Unlock()
	if timer == nil || !timer.Stop() {
		if left != nil {
			<-left
		}
	}
}
