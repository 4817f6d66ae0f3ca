package main

import (
	"context"
	"fmt"

	"github.com/offshoot-sdk/offshoot/agent"
)

// cascade stops a tree of runs in the middle of its work.
func (s *story) cascade(ctx context.Context, _ options) error {
	p, c := s.process, s.chronicle
	s.paper.title("5", "A stop: the whole tree, from the leaves up")
	if err := c.begin(ctx, p); err != nil {
		return err
	}
	p.desk.trains.hold()
	p.desk.guide.hold()
	if _, err := p.chat.Post(ctx, agent.Incoming{ID: "request-2", Text: secondTask}); err != nil {
		return err
	}
	if err := c.recordUntil(ctx, c.blockedOn(maxRunningTurns)); err != nil {
		return err
	}
	if err := s.pause(ctx, lookPause); err != nil {
		return err
	}
	before, said := p.witness.snapshot(), len(p.witness.repliesSoFar())
	s.paper.say("The timetable and the guidebook do not answer. The person says: stop.")
	if err := p.chat.Stop(ctx); err != nil {
		return err
	}
	if err := c.recordUntil(ctx, c.allStopped); err != nil {
		return err
	}
	after := p.witness.snapshot()
	s.paper.print()
	t := &table{head: []string{"what is left", ""}}
	t.add(span{"runs alive", normal}, spanOfZero(c.alive()))
	t.add(span{"turns under way", normal}, spanOfZero(after.live))
	t.add(span{"calls of tools that wait", normal}, spanOfZero(waitingAt(p)))
	t.add(span{"calls of the model since", normal}, spanOfZero(after.calls-before.calls))
	t.add(span{"announcements of stopped runs", normal}, spanOfZero(s.announced(p)))
	t.add(
		span{"messages to the person since", normal},
		spanOfZero(len(p.witness.repliesSoFar())-said),
	)
	s.paper.table(t)
	p.desk.trains.release()
	p.desk.guide.release()
	return ctx.Err()
}

func waitingAt(p *process) int {
	n, _ := p.desk.waiting()
	return n
}

// announced counts the announcements of the runs of this chapter.
func (s *story) announced(p *process) (n int) {
	for _, r := range s.chronicle.runs {
		n += p.witness.timesTold(r.Parent, r.ID)
	}
	return n
}

func spanOfZero(n int) span {
	if n == 0 {
		return span{"0", green}
	}
	return span{fmt.Sprint(n), red}
}
