package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

const usage = `usage: threads [-state DIR]

Threads is a chat server with rooms and threads. Type a room, a colon and a message:

  general: paint the door       the bot gives the work to its painter, in the thread general/1
  general/1: make it red        goes to the painter, which answers in its thread
  general/1: /unfocus           the thread is the bot's own again
  general: /subagents           lists who works for the room; /subagents help has all commands
  general: /subagents spawn painter a fence
  general: /focus last          opens a thread with the newest one
  bob@general/2: in blue        says it as bob instead of me; the guest may only look

Ctrl-C, or the end of the input, ends it.

  -state DIR    keeps everything in DIR; kill -9 the program at any moment, run it again, and
                people go on in the threads that they were in. Without -state it is forgotten.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	state := flag.String("state", "", "")
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "threads: unexpected argument %q\n%s", flag.Arg(0), usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	if err := run(ctx, *state, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

const (
	channel = "terminal"
	typist  = "me" // who types
)

// A screen is a channel with rooms and threads, which are lines of the terminal. It is the
// agent.ThreadHost of the bot.
type screen struct {
	mu      sync.Mutex
	out     io.Writer
	file    string            // that keeps the threads; empty: none does
	threads map[string]string // the name of each thread, by the key under which it was created
	said    map[string]bool   // the keys of farewells
}

// newScreen returns the screen with the threads that the directory state has.
func newScreen(out io.Writer, state string) (*screen, error) {
	s := &screen{out: out, threads: make(map[string]string), said: make(map[string]bool)}
	if state == "" {
		return s, nil
	}
	s.file = filepath.Join(state, "threads.json")
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.threads)
	}
	return s, err
}

// listen gives what is typed to hear, until the input ends. What hear says is wrong is shown.
func (s *screen) listen(in io.Reader, hear func(own session.Key, m agent.Incoming) error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20) // room for a message of 1,000,000 bytes
	for lines.Scan() {
		own, m, err := read(lines.Text())
		if err == nil {
			err = hear(own, m)
		}
		if err != nil {
			_ = s.show(m.Route, err.Error())
		}
	}
	if lines.Err() != nil {
		log.Print(lines.Err())
	}
}

// read returns what a line says, and the session that its conversation has unless another one is
// bound to it.
func read(line string) (own session.Key, m agent.Incoming, err error) {
	where, said, ok := strings.Cut(line, ":")
	if m.Text = strings.TrimSpace(said); !ok || m.Text == "" {
		return own, m, errors.New("type a room, a colon and a message")
	}
	m.From.ID = typist
	if who, place, other := strings.Cut(where, "@"); other {
		m.From.ID, where = strings.TrimSpace(who), place
	}
	m.Route = route(where)
	own, err = session.ChannelKey(session.DefaultAgent, channel, m.Route.To)
	if err == nil && m.Route.Thread != "" {
		own, err = own.Thread(m.Route.Thread)
	}
	return own, m, err
}

// route returns the conversation of "room" or "room/thread".
func route(name string) session.Route {
	room, thread, _ := strings.Cut(strings.TrimSpace(name), "/")
	return session.Route{Channel: channel, To: room, Thread: thread}.Clean()
}

// reply says what the bot and its sub-agents answer.
func (s *screen) reply(_ context.Context, d agent.Delivery) error {
	return s.show(d.Reply.Route, d.Reply.Text)
}

// show writes a text in a conversation.
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
	made := t.In
	if name, known := s.threads[t.Key]; known {
		made.Thread = name
		return made, nil
	}
	made.Thread = fmt.Sprint(len(s.threads) + 1)
	s.threads[t.Key] = made.Thread
	if err := s.keep(); err != nil {
		delete(s.threads, t.Key)
		return session.Route{}, err
	}
	return made, s.write(made, t.Name+": "+t.Intro)
}

// keep writes the threads to their file.
func (s *screen) keep() error {
	if s.file == "" {
		return nil
	}
	data, err := json.Marshal(s.threads)
	if err == nil {
		err = os.WriteFile(s.file+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(s.file+".new", s.file)
	}
	return err
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

// ProbeThread implements agent.ThreadHost: a thread that was created is open, any other one is
// gone with its process.
func (s *screen) ProbeThread(
	_ context.Context, at session.Route,
) (agent.ThreadState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.threads {
		if made == at.Thread {
			return agent.ThreadOpen, nil
		}
	}
	return agent.ThreadGone, nil
}
