package spawn

import (
	"context"
	"strconv"
	"sync"
	"time"

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

// showProgress shows a Progress to those who watch the tree.
func (t *TurnInput) showProgress(p Progress) {
	t.shell.notifyWatchers(TreeEvent{
		Kind: EventProgress, Time: time.Now(), Session: t.Session.Key, Run: t.Run.ID,
		Depth: t.Session.Depth, Turn: t.N, Text: p.Text, Percent: p.Percent,
	})
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
