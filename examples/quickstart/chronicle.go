package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// A chronicle writes down the events of the tree, and knows from them when a request is answered.
type chronicle struct {
	paper *paper
	lines io.Writer // events as JSON lines; nil: none
	brief bool      // leave out the rows that only repeat or refine others
	start time.Time

	process            *process
	earlier            []agent.RunID   // of former chapters
	runs               []agent.RunInfo // of this chapter, by admission, as last seen
	refusals           int             // how many have been written down
	turns              int             // of the person's session under way
	calls              int             // of tools under way
	turnsEnded         int             // the number of its last turn that has ended
	undeliveredReplies int             // replies that have not arrived
	answered           bool            // something has been said since the request
	stopped            bool            // the person's session is stopped and not ready yet
}

// begin starts a chapter.
func (c *chronicle) begin(ctx context.Context, p *process) error {
	*c = chronicle{
		paper: c.paper, lines: c.lines, brief: c.brief, start: time.Now(), process: p,
		refusals: c.refusals,
	}
	tree, err := p.chat.Tree(ctx)
	if errors.Is(err, agent.ErrNotFound) { // the conversation has not begun
		return nil
	}
	for _, r := range tree {
		c.earlier = append(c.earlier, r.ID)
	}
	return err
}

// takeOver goes on with the chapter in another process. Replies that the former process had not
// delivered are no longer expected.
func (c *chronicle) takeOver(p *process) {
	c.process, c.refusals, c.turns, c.calls = p, 0, 0, 0
	c.undeliveredReplies, c.answered = 0, false
}

// recordUntil writes down events until enough returns true. It calls enough at the beginning, after
// each event, and when a call begins to wait at one of the desk's sources.
func (c *chronicle) recordUntil(
	ctx context.Context, enough func(ctx context.Context) (bool, error),
) error {
	for {
		_, changed := c.process.desk.waiting()
		if ok, err := enough(ctx); ok || err != nil {
			return err
		}
		e, err := c.process.next(ctx, changed)
		if err != nil {
			return err
		}
		if e != nil {
			if err := c.record(ctx, *e); err != nil {
				return err
			}
		}
	}
}

// isAnswered reports whether the person has the answer: every run has ended, every run that the
// person's session asked for was announced to it in a turn that has ended, and its reply to that
// was delivered. The witness is ahead of the events, so the events have the last word.
func (c *chronicle) isAnswered(context.Context) (bool, error) {
	for _, r := range c.runs {
		if !r.Status.Terminal() {
			return false, nil
		}
		if r.Depth > 1 {
			continue
		}
		turn, told := c.process.witness.turnOf(chatKey, r.ID)
		if !told || turn > c.turnsEnded {
			return false, nil
		}
	}
	return c.answered && c.turns == 0 && c.undeliveredReplies == 0, nil
}

// blockedOn returns a condition for recordUntil. It holds when the given number of turns is under
// way, each of them waits at one of the desk's sources, and every other event is written down.
func (c *chronicle) blockedOn(turns int) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if n, _ := c.process.desk.waiting(); n != turns || c.count(agent.StatusRunning) != turns ||
			c.calls != turns ||
			!c.answered ||
			c.turns > 0 ||
			c.undeliveredReplies > 0 {
			return false, nil
		}
		return c.upToDate(ctx)
	}
}

// allStopped is a condition for recordUntil. It holds when every run has ended and the person's
// session takes requests again.
func (c *chronicle) allStopped(context.Context) (bool, error) {
	return c.alive() == 0 && !c.stopped, nil
}

// upToDate reports whether the chronicle has the present status of every run of this chapter.
func (c *chronicle) upToDate(ctx context.Context) (bool, error) {
	tree, err := c.process.chat.Tree(ctx)
	if err != nil {
		return false, err
	}
	for _, now := range tree {
		if slices.Contains(c.earlier, now.ID) {
			continue
		}
		if r := c.run(now.ID); r == nil || r.Status != now.Status {
			return false, nil
		}
	}
	return true, nil
}

// count counts the runs with a status.
func (c *chronicle) count(s agent.Status) (n int) {
	for _, r := range c.runs {
		if r.Status == s {
			n++
		}
	}
	return n
}

// alive counts the runs that have not ended.
func (c *chronicle) alive() (n int) {
	for _, r := range c.runs {
		if !r.Status.Terminal() {
			n++
		}
	}
	return n
}

// writeJSON writes an event down for programs, if that is wanted.
func (c *chronicle) writeJSON(e agent.TreeEvent) error {
	if c.lines == nil {
		return nil
	}
	data, err := json.Marshal(e)
	if err == nil {
		_, err = c.lines.Write(append(data, '\n'))
	}
	return err
}

// record updates the state of the chronicle and writes one event down.
func (c *chronicle) record(ctx context.Context, e agent.TreeEvent) error {
	if err := c.writeJSON(e); err != nil {
		return err
	}
	if err := c.updateState(ctx, e); err != nil {
		return err
	}
	for _, r := range c.process.witness.refusalsFrom(c.refusals) {
		if r.at.After(e.Time) {
			break
		}
		c.refusals++
		c.recordRefusal(r)
	}
	if kind, what, s := c.describe(e); kind != "" && !(c.brief && isDetail(e)) {
		c.row(e.Time, e.Depth, c.nameOf(e), kind, what, s)
	}
	return nil
}

// updateState updates the fields that isAnswered and alive read.
func (c *chronicle) updateState(ctx context.Context, e agent.TreeEvent) error {
	top := e.Depth == 0
	switch e.Kind {
	case agent.EventAdmitted:
		tree, err := c.process.chat.Tree(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(tree, func(r agent.RunInfo) bool { return r.ID == e.Run })
		if i < 0 {
			return fmt.Errorf("the run %s was admitted and is not in the tree", e.Run)
		}
		tree[i].Status = e.Status
		c.runs = append(c.runs, tree[i])
	case agent.EventTurn:
		if top {
			c.turns++
		}
	case agent.EventTurnEnded:
		if top {
			c.turns = max(c.turns-1, 0) // one that a crash interrupted began before the books
			c.turnsEnded = e.Turn
			if e.Text != "" {
				c.undeliveredReplies++
			}
		}
	case agent.EventStopping:
		c.stopped = c.stopped || top
	case agent.EventRecovered:
		c.stopped = false
	case agent.EventDelivered:
		c.undeliveredReplies--
		c.answered = true
	case agent.EventTool:
		c.calls++
	case agent.EventToolEnded:
		c.calls--
	default: // says nothing about whether the person has got an answer
	}
	if r := c.run(e.Run); r != nil && (e.Status.Terminal() == (e.Kind == agent.EventEnded)) &&
		e.Status != 0 {
		r.Status = e.Status
	}
	return nil
}

// run returns a run of this chapter.
func (c *chronicle) run(id agent.RunID) *agent.RunInfo {
	i := slices.IndexFunc(c.runs, func(r agent.RunInfo) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &c.runs[i]
}

// nameOf names a session for people.
func (c *chronicle) nameOf(e agent.TreeEvent) string {
	if e.Depth == 0 {
		return "main"
	}
	return e.Label + " (" + e.Session.Agent() + ")"
}

// isDetail reports whether the story in brief can do without an event: the beginning of a turn, the
// call of a tool, the words of a run whose end repeats them, what a run far down waits for and
// says, and the delivery of what main has said.
func isDetail(e agent.TreeEvent) bool {
	switch e.Kind {
	case agent.EventTurn, agent.EventDelivered, agent.EventTool, agent.EventToolEnded:
		return true
	case agent.EventTurnEnded:
		return e.Depth > 1 || e.Depth == 1 && e.Text != ""
	case agent.EventEnded:
		return e.Depth > 1 && e.Status == agent.StatusOK
	default:
		return false
	}
}

// describe puts an event into words. kind is "" for an event that adds nothing to the story.
func (c *chronicle) describe(e agent.TreeEvent) (kind, what string, s style) {
	switch e.Kind {
	case agent.EventPosted:
		return "asked", c.quoted(e.Text), blue
	case agent.EventAdmitted:
		return "allowed", c.whyAllowed(e), green
	case agent.EventTurn:
		return fmt.Sprintf("turn %d", e.Turn), c.toolsOf(e), dim
	case agent.EventTurnEnded:
		switch {
		case e.Status.Terminal() || e.Status == agent.StatusStopping: // its end comes next
			return "", "", normal
		case e.Text != "":
			return "says", c.quoted(e.Text), blue
		case !c.hasChildren(e.Session): // it was cut off: its end comes next
			return "", "", normal
		}
		return "waits", "for its sub-agents, without a slot or a model call", dim
	case agent.EventStopping:
		if e.Depth > 0 { // its end follows, and says why
			return "", "", normal
		}
		return "stopping", oneLine(e.Error), yellow
	case agent.EventEnded:
		if e.Status == agent.StatusOK {
			return "ok", c.quoted(e.Text), green
		}
		return e.Status.String(), oneLine(e.Error), red
	case agent.EventRecovered:
		return "ready", "for the next request", dim
	case agent.EventDelivered:
		return "delivered", "to the person", blue
	case agent.EventTool:
		return "calls", e.Tool.Name + " " + oneLine(e.Text), dim
	case agent.EventToolEnded:
		if e.Tool.Outcome == agent.StatusOK {
			return "gets", oneLine(e.Text), dim
		}
		return "gets", oneLine(e.Tool.Outcome.String() + ": " + e.Text), yellow
	case agent.EventDelta, agent.EventRefused: // the tool's answer says more, see recordRefusal
		return "", "", normal
	default: // nothing of this belongs to the story, so it had better be seen
		return e.Kind.String(), oneLine(e.Error + e.Text), yellow
	}
}

// hasChildren reports whether a session has sub-agents that have not ended.
func (c *chronicle) hasChildren(key session.Key) bool {
	return slices.ContainsFunc(c.runs, func(r agent.RunInfo) bool {
		return r.Parent == key && !r.Status.Terminal()
	})
}

// quoted returns a text between quotation marks, shortened so that the closing mark fits.
func (c *chronicle) quoted(s string) string {
	return "“" + shorten(oneLine(s), c.paper.width-50) + "”"
}

// whyAllowed says why a spawn was allowed.
func (c *chronicle) whyAllowed(e agent.TreeEvent) string {
	r := c.run(e.Run)
	rules := &c.process.cfg.Rules
	siblings := 0
	for _, s := range c.runs {
		if s.Parent == r.Parent && !s.Status.Terminal() {
			siblings++
		}
	}
	why := "its own agent"
	if r.Agent != r.Parent.Agent() {
		why = r.Agent + " is in allowAgents"
	}
	return fmt.Sprintf(
		"%s, depth %d/%d, child %d/%d", why, r.Depth, rules.MaxSpawnDepth(), siblings,
		rules.MaxChildren(),
	)
}

// toolsOf says what a sub-agent works with, in its first turn.
func (c *chronicle) toolsOf(e agent.TreeEvent) string {
	r := c.run(e.Run)
	if r == nil || e.Turn > 1 {
		return ""
	}
	var own []string
	for _, t := range c.process.cfg.Tools {
		if slices.Contains(r.Tools, t.Name) {
			own = append(own, t.Name)
		}
	}
	if slices.Contains(r.Tools, "sessions_spawn") {
		own = append(own, "the session tools")
	}
	return "with " + strings.Join(own, " and ")
}

// recordRefusal writes down a spawn that was refused.
func (c *chronicle) recordRefusal(r refusal) {
	name := r.label + " (" + r.Asked + ")"
	c.row(r.at, r.from.Depth+1, name, "refused", "by the rule "+r.Rule, red)
	for _, why := range []string{"asked   " + r.Asked, "limit   " + r.Limit, "set at  " + r.Path} {
		c.row(time.Time{}, 0, "", "", why, normal)
	}
}

// row writes one line: when, who, what.
func (c *chronicle) row(at time.Time, depth int, who, kind, what string, s style) {
	const nameWidth, kindWidth = 25, 11
	when := ""
	if !at.IsZero() {
		when = fmt.Sprintf("%.2f", max(at.Sub(c.start), 0).Seconds())
	}
	name := shorten(strings.Repeat("  ", depth)+oneLine(who), nameWidth)
	c.paper.print(
		span{fmt.Sprintf("   %5s  ", when), dim},
		span{pad(name, nameWidth+1), normal},
		span{pad(kind, kindWidth+1), s},
		span{what, normal},
	)
}

// pad fills a text with spaces.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}
