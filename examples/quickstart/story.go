package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// What the person asks after the first request.
const (
	secondTask = "And the same for Porto, to compare."
	thirdTask  = "Then Ljubljana instead, please."
)

// How long something is left to be looked at, how long the script thinks, and how long a page takes
// to read.
const (
	lookPause  = 600 * time.Millisecond
	thinkPause = 120 * time.Millisecond
	pagePause  = 700 * time.Millisecond
)

// storyTimeout is how long the whole story may take before it is given up.
const storyTimeout = time.Minute

// A story is the program: chapters about one bot and one store.
type story struct {
	bot       bot
	store     *session.Store
	paper     *paper
	chronicle *chronicle
	process   *process
	paced     bool // a person reads along, so pause between the pages
	all       bool // show everything
}

// tellStory tells the story from its beginning to its end and leaves nothing running.
func tellStory(ctx context.Context, o options, w workspace, stdout io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(
		ctx, storyTimeout, fmt.Errorf("the story was not over after %s", storyTimeout),
	)
	defer cancel()
	s := &story{
		store: session.NewMemory(), chronicle: &chronicle{brief: !o.all}, all: o.all || o.json,
	}
	if o.json {
		s.paper, s.chronicle.lines = &paper{out: io.Discard, width: maxWidth}, stdout
	} else {
		s.paper, s.paced = newPaper(stdout)
	}
	s.chronicle.paper = s.paper
	s.bot = bot{
		workspace: w, depth: o.depth,
		think: func(ctx context.Context) error { return s.pause(ctx, thinkPause) },
	}
	if s.process, err = start(ctx, s.bot, s.store); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.process.end()) }()

	s.opening(o)
	chapters := []func(context.Context, options) error{
		s.prompts, s.request, s.announcements, s.reply,
	}
	if s.all {
		chapters = append(chapters, s.cascade, s.crash)
	}
	for _, chapter := range chapters {
		if err := chapter(ctx, o); err != nil {
			return err
		}
		if err := s.pause(ctx, pagePause); err != nil {
			return err
		}
	}
	s.closing()
	return s.paper.err
}

// pause waits for d if a person reads along. It returns the cause of the end of ctx, if ctx ends.
func (s *story) pause(ctx context.Context, d time.Duration) error {
	if !s.paced {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *story) opening(o options) {
	p := s.paper
	p.print()
	p.print(
		span{"   OFFSHOOT", bold},
		span{"  quickstart: a small travel desk and its sub-agents", normal},
	)
	p.print()
	p.text(
		fmt.Sprintf(
			"Workspace: %s. Sub-agents: up to %d deep, %d turns at a time. The model is a script; "+
				"all else is the library's, as any bot would have it.",
			stripControls(s.bot.workspace.name),
			o.depth,
			maxRunningTurns,
		),
		dim,
	)
}

// request posts the first request and shows its spawns, decisions and events.
func (s *story) request(ctx context.Context, o options) error {
	s.paper.title("2", "A request: spawns, decisions, events")
	if err := s.chronicle.begin(ctx, s.process); err != nil {
		return err
	}
	if _, err := s.process.chat.Post(ctx, agent.Incoming{ID: "request-1", Text: o.task}); err != nil {
		return err
	}
	if err := s.chronicle.recordUntil(ctx, s.chronicle.isAnswered); err != nil {
		return err
	}
	if s.all {
		s.checkPrompts(ctx)
	}
	return nil
}

// announcements shows what the requesters' models were given: word for word what main was told the
// shortest of, and with -all a list of the others.
func (s *story) announcements(context.Context, options) error {
	s.paper.title("3", "The announcements, as delivered")
	var shortest announcement
	t := &table{head: []string{"to", "about", "status", "what the child said"}}
	text := ""
	for _, a := range s.process.witness.announcements() {
		e := readAnnouncement(a.text)
		if a.to == chatKey.String() && (text == "" || len(a.text) < len(text)) {
			shortest, text = e, a.text
		}
		t.add(
			span{s.nameOfSession(a.to), normal}, span{e.task, normal}, span{e.status, green},
			span{oneLine(strings.Join(e.result, " ")), dim},
		)
	}
	s.paper.box(
		"what main's model was given when "+shortest.task+" ended", strings.Split(text, "\n"), dim,
	)
	if s.all {
		s.paper.print()
		s.paper.table(t)
	}
	return nil
}

// nameOfSession names a session for people.
func (s *story) nameOfSession(key string) string {
	for _, r := range s.chronicle.runs {
		if r.Key.String() == key {
			return r.Label
		}
	}
	return "main"
}

// reply shows what reached the person. In brief it is the answer alone.
func (s *story) reply(context.Context, options) error {
	s.paper.title("4", "The reply, as the person reads it")
	replies := s.process.witness.repliesSoFar()
	if !s.all {
		replies = replies[max(len(replies)-1, 0):]
	}
	for _, d := range replies {
		lines := strings.Split(d.Reply.Text, "\n")
		s.paper.box("to Config.Reply, key …"+tail(d.Key, 12), lines, blue)
	}
	return nil
}

func tail(s string, n int) string { return s[max(len(s)-n, 0):] }

func (s *story) closing() {
	number := "7"
	options := [][2]string{
		{"-depth 3", "lets the tree grow; -depth 1 makes the specialists work alone"},
		{"-task TEXT", "asks for something else; the desk knows " + strings.Join(knownPlaces(), ", ")},
		{"-workspace DIR", "takes another workspace; edit a copy of examples/quickstart/workspace"},
		{"-json", "writes the events as JSON lines"},
	}
	if !s.all {
		number = "5"
		options = [][2]string{
			{"-all", "shows every section and event, then a stop, a crash and a restart"},
			{"-state DIR", "keeps everything in DIR: kill -9 it, run it again, and it goes on"},
			{"-h", "lists the other options"},
		}
	}
	s.paper.title(number, "Your turn")
	for _, l := range options {
		s.paper.print(span{"   " + pad(l[0], 16), cyan}, span{l[1], normal})
	}
	s.paper.print()
}
