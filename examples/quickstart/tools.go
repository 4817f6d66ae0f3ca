package main

import (
	"context"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"
)

// A source is where a tool gets its answers. It can be put on hold, like a service that is slow: a
// call then waits until the source is released or the context of the call ends.
type source struct {
	desk *desk
	gate chan struct{} // nil while the source answers at once
	wait int           // how many calls are waiting
}

// A desk holds the sources of the bot's tools and counts the calls that wait at them.
type desk struct {
	mu            sync.Mutex
	changed       chan struct{} // closed and replaced when a call begins to wait
	trains, guide source
}

func newDesk() *desk {
	d := &desk{changed: make(chan struct{})}
	d.trains.desk, d.guide.desk = d, d
	return d
}

// tools returns the bot's own tools. The rules decide which agent gets which.
func (d *desk) tools() []agent.Tool {
	type journey struct {
		To string `json:"to" doc:"the town to go to"`
	}
	type entry struct {
		Place string `json:"place"`
		Topic string `json:"topic" doc:"sleep, eat, see or rain"`
	}
	return []agent.Tool{
		agent.NewTool(
			"timetable",
			"Trains from Cologne to a town and back.",
			func(ctx context.Context, in journey) (string, error) {
				if err := d.trains.waitOpen(ctx); err != nil {
					return "", err
				}
				return findEntry(in.To, "trains"), nil
			},
		),
		agent.NewTool(
			"guidebook",
			"One entry on a town: sleep, eat, see or rain.",
			func(ctx context.Context, in entry) (string, error) {
				if err := d.guide.waitOpen(ctx); err != nil {
					return "", err
				}
				return findEntry(in.Place, in.Topic), nil
			},
		),
	}
}

// hold makes every later call of the source wait until release.
func (s *source) hold() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if s.gate == nil {
		s.gate = make(chan struct{})
	}
}

// release ends hold: the waiting calls go on.
func (s *source) release() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// waitOpen returns when the source answers, or with the cause of the end of ctx.
func (s *source) waitOpen(ctx context.Context) error {
	s.desk.mu.Lock()
	gate := s.gate
	if gate == nil {
		s.desk.mu.Unlock()
		return nil
	}
	s.wait++
	close(s.desk.changed)
	s.desk.changed = make(chan struct{})
	s.desk.mu.Unlock()

	defer func() {
		s.desk.mu.Lock()
		s.wait--
		s.desk.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waiting returns how many are waiting, and a channel that is closed when there is one more.
func (d *desk) waiting() (int, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trains.wait + d.guide.wait, d.changed
}
