package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

const (
	channel = "terminal"
	person  = "me" // who types
)

// A screen is a channel with rooms and threads, which are lines of the terminal. It is the
// agent.ThreadHost of the bot.
type screen struct {
	mu      sync.Mutex
	out     io.Writer
	threads map[string]session.Route // by the key under which they were created
	said    map[string]bool          // the keys of farewells
}

func newScreen(out io.Writer) *screen {
	return &screen{
		out: out, threads: make(map[string]session.Route), said: make(map[string]bool),
	}
}

// route returns the conversation of "room" or "room/thread".
func route(name string) session.Route {
	room, thread, _ := strings.Cut(strings.TrimSpace(name), "/")
	return session.Route{Channel: channel, To: room, Thread: thread}.Clean()
}

// ownSession returns the session that a conversation has unless another one is bound to it.
func ownSession(at session.Route) (session.Key, error) {
	key, err := session.ChannelKey(session.DefaultAgent, at.Channel, at.To)
	if err != nil || at.Thread == "" {
		return key, err
	}
	return key.Thread(at.Thread)
}

// show writes a line of a conversation.
func (s *screen) show(at session.Route, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(at, text)
}

func (s *screen) write(at session.Route, text string) error {
	name := at.To
	if at.Thread != "" {
		name += "/" + at.Thread
	}
	_, err := fmt.Fprintf(s.out, "[%s] %s\n", name, text)
	return err
}

// CreateThread implements agent.ThreadHost: one thread for one key.
func (s *screen) CreateThread(
	_ context.Context, t agent.NewThread,
) (session.Route, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made, ok := s.threads[t.Key]; ok {
		return made, nil
	}
	made := t.In
	made.Thread = fmt.Sprint(len(s.threads) + 1)
	s.threads[t.Key] = made
	return made, s.write(made, t.Name+": "+t.Intro)
}

// Farewell implements agent.ThreadHost: it says each farewell once.
func (s *screen) Farewell(_ context.Context, f agent.Farewell) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[f.Key] {
		return nil
	}
	s.said[f.Key] = true
	return s.write(f.Route, f.Text)
}

// ProbeThread implements agent.ThreadHost: a thread of this process is open, any other one is gone
// with its process.
func (s *screen) ProbeThread(
	_ context.Context, at session.Route,
) (agent.ThreadState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.threads {
		if made == at {
			return agent.ThreadOpen, nil
		}
	}
	return agent.ThreadGone, nil
}
