package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent"
)

// crash lets the process die in the middle of a tree of runs and starts another one over the same
// store.
func (s *story) crash(ctx context.Context, o options) (err error) {
	dead, c := s.process, s.chronicle
	s.paper.title("6", "A crash, and the restart")
	if err := c.begin(ctx, dead); err != nil {
		return err
	}
	dead.desk.guide.hold()
	if _, err := dead.chat.Post(ctx, agent.Incoming{ID: "request-3", Text: thirdTask}); err != nil {
		return err
	}
	if err := c.recordUntil(ctx, c.blockedOn(min(maxRunningTurns, o.depth))); err != nil {
		return err
	}
	if err := s.pause(ctx, lookPause); err != nil {
		return err
	}
	before := slices.Clone(c.runs)

	s.paper.say(
		"Here the process dies: no Shutdown, no last word. Another one opens the same store.",
	)
	if s.process, err = start(ctx, s.bot, s.store); err != nil {
		s.process = dead
		return err
	}
	defer func() { err = errors.Join(err, dead.end()) }()
	c.takeOver(s.process)
	if err := c.recordUntil(ctx, c.isAnswered); err != nil {
		return err
	}
	s.showFates(before)
	for _, d := range s.process.witness.repliesSoFar() {
		s.paper.box("the reply, from the new process", strings.Split(d.Reply.Text, "\n"), blue)
	}
	return s.wakeDeadProcess(ctx, dead)
}

// showFates shows what became of each run.
func (s *story) showFates(before []agent.RunInfo) {
	t := &table{
		head:  []string{"run", "at the crash", "now", "announced", ""},
		right: []bool{false, false, false, true},
	}
	for _, r := range s.chronicle.runs {
		var was agent.Status
		same := func(b agent.RunInfo) bool { return b.ID == r.ID }
		if i := slices.IndexFunc(before, same); i >= 0 {
			was = before[i].Status
		}
		then, fate := fateOf(was, r)
		n := s.process.witness.timesTold(r.Parent, r.ID)
		t.add(
			span{r.Label, normal}, span{then, dim}, span{r.Status.String(), colourOf(r.Status)},
			spanOfCount(n, 1, "once"), span{fate, dim},
		)
	}
	s.paper.print()
	s.paper.table(t)
	s.paper.print()
}

// fateOf says which status a run had at the crash, and what became of it after that.
func fateOf(was agent.Status, r agent.RunInfo) (then, fate string) {
	switch {
	case was == 0 && strings.HasSuffix(r.Label, againSuffix):
		return "-", "asked for again by the agent that was told"
	case was == 0:
		return "-", "new"
	case was.Terminal():
		fate = "had ended: kept, not run again"
	case r.Status == agent.StatusInterrupted:
		fate = "its turn was cut off: not silently repeated"
	case was == agent.StatusQueued:
		fate = "had not begun: it began now"
	default:
		fate = "had no turn under way: it went on"
	}
	return was.String(), fate
}

func colourOf(s agent.Status) style {
	if s == agent.StatusOK {
		return green
	}
	return red
}

// spanOfCount renders n: as the word if n is want, otherwise as a number in red.
func spanOfCount(n, want int, word string) span {
	if n == want {
		return span{word, green}
	}
	return span{fmt.Sprintf("%d times", n), red}
}

// wakeDeadProcess lets the dead process go on. Its next write is refused, because another process
// has the store by now.
func (s *story) wakeDeadProcess(ctx context.Context, dead *process) error {
	runs, said := len(s.chronicle.runs), len(s.process.witness.repliesSoFar())
	dead.desk.guide.release()
	for {
		e, err := dead.next(ctx, nil)
		if err != nil {
			return err
		}
		if err := s.chronicle.writeJSON(*e); err != nil {
			return err
		}
		if e.Kind != agent.EventLost {
			continue
		}
		tree, err := s.process.chat.Tree(ctx)
		if err != nil {
			return err
		}
		now := slices.DeleteFunc(
			tree, func(r agent.RunInfo) bool { return s.chronicle.run(r.ID) == nil },
		)
		s.paper.say(
			"A process that was only believed dead wakes up and wants to write what it had in hand:",
		)
		s.paper.text(oneLine(e.Error), red)
		t := &table{head: []string{"what it has changed", ""}}
		t.add(span{"runs", normal}, spanOfZero(len(now)-runs))
		t.add(
			span{"messages to the person", normal},
			spanOfZero(len(s.process.witness.repliesSoFar())-said),
		)
		s.paper.print()
		s.paper.table(t)
		return nil
	}
}
